package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
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

// A streamServer answers every request with the same bytes, as an event stream; «id» in them is the
// id of the request.
func streamServer(t testing.TB, text string) string {
	return listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "«id»", string(parse(t, body)["id"])))
	}))
}

// TestEventStreamsAreReadStrictly: whatever stream a server sends, the call ends, with a result
// only if there is a response to it.
func TestEventStreamsAreReadStrictly(t *testing.T) {
	testkit.CheckLeaks(t)
	response := `{"jsonrpc":"2.0","id":«id»,"result":` + done + `}`
	for _, test := range []struct {
		name, stream string
		ok           bool
	}{
		{"as usual", "data: " + response + "\n\n", true},
		{"comments and retries", ": hello\n\nretry: 10\n\n:\n\ndata: " + response + "\n\n", true},
		{"other line ends", "data: " + response + "\r\n\r\n", true},
		{"carriage returns", "data: " + response + "\r\r", true},
		{"no space", "data:" + response + "\n\n", true},
		{"message type and id", "event: message\nid: 1\ndata: " + response + "\n\n", true},
		{"two lines of data", "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":«id»,\"result\":" + done +
			"}\n\n", true},
		{"byte order mark", "\ufeffdata: " + response + "\n\n", true},
		{"another type before", "event: ping\ndata: nonsense\n\ndata: " + response + "\n\n", true},
		{"an unknown notification before",
			"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\ndata: " + response +
				"\n\n", true},
		{"more after it", "data: " + response + "\n\ndata: nonsense\n\ndata: " + response + "\n\n",
			true},
		{"nothing", "", false},
		{"only a comment", ": hello\n\n", false},
		{"not ended", "data: " + response, false},
		{"not JSON", "data: nonsense\n\n", false},
		{"duplicate members", "data: {\"jsonrpc\":\"2.0\",\"id\":«id»,\"id\":«id»,\"result\":{}}\n\n", false},
		{"another id", "data: {\"jsonrpc\":\"2.0\",\"id\":4711,\"result\":" + done + "}\n\n",
			false},
		{"id as text", "data: {\"jsonrpc\":\"2.0\",\"id\":\"«id»\",\"result\":" + done + "}\n\n",
			false},
		{"no id", "data: {\"jsonrpc\":\"2.0\",\"result\":" + done + "}\n\n", false},
		{"a request", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"elicitation/create\",\"params\":{}}\n\ndata: " + response + "\n\n", false},
		{"a batch", "data: [" + response + "]\n\n", false},
		{"invalid UTF-8", "data: {\"jsonrpc\":\"2.0\",\"id\":«id»,\"result\":{\"resultType\":\"complete\",\"content\":[],\"a\":\"\xff\"}}\n\n", false},
		{"endless line", "data: " + strings.Repeat("x", 8<<20), false},
		{"endless event", strings.Repeat("data: xxxxxxxx\n", 1<<20), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, _ := dial(t, streamServer(t, test.stream), nil)
			r, err := c.CallTool(within(t, patience), "x", nil)
			if (err == nil) != test.ok || (test.ok && textOf(r.Content) != "done") {
				t.Errorf("got %+v, %v, want a result: %t", r, err, test.ok)
			}
		})
	}
}

// TestHTTPResponsesAreReadStrictly: whatever a server answers over HTTP, the call ends with an
// error that has a type.
func TestHTTPResponsesAreReadStrictly(t *testing.T) {
	testkit.CheckLeaks(t)
	var followed atomic.Bool
	elsewhere := listen(t, http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		followed.Store(true)
	}))
	ok := `{"jsonrpc":"2.0","id":1,"result":` + done + `}`
	for _, test := range []struct {
		name, media string
		status      int
		body        string
		want        any // a pointer to an error's type
	}{
		{"empty", "application/json", 200, ``, new(*client.TransportError)},
		{"no type", "", 200, ok, new(*client.TransportError)},
		{"a page", "text/html", 200, `<html>`, new(*client.TransportError)},
		{"a page as JSON", "application/json", 200, `<html>`, new(*client.TransportError)},
		{"no content", "", 204, ``, new(*client.TransportError)},
		{"accepted", "", 202, ``, new(*client.TransportError)},
		{"bad gateway", "text/html", 502, `<html>`, new(*client.TransportError)},
		{"moved", "application/json", 307, ok, new(*client.TransportError)},
		{"a batch", "application/json", 200, `[` + ok + `]`, new(*client.TransportError)},
		{"a request", "application/json", 200, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, new(*client.TransportError)},
		{"another id", "application/json", 200, `{"jsonrpc":"2.0","id":2,"result":` + done + `}`,
			new(*client.TransportError)},
		{"id as text", "application/json", 200, `{"jsonrpc":"2.0","id":"1","result":` + done + `}`,
			new(*client.TransportError)},
		{"another id as a float", "application/json", 200,
			`{"jsonrpc":"2.0","id":1.5,"result":` + done + `}`, new(*client.TransportError)},
		{"id is null", "application/json", 200, `{"jsonrpc":"2.0","id":null,"result":` + done + `}`,
			new(*client.TransportError)},
		{"result and error", "application/json", 200, `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}`, new(*client.TransportError)},
		{"id twice", "application/json", 200, `{"jsonrpc":"2.0","id":1,"id":1,"result":` + done + `}`, new(*client.TransportError)},
		{"result is null", "application/json", 200, `{"jsonrpc":"2.0","id":1,"result":null}`, new(*client.TransportError)},
		{"content has null", "application/json", 200, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[null]}}`, new(*client.ResponseError)},
		{"isError is text", "application/json", 200, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],"isError":"false"}}`, new(*client.ResponseError)},
		{"state is a number", "application/json", 200, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":1}}`, new(*client.ResponseError)},
		{"too large", "application/json", 200, `{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat("x", 5<<20) + `"}}`, new(*client.TransportError)},
		{"too deep", "application/json", 200, `{"jsonrpc":"2.0","id":1,"result":{"a":` + deep(1000) + `}}`, new(*client.TransportError)},
		{"error", "application/json", 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`, new(*protocol.Error)},
		{"error and 400", "application/json", 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`, new(*protocol.Error)},
		{"error and 500", "application/json", 500, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}`, new(*protocol.Error)},
		{"error without id", "application/json", 400, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}`, new(*protocol.Error)},
		{"error with null id", "application/json", 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`, new(*protocol.Error)},
		{"error is null", "application/json", 400, `{"jsonrpc":"2.0","id":1,"error":null}`,
			new(*client.TransportError)},
		{"error is text", "application/json", 400, `{"jsonrpc":"2.0","id":1,"error":"no"}`,
			new(*client.TransportError)},
		{"code is text", "application/json", 400, `{"jsonrpc":"2.0","id":1,"error":{"code":"-32602","message":"no"}}`, new(*client.TransportError)},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header()["Content-Type"] = []string{test.media}
				w.Header().Set("Location", elsewhere)
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			}))
			c, _ := dial(t, url, nil)
			r, err := c.CallTool(within(t, patience), "x", nil)
			if r != nil || err == nil || !errors.As(err, test.want) {
				t.Errorf("got %+v, %v (%T), want an error of type %s", r, err, err,
					fmt.Sprintf("%T", test.want)[1:])
			}
			if err != nil && len(err.Error()) > 2<<10 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
	if followed.Load() {
		t.Error("the client followed a redirect")
	}
}
