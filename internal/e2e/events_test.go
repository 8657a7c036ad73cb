package e2e_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// note is a notification that any server may send while a request runs.
func note(text string) *protocol.Notification {
	return &protocol.Notification{Method: protocol.NotifyMessage,
		Params: raw(`{"level":"info","data":` + quote(text) + `}`)}
}

// stream posts a leg and returns what comes back, which must be an event stream, as it comes.
func (w *wire) stream(ctx context.Context, l leg) (*bufio.Reader, io.Closer) {
	w.t.Helper()
	l = l.defaulted()
	body := `{"jsonrpc":"2.0","id":7,"method":"` + l.method + `","params":` + l.params() + `}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"},
		"Accept":               {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {revision}, "Mcp-Method": {l.method}, "Mcp-Name": {l.target}}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Errorf("got status %d, %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	return bufio.NewReader(resp.Body), resp.Body
}

// events returns the data of all events of a stream that must consist of nothing but "data:
// MESSAGE" and an empty line.
func (w *wire) events(l leg) []string {
	w.t.Helper()
	stream, body := w.stream(within(w.t, patience), l)
	defer body.Close()
	text, err := io.ReadAll(stream)
	if err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for event := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || strings.Contains(data, "\n") {
			w.t.Errorf("got an event %q", event)
		}
		wiretest.Validate(w.t, revision, wiretest.Server, []byte(data), l.defaulted().method)
		all = append(all, data)
	}
	return all
}

// TestStreamsAreDecidedLate: a request that is refused before the server has said anything keeps
// its status; afterwards the refusal is the last event.
func TestStreamsAreDecidedLate(t *testing.T) {
	speaks := func(then func() (protocol.CallToolOutcome, error)) func(context.Context,
		*server.ToolCall) (protocol.CallToolOutcome, error) {
		return func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			if err := call.Notify(ctx, note("working")); err != nil {
				return nil, err
			}
			return then()
		}
	}
	w := newWire(t, func(srv *server.Server) {
		add := func(name string, then func() (protocol.CallToolOutcome, error)) {
			server.AddRawTool(srv, server.Tool{Name: name}, speaks(then))
		}
		add("asks", func() (protocol.CallToolOutcome, error) {
			return roundtrip.InputRequired(roundtrip.ListRoots("q")), nil
		})
		add("panics", func() (protocol.CallToolOutcome, error) { panic("at the disco") })
		add("refuses", func() (protocol.CallToolOutcome, error) {
			return nil,
				protocol.Errorf(4711, "no")
		})
		server.AddRawTool(srv, server.Tool{Name: "needs",
			Needs: protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}},
			speaks(func() (protocol.CallToolOutcome, error) { return server.Text("ran"), nil }))
	})
	for _, test := range []struct {
		name string
		leg  leg
		want string // within the last event
	}{
		{"questions", leg{target: "asks"}, `"inputRequests":{"q":{"method":"roots/list"`},
		{"gate", leg{target: "asks", caps: `{}`}, `"code":-32021`},
		{"panic", leg{target: "panics"}, `"code":-32603`},
		{"error", leg{target: "refuses"}, `"code":4711`},
		{"result", leg{target: "needs"}, `"text":"ran"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w.t = t
			events := w.events(test.leg)
			if len(events) != 2 || !strings.Contains(events[0], `"data":"working"`) ||
				!strings.HasPrefix(events[1], `{"jsonrpc":"2.0","id":7,`) ||
				!strings.Contains(events[1], test.want) {
				t.Errorf("got events %q, want a note, then %s", events, test.want)
			}
		})
	}
	t.Run("before a word", func(t *testing.T) {
		w.t = t
		w.send(leg{target: "needs", caps: `{}`}).wantError(http.StatusBadRequest,
			protocol.CodeMissingRequiredClientCapability)
		w.send(leg{target: "asks", more: `"requestState":"x"`}).frozen()
		w.send(leg{target: "nothing"}).wantError(http.StatusOK, protocol.CodeInvalidParams)
	})
}

// TestNotificationsAreNotHeldBack: the handler does not return before its notification has reached
// the client's handler.
func TestNotificationsAreNotHeldBack(t *testing.T) {
	testkit.CheckLeaks(t)
	arrived := make(chan struct{}, 1)
	srv, _ := mustServe(t, nil)
	server.AddRawTool(srv, server.Tool{Name: "waits"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			if err := call.Notify(ctx, note("go on")); err != nil {
				return nil, err
			}
			select {
			case <-arrived:
				return server.Text("heard"), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
	c, said := dial(t, listen(t, servertest.NewHandler(t, srv, nil)), &client.Options{
		LogLevel: protocol.LevelInfo,
		Log:      func(context.Context, *protocol.LogMessage) { arrived <- struct{}{} },
	})
	if got, err := tool("waits", ``)(within(t, patience), c); err != nil || got != "heard" {
		t.Errorf("got %q, %v", got, err)
	}
	wiretest.Conform(t, revision, said())
}

// TestGoingAwayCancels: a client that closes the stream ends the handler, and hears nothing more.
func TestGoingAwayCancels(t *testing.T) {
	testkit.CheckLeaks(t)
	ended := make(chan error, 1)
	w := newWire(t, func(srv *server.Server) {
		server.AddRawTool(srv, server.Tool{Name: "endless"},
			func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
				if err := call.Notify(ctx, note("started")); err != nil {
					return nil, err
				}
				<-ctx.Done()
				ended <- call.Notify(ctx, note("too late"))
				return server.Text("too late"), nil
			})
	})
	ctx, cancel := context.WithCancel(t.Context())
	stream, body := w.stream(ctx, leg{target: "endless"})
	defer body.Close()
	if line, err := stream.ReadString('\n'); err != nil || !strings.Contains(line, "started") {
		t.Fatalf("got %q, %v", line, err)
	}
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a notification to a client that is gone was taken")
		}
	case <-within(t, patience).Done():
		t.Fatal("the handler runs on")
	}
}

// TestWordsAfterTheResponse: what a handler leaves running cannot write into a response that has
// ended, or into the next one on the same connection.
func TestWordsAfterTheResponse(t *testing.T) {
	testkit.CheckLeaks(t)
	calls := make(chan *server.ToolCall, 1)
	w := newWire(t, func(srv *server.Server) {
		server.AddRawTool(srv, server.Tool{Name: "leaks"},
			func(_ context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
				calls <- call
				return server.Text("done"), nil
			})
	})
	for range 3 {
		w.send(leg{target: "leaks"}).wantText("done")
		if err := (<-calls).Notify(t.Context(), note("late")); err == nil {
			t.Error("a late notification was taken")
		}
	}
}
