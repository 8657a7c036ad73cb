package gatewaytest

import (
	"net/http"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
)

// AcceptDelete holds that a client which ends its session in the middle of a question frees
// it at once: neither its DELETE nor the upstream waits for an answer.
func AcceptDelete(t *testing.T, build Gateway) {
	for _, mode := range Modes() {
		t.Run(string(mode), func(t *testing.T) {
			router, err := elicitation.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			up := NewUpstream(t)
			client := Connect(t, build(t, router, up, mode), forms, "", nil)
			stream := client.StartCall(t, ToolAsk, plain)
			defer stream.Close()
			stream.WaitForQuestion(t)
			deleted := make(chan int)
			go func() { deleted <- client.Delete(t) }()
			for _, what := range []string{"the upstream is not told", "DELETE waits"} {
				select {
				case got := <-up.Answered:
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
			if n := router.Pending(); n != 0 {
				t.Errorf("%d questions are pending", n)
			}
		})
	}
}
