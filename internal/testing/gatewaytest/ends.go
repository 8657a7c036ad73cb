package gatewaytest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// AcceptClose holds that an Upstream which is closed while it connects to a server that does not
// answer does not wait for that, nor does a call.
func AcceptClose(t *testing.T, build Build) {
	router, up, began := newRouter(t, nil), NewUpstream(t), make(chan struct{}, 8)
	up.Intercept = func(_ http.ResponseWriter, r *http.Request, m *Message) bool {
		if m.Method == "initialize" {
			began <- struct{}{}
			<-r.Context().Done()
		}
		return m.Method == "initialize"
	}
	gateway, closeUpstream := build(t, router, &Backend{Upstream: up})
	served := httptest.NewServer(gateway)
	t.Cleanup(served.Close)
	c := Connect(t, served.URL, forms, "", nil)
	ended := make(chan string, 2)
	go func() { ended <- c.Call(t, ToolAsk, plain) }()
	<-began
	go func() {
		closeUpstream()
		ended <- "closed"
	}()
	for range 2 {
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Fatal("the call or Close waits for the server")
		}
	}
}

// AcceptDelete holds that a client which ends its session in the middle of a question frees
// it at once: neither its DELETE nor the upstream waits for an answer.
func AcceptDelete(t *testing.T, build Gateway) {
	for _, mode := range modes() {
		t.Run(string(mode), func(t *testing.T) {
			router, up := newRouter(t, nil), NewUpstream(t)
			client := Connect(t, build(t, router, up, mode), forms, "", nil)
			stream := client.StartCall(t, ToolAsk, plain)
			defer stream.Close()
			stream.WaitForQuestion(t)
			deleted := make(chan int)
			go func() { deleted <- client.Delete(t) }()
			for _, what := range []string{"the upstream is not told", "DELETE waits"} {
				select {
				case got := <-up.answered:
					want := `{"code":-32601,"message":"No client session available"}`
					if !matchesJSON(got, want) {
						t.Errorf("the upstream reads %s, want %s", got, want)
					}
				case status := <-deleted:
					if status >= http.StatusMultipleChoices {
						t.Errorf("DELETE is answered %d", status)
					}
				case <-time.After(10 * time.Second):
					t.Fatal(what)
				}
			}
			expectPending(t, router, 0)
		})
	}
}

// CheckWithdrawn holds that a client of a router with a short Timeout is told that its question has
// ended, by the id that it knows. The call goes on until then: its result could overtake that.
func CheckWithdrawn(t *testing.T, up *Upstream, c *Client) {
	t.Helper()
	up.lingers.Store(true)
	stream := c.StartCall(t, ToolAsk, `{"_meta":{"kept":"yes"},`+plain[1:])
	defer stream.Close()
	asked := stream.WaitForQuestion(t)
	if text := string(asked.Params); strings.Contains(text, "rondo/") ||
		!strings.Contains(text, `"kept":"yes"`) {
		t.Errorf("the client is asked %s", text)
	}
	m, _ := stream.Next()
	up.steps <- struct{}{}
	if want := `"requestId":` + string(asked.ID); m.Method != "notifications/cancelled" ||
		!strings.Contains(string(m.Params), want) {
		t.Errorf("the client is told %s %s, want %s", m.Method, m.Params, want)
	}
}
