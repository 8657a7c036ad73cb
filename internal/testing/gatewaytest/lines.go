package gatewaytest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
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
	for _, mode := range modes() {
		t.Run(string(mode), func(t *testing.T) {
			router, up := newRouter(t, nil), NewUpstream(t)
			c := connectLines(t, build(t, router, up, mode))
			for _, reply := range []string{`{"action":"accept","content":{"why":"tested"}}`,
				`{"action":"decline"}`, `{"action":"cancel"}`} {
				question := c.startCall(plain)
				c.writeLine(`{"jsonrpc":"2.0","id":%s,"result":%s}`, question.ID, reply)
				if got := resultText(c.readMessage()); !matchesJSON(got, reply) {
					t.Errorf("the upstream reads %s, want %s", got, reply)
				}
				if got := <-up.answered; !matchesJSON(got, reply) {
					t.Errorf("the upstream was answered %s, want %s", got, reply)
				}
			}
			c.startCall(plain)
			if err := c.w.Close(); err != nil {
				t.Fatal(err)
			}
			// Whether the upstream is told before its call is cancelled is a matter of scheduling.
			for router.Pending() > 0 {
				runtime.Gosched()
			}
		})
	}
}

// A lineClient is a client of revision 2025-11-25 on lines.
type lineClient struct {
	t     *testing.T
	calls int
	w     io.WriteCloser
	lines *bufio.Scanner
}

func connectLines(t *testing.T,
	serve func(ctx context.Context, in io.Reader, out io.Writer)) *lineClient {
	t.Helper()
	r, w := pipehttp.ServeLines(t, serve)
	c := &lineClient{t: t, w: w, lines: bufio.NewScanner(r)}
	c.writeLine(initialize, forms)
	c.readMessage()
	c.writeLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// startCall calls the tool that asks, and returns the question.
func (c *lineClient) startCall(question string) envelope {
	c.t.Helper()
	c.calls++
	c.writeLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,`+
		`"arguments":{"question":%s}}}`, c.calls, ToolAsk, question)
	m := c.readMessage()
	if m.Method != "elicitation/create" {
		c.t.Fatalf("got %s %s, want a question", m.Method, m.outcome())
	}
	return m
}

func (c *lineClient) writeLine(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.w, format+"\n", args...); err != nil {
		c.t.Fatal(err)
	}
}

// readMessage returns the next question or response.
func (c *lineClient) readMessage() (m envelope) {
	c.t.Helper()
	for c.lines.Scan() {
		m = envelope{}
		if err := json.Unmarshal(c.lines.Bytes(), &m); err != nil {
			c.t.Fatal(err)
		}
		if len(m.ID) > 0 {
			return m
		}
	}
	c.t.Fatalf("the gateway says no more: %v", c.lines.Err())
	return m
}
