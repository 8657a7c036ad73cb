package gatewaytest

import (
	"bufio"
	"context"
	"io"
	"runtime"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
)

// A LineGateway builds a gateway and returns what serves its one client on lines.
type LineGateway func(t *testing.T, router *elicitation.Router, up *Upstream, mode Mode) (
	serve func(ctx context.Context, in io.Reader, out io.Writer))

// AcceptLines holds that what the person of a client on standard input and output answers reaches
// the upstream, and that no question outlives the client.
func AcceptLines(t *testing.T, build LineGateway) {
	for i, mode := range modes() {
		declared := []string{bothModes, forms}[i%2]
		t.Run(string(mode), func(t *testing.T) {
			router, up := newRouter(t, nil), NewUpstream(t)
			// What the client before it on lines has declared does not count, although an SDK may
			// have one session for both.
			c := ConnectLines(t, build(t, router, up, mode), declared, "")
			for _, reply := range []string{`{"action":"accept","content":{"why":"tested"}}`,
				`{"action":"decline"}`, `{"action":"cancel"}`} {
				c.reply = `"result":` + reply
				if got := c.Call(t, ToolAsk, plain); !matchesJSON(got, reply) {
					t.Errorf("the upstream reads %s, want %s", got, reply)
				}
				if got := <-up.answered; !matchesJSON(got, reply) {
					t.Errorf("the upstream was answered %s, want %s", got, reply)
				}
			}
			checkDeclared(t, router, declared)
			c.StartCall(t, ToolAsk, plain).WaitForQuestion(t)
			if err := c.out.Close(); err != nil {
				t.Fatal(err)
			}
			// Whether the upstream is told before its call is cancelled is a matter of scheduling.
			for router.Pending() > 0 {
				runtime.Gosched()
			}
		})
	}
}

// ConnectLines opens a session over lines with what serve serves. See [Connect].
func ConnectLines(t *testing.T, serve func(ctx context.Context, in io.Reader, out io.Writer),
	declared, reply string) *Client {
	t.Helper()
	r, w := pipehttp.ServeLines(t, serve)
	return connect(t, &Client{out: w, in: bufio.NewReader(r), reply: reply}, declared)
}

// checkDeclared checks that the router knows one session, with the capabilities of its client.
func checkDeclared(t *testing.T, router *elicitation.Router, want string) {
	t.Helper()
	all := router.Sessions()
	if len(all) != 1 {
		t.Fatalf("%d sessions are known, want 1", len(all))
	}
	c := all[0].UpstreamCapabilities().Elicitation
	if c == nil || !c.Form || c.URL != (want == bothModes) {
		t.Errorf("the elicitation capability is %+v, want that of %s", c, want)
	}
}
