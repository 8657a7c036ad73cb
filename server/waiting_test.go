package server_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// newTypist returns a client of an older revision on a line stream, in fake time.
func newTypist(t testing.TB, ctx context.Context, s *server.Server,
	opts *server.StreamOptions) *lineClient {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := serveLineClient(t, ctx, s, inR, outR, inW, outW, opts)
	c.ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+
		allCapabilities+`,"clientInfo":{"name":"c","version":"1"}}}`, "serverInfo")
	return c
}

const askCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","_meta":{"progressToken":"p"}}}`

// addAsk adds a tool that asks in place, or with a foreign context.
func addAsk(s *server.Server, foreign bool) {
	addTool(s, "ask", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		if foreign {
			_, err := call.Push(context.Background(), &protocol.ElicitForm{Message: "Sure?",
				Schema: []byte(`{"type":"object","properties":{}}`)})
			return server.Text("asked"), err
		}
		_, err := roundtrip.Ask[struct{ OK bool }](ctx, "sure", "Sure?")
		return server.Text("asked"), err
	})
}

func TestEndOfAStreamDoesNotWaitForPeople(t *testing.T) {
	for name, foreign := range map[string]bool{"in place": false,
		"with a context of its own": true} {
		for how, stop := range map[string]func(s *server.Server, cancel context.CancelFunc){
			"context": func(_ *server.Server, cancel context.CancelFunc) { cancel() },
			"shutdown": func(s *server.Server,
				_ context.CancelFunc) {
				_ = s.Shutdown(context.Background())
			},
			"close": func(s *server.Server, _ context.CancelFunc) { _ = s.Close() },
		} {
			inBubble(t, name+"/"+how, func(t *testing.T) {
				h := newHarness(t, nil)
				addAsk(h.Server, foreign)
				ctx, cancel := context.WithCancel(t.Context())
				c := newTypist(t, ctx, h.Server, nil)
				c.ask(askCall, "elicitation/create")
				started := time.Now()
				go stop(h.Server, cancel)
				c.expect("notifications/cancelled", `"reason":"the server is closing"`)
				c.expect(`"isError":true`, "the server is closing, call again")
				cancel()
				wantIs(t, "the stream ended with", <-c.ended, context.Canceled)
				if took := time.Since(started); took > 0 {
					t.Errorf("it took %s", took)
				}
			})
		}
	}
}

func TestCallsThatWaitLeaveTheirStreamToOthers(t *testing.T) {
	for name, foreign := range map[string]bool{"in place": false,
		"with a context of its own": true} {
		inBubble(t, name, func(t *testing.T) {
			h := newHarness(t, nil)
			started, release, _ := h.blocking()
			addAsk(h.Server, foreign)
			ctx, cancel := context.WithCancel(t.Context())
			c := newTypist(t, ctx, h.Server, &server.StreamOptions{MaxInFlight: 1})
			call := func(id, tool string) {
				c.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `"}}`)
			}
			for _, id := range []string{"1", "2", "3"} {
				call(id, "ask")
				c.expect("elicitation/create", `"id":"server-`+id+`"`)
			}
			call("4", "block") // while three people think
			<-started
			call("5", "ask")
			c.expect(`"id":5`, "too many requests are running")
			if !foreign { // a context of the author's own does not end with the call
				c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
				c.expect("notifications/cancelled", `"server-3"`)
				synctest.Wait()
				call("6", "ask")
				c.expect(`"id":6`, "too many requests are running")
			}
			for _, id := range []string{"1", "2"} {
				c.say(`{"jsonrpc":"2.0","id":"server-` + id + `","result":{"action":"accept","content":{"OK":true}}}`)
				c.expect(`"id":`+id, "asked")
			}
			close(release)
			c.expect(`"id":4`)
			call("7", "block")
			c.expect(`"id":7`)
			cancel()
			<-c.ended
		})
	}
}

func TestShutdownWaitsForPeopleByOption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, &server.Options{ShutdownWaitsForPeople: true})
		addAsk(h.Server, false)
		ctx, cancel := context.WithCancel(t.Context())
		c := newTypist(t, ctx, h.Server, nil)
		c.ask(askCall, "elicitation/create")
		done := make(chan error, 1)
		go func() {
			patience, enough := context.WithTimeout(context.Background(), time.Minute)
			defer enough()
			done <- h.Shutdown(patience)
		}()
		// progress after 2, 17, 32, 47 s
		for _, value := range []string{"0.00048828125", "0.0006510416666666666", "0.000732421875",
			"0.00078125"} {
			c.expect(`"method":"notifications/progress"`,
				`"progress":`+value+`,"message":"waiting for an answer"`)
		}
		// HumanTimeout is over.
		c.expect("notifications/cancelled", `"reason":"the server is closing"`)
		c.expect("the server is closing, call again")
		wantIs(t, "the error", <-done, context.DeadlineExceeded)
		cancel()
		<-c.ended
	})
}

// Code around a call sees its wait, whatever context the question uses.
func TestForeignContextsTellOfTheWait(t *testing.T) {
	for name, foreign := range map[string]bool{"in place": false,
		"with a context of its own": true} {
		inBubble(t, name, func(t *testing.T) {
			told := make(chan bool, 10)
			h := newHarness(t, &server.Options{
				Middleware: []server.Middleware{func(next server.Handler) server.Handler {
					return func(ctx context.Context, request *server.Request) (protocol.Result,
						error) {
						return next(roundtrip.WatchWaiting(ctx,
							func(waiting bool) { told <- waiting }), request)
					}
				}}})
			addAsk(h.Server, foreign)
			ctx, cancel := context.WithCancel(t.Context())
			c := newTypist(t, ctx, h.Server, nil)
			c.ask(askCall, "elicitation/create", `"id":"server-1"`)
			if !<-told {
				t.Error("told that the call goes on before it waited")
			}
			c.say(`{"jsonrpc":"2.0","id":"server-1","result":{"action":"accept","content":{"OK":true}}}`)
			if <-told {
				t.Error("told twice that the call waits")
			}
			c.expect(`"text":"asked"`)
			cancel()
			<-c.ended
		})
	}
}
