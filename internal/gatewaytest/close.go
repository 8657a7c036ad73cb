package gatewaytest

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
)

// AcceptClose holds that an Upstream which is closed while it connects to a server that does not
// answer does not wait for that, nor does a call. build also returns what closes the Upstream.
func AcceptClose(t *testing.T, build func(t *testing.T, router *elicitation.Router, up *Upstream) (
	gateway http.Handler, closeUpstream func())) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	up, began := NewUpstream(t), make(chan struct{}, 8)
	up.Intercept = func(_ http.ResponseWriter, r *http.Request, m *Message) bool {
		if m.Method == "initialize" {
			began <- struct{}{}
			<-r.Context().Done()
		}
		return m.Method == "initialize"
	}
	gateway, closeUpstream := build(t, router, up)
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
	c.Delete(t)
}
