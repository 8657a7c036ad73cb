package serverhttp_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// lateElicit asks when permitted.
func lateElicit(s *steps) func(context.Context, *server.ToolCall) (toolOutcome, error) {
	return func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		s.entered <- ctx
		<-s.allow
		_, err := call.Push(ctx, &protocol.ElicitForm{Message: "Name?", Schema: []byte(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
		s.ended <- err
		return server.Text("asked"), nil
	}
}

// TestResume breaks connections at every point and resumes.
func TestResume(t *testing.T) {
	for _, version := range legacyVersions {
		t.Run(version, func(t *testing.T) {
			srv, steps := legacyServer(t, nil)
			ts, _ := serve(t, srv, nil)
			c := openSession(t, ts, version)
			start := func(id, progress int) *flow {
				go func() {
					<-steps.entered
					for range progress {
						steps.allow <- struct{}{}
					}
				}()
				f := c.callFlow(id, "steps")
				for i := range progress {
					f.expect(`"progress":` + string(rune('1'+i)))
				}
				return f
			}
			t.Run("in the middle", func(t *testing.T) {
				f := start(1, 1)
				f.drop()
				steps.permit(3)
				g := c.listen(f.LastEventID())
				g.expect(`"progress":2`, `"progress":3`, `"id":1,"result"`)
				g.end()
			})
			t.Run("twice, live", func(t *testing.T) {
				f := start(2, 1)
				f.drop()
				g := c.listen(f.LastEventID())
				steps.allow <- struct{}{}
				g.expect(`"progress":2`)
				g.drop()
				h := c.listen(g.LastEventID())
				steps.permit(2)
				h.expect(`"progress":3`, `"id":2,"result"`)
				h.end()
			})
			t.Run("from an earlier event", func(t *testing.T) {
				f := start(3, 2)
				last := f.LastEventID()
				steps.permit(2)
				f.expect(`"progress":3`, `"id":3,"result"`)
				f.end()
				for range 2 { // after the response, repeatedly
					g := c.listen(last)
					g.expect(`"progress":3`, `"id":3,"result"`)
					g.end()
				}
				c.listen(f.LastEventID()).end() // nothing is left
			})
			t.Run("while the old connection lives", func(t *testing.T) {
				f := start(4, 1)
				g := c.listen(f.LastEventID())
				f.end()
				steps.permit(3)
				g.expect(`"progress":2`, `"progress":3`, `"id":4,"result"`)
			})
			t.Run("not others' events", func(t *testing.T) {
				f := start(5, 1)
				other := openSession(t, ts, version)
				for _, id := range []string{
					f.LastEventID(), "x", "0", "-1", "--", "a-1-1", f.LastEventID() + "0",
					f.LastEventID() + "99", " " + f.LastEventID() + "x",
					strings.Replace(f.LastEventID(), "-", "-0", 1), strings.Repeat("9", 5000),
				} {
					wantRefusal(t, fmt.Sprintf("%.40q in another session", id),
						read(t, other.do(t.Context(), "GET", "", "Last-Event-ID", id)), 400, -32600)
					if id == f.LastEventID() {
						continue
					}
					wantStatus(t, fmt.Sprintf("%.40q", id),
						read(t, c.do(t.Context(), "GET", "", "Last-Event-ID", id)), 400)
				}
				steps.permit(3)
				f.expect(`"progress":2`, `"progress":3`, `"id":5,"result"`)
				f.end()
			})
		})
	}
}

// A question on a second connection can be answered.
func TestPushSurvives(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	addTool(srv, "progress, then ask",
		func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
			if err := call.Progress(ctx, 1, 0, ""); err != nil {
				return nil, err
			}
			return lateElicit(steps)(ctx, call)
		})
	ts, _ := serve(t, srv, nil)
	c := openSession(t, ts, "2025-06-18")
	f := c.callFlow(1, "progress, then ask")
	f.expect(`"progress":1`)
	f.drop()
	<-steps.entered
	steps.allow <- struct{}{}
	g := c.listen(f.LastEventID())
	question := g.expect("elicitation/create")
	c.answer(question.ID, `{"action":"decline"}`)
	g.expect(`"id":1,"result"`)
	noError(t, <-steps.ended)
}

// Evicted events are refused and never replayed in part, and the bounds hold.
func TestEvicted(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	const size = 10 << 10
	addTool(srv, "chatter", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		if err := call.Progress(ctx, 1, 0, "first"); err != nil {
			return nil, err
		}
		steps.entered <- ctx
		<-steps.allow
		for i := range 100 {
			if err := call.Progress(ctx, float64(i+2), 0,
				strings.Repeat("x", size)); err != nil {
				steps.ended <- err
				return nil, err
			}
		}
		return server.Text("chatted"), nil
	})
	for name, tuning := range map[string]serverhttp.Tuning{
		"session": {BytesPerSession: 10 * size},
		"total":   {EventBytes: 10 * size},
	} {
		t.Run(name, func(t *testing.T) {
			ts, h := serve(t, srv, serverhttp.Tune(&serverhttp.Options{}, tuning))
			c := openSession(t, ts, "2025-11-25")
			f := c.callFlow(1, "chatter")
			f.expect("first")
			first := f.LastEventID()
			<-steps.entered
			f.drop()
			steps.allow <- struct{}{}
			awaitIdle(t, c)
			if used := serverhttp.EventBytes(h); used > 10*size {
				t.Errorf("%d bytes are kept, want at most %d", used, 10*size)
			}
			wantStatus(t, "resuming from what was dropped",
				read(t, c.do(t.Context(), "GET", "", "Last-Event-ID", first)), 400)
			// A connected client gets everything.
			g := c.callFlow(2, "chatter")
			g.expect("first")
			<-steps.entered
			steps.allow <- struct{}{}
			for range 100 {
				g.expect("xxxx")
			}
			g.expect("chatted")
			g.end()
			if used := serverhttp.EventBytes(h); used > 10*size {
				t.Errorf("%d bytes are kept, want at most %d", used, 10*size)
			}
			wantStatus(t, "DELETE", read(t, c.do(t.Context(), "DELETE", "")), 204)
			wantEqual(t, "bytes are kept without a session", serverhttp.EventBytes(h), int64(0))
		})
	}
	select {
	case err := <-steps.ended:
		t.Errorf("a handler was told: %v", err)
	default:
	}
}

// awaitIdle waits until the session is idle: a second request with a running one's id is refused.
func awaitIdle(t testing.TB, c *legacyClient) {
	t.Helper()
	for {
		if got := c.call(1, "echo"); got.Error == nil {
			return
		}
	}
}

// The server closes the connection during a request.
func TestReconnect(t *testing.T) {
	c, _, steps := startSession(t, "2025-11-25")
	f := c.callFlow(1, "reconnect")
	if event, err := f.Next(); err != io.EOF {
		t.Fatalf("got %s, %v, want the end of the stream", event.Data, err)
	}
	if d, ok := f.Retry(); !ok || d != 50*time.Millisecond || f.LastEventID() == "" {
		t.Errorf("got retry %v, %v and id %q", d, ok, f.LastEventID())
	}
	<-steps.entered
	g := c.listen(f.LastEventID())
	steps.allow <- struct{}{}
	g.expect("reconnected")
	g.end()
	// Older clients would not reconnect.
	for _, version := range legacyVersions[:3] {
		got := openSession(t, c.ts, version).call(1, "reconnect")
		wantPart(t, version, got.body, `"text":"`+server.ErrCannotClose.Error()+`"`)
	}
	got := do(t, c.ts, "POST", headers("tools/call", "reconnect"),
		body("tools/call", `"name":"reconnect"`))
	wantPart(t, "modern", got.body, server.ErrCannotClose.Error())
}

func TestCloseStreamRefuses(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	var kept *server.ToolCall
	addTool(srv, "negative", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		wantError(t, "a negative retry is accepted", call.CloseStream(ctx, -1))
		kept = call
		return server.Text("fine"), nil
	})
	ts, _ := serve(t, srv, nil)
	openSession(t, ts, "2025-11-25").call(1, "negative")
	wantIs(t, "after the response", kept.CloseStream(t.Context(), 0), server.ErrEnded)
}

// Only some clients get an empty first event.
func TestPriming(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	ts, _ := serve(t, srv, nil)
	for _, version := range legacyVersions {
		c := openSession(t, ts, version)
		got := c.call(1, "notify")
		primed := strings.HasPrefix(got.body, "id: ") &&
			strings.Contains(got.body[:strings.Index(got.body, "\n\n")+2], "\ndata: \n\n")
		wantEqual(t, version+": primed "+got.body, primed, version == "2025-11-25")
		if strings.Count(got.body, "id: ") < 3 {
			t.Errorf("%s: events have no ids: %s", version, got.body)
		}
	}
}
