package serverhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/wire/sse"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A gate is a tool that reports its start with its context, and blocks until opened or cancelled.
type gate struct {
	entered chan context.Context
	calls   chan *server.ToolCall
	open    chan struct{}
	ended   chan error // the cause, after cancellation
}

func newGate() *gate {
	return &gate{make(chan context.Context, 1), make(chan *server.ToolCall, 1), make(chan struct{}),
		make(chan error, 1)}
}

// server returns a server with the gate and a second one that notifies first.
func (g *gate) server(t testing.TB, middleware ...server.Middleware) *server.Server {
	srv := newServer(t, &server.Options{Middleware: middleware})
	addTool(srv, "gate", g.handle)
	addTool(srv, "gate, streaming",
		func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
			if err := call.Notify(ctx, progress(0)); err != nil {
				return nil, err
			}
			return g.handle(ctx, call)
		})
	return srv
}

func (g *gate) handle(ctx context.Context,
	call *server.ToolCall) (toolOutcome, error) {
	g.calls <- call
	g.entered <- ctx
	select {
	case <-g.open:
		return server.Text("opened"), nil
	case <-ctx.Done():
		g.ended <- context.Cause(ctx)
		return server.Text("ended"), nil
	}
}

// call calls the gate and returns when it has started.
func (g *gate) call(t testing.TB, ts *httptest.Server) (ctx context.Context, done chan *reply) {
	done = make(chan *reply, 1)
	go func() {
		done <- do(t, ts, "POST", headers("tools/call", "gate"), body("tools/call", `"name":"gate"`))
	}()
	return <-g.entered, done
}

func events(t *testing.T, r io.Reader) []string {
	t.Helper()
	var all []string
	for reader := sse.NewReader(r, 0); ; {
		event, err := reader.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("after %d events: %v", len(all), err)
		}
		all = append(all, string(event.Data))
	}
}

func TestStream(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	tests := []struct {
		tool   string
		events []string // parts of events
	}{
		{"notify", []string{`"progress":0`, `"progress":1`, `"id":7,"result"`}},
		{"notify then fail", []string{`"progress":0`, `"id":7,"error":{"code":-32021`}},
	}
	for _, tt := range tests {
		t.Run(tt.tool, func(t *testing.T) {
			got := do(t, ts, "POST", headers("tools/call", tt.tool),
				body("tools/call", `"name":"`+tt.tool+`"`))
			wantStatus(t, "the answer", got, 200)
			for key, want := range map[string]string{
				"Content-Type": "text/event-stream", "Cache-Control": "no-store",
				"X-Accel-Buffering": "no",
			} {
				wantEqual(t, key, got.header.Get(key), want)
			}
			list := events(t, strings.NewReader(got.body))
			if len(list) != len(tt.events) {
				t.Fatalf("got %d events, want %d: %s", len(list), len(tt.events), got.body)
			}
			for i, event := range list {
				if !json.Valid([]byte(event)) || !strings.Contains(event, tt.events[i]) {
					t.Errorf("event %d: got %s, want %s in it", i, event, tt.events[i])
				}
			}
		})
	}
}

// A refusal before the first notification keeps its status, a later refusal is the last event.
// Goroutines of a handler cannot write to a finished response.
func TestStreamsAreDecidedLate(t *testing.T) {
	type outcome = protocol.CallToolOutcome
	srv := newServer(t, nil)
	calls := make(chan *server.ToolCall, 1)
	add := func(tool server.Tool, then func() (outcome, error)) {
		server.AddRawTool(srv, tool, func(ctx context.Context, call *server.ToolCall) (outcome, error) {
			calls <- call
			if err := call.Notify(ctx, progress(0)); err != nil {
				return nil, err
			}
			return then()
		})
	}
	add(server.Tool{Name: "asks"}, func() (outcome, error) {
		return roundtrip.InputRequired(roundtrip.ListRoots("q")), nil
	})
	add(server.Tool{Name: "panics"}, func() (outcome, error) { panic("at the disco") })
	add(server.Tool{Name: "refuses"}, func() (outcome, error) {
		return nil, protocol.Errorf(4711, "no")
	})
	add(server.Tool{Name: "needs",
		Needs: protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}},
		func() (outcome, error) { return server.Text("ran"), nil })
	server.AddRawTool(srv, server.Tool{Name: "silent"},
		func(_ context.Context, call *server.ToolCall) (outcome, error) {
			calls <- call
			return server.Text("ran"), nil
		})
	ts, _ := serve(t, srv, nil)
	for _, tt := range []struct {
		name, tool, caps, more string
		status                 int
		events                 int // 0 for JSON
		last                   string
	}{
		{"questions", "asks", `{"roots":{}}`, "", 200, 2, `"inputRequests":{"q":{"method":"roots/list"`},
		{"gate", "asks", `{}`, "", 200, 2, `"code":-32021`},
		{"panic", "panics", `{}`, "", 200, 2, `"code":-32603`},
		{"error", "refuses", `{}`, "", 200, 2, `"code":4711`},
		{"result", "needs", `{"roots":{}}`, "", 200, 2, `"text":"ran"`},
		{"a capability lacks", "needs", `{}`, "", 400, 0, `"code":-32021`},
		{"a state is refused", "asks", `{}`, `,"requestState":"x"`, 200, 0, `"code":-32602`},
		{"no such tool", "nothing", `{}`, "", 200, 0, `"code":-32602`},
		{"nothing is said", "silent", `{}`, "", 200, 0, `"text":"ran"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request := body("tools/call", `"name":"`+tt.tool+`"`+tt.more)
			request = strings.Replace(request, `Capabilities":{}`, `Capabilities":`+tt.caps, 1)
			got := do(t, ts, "POST", headers("tools/call", tt.tool), request)
			list := []string{got.body}
			if tt.events > 0 {
				list = events(t, strings.NewReader(got.body))
			}
			if got.status != tt.status || len(list) != max(tt.events, 1) ||
				!strings.Contains(list[len(list)-1], tt.last) {
				t.Errorf("got status %d: %s", got.status, got.body)
			}
			select {
			case call := <-calls:
				if err := call.Notify(t.Context(), progress(1)); err == nil {
					t.Error("a notification after the response is accepted")
				}
			default:
			}
		})
	}
}

// Events arrive while the handler runs.
func TestStreamIsFlushed(t *testing.T) {
	gate := newGate()
	requests := make(chan *server.Request, 1)
	keep := before(func(_ context.Context, r *server.Request) error { requests <- r; return nil })
	ts, _ := serve(t, gate.server(t, keep...), nil)
	response, err := ts.Client().Do(newRequest(t, ts, "POST",
		headers("tools/call", "gate, streaming"), body("tools/call", `"name":"gate, streaming"`)))
	noError(t, err)
	defer response.Body.Close()
	reader := sse.NewReader(response.Body, 0)
	if event, err := reader.Next(); err != nil ||
		!strings.Contains(string(event.Data), "progress") {
		t.Fatalf("got %q, %v, want progress", event.Data, err)
	}
	call := <-gate.calls
	close(gate.open)
	if event, err := reader.Next(); err != nil || !strings.Contains(string(event.Data), "opened") {
		t.Fatalf("got %q, %v, want the response", event.Data, err)
	}
	_, err = reader.Next()
	wantEqual(t, "after the response", err, io.EOF)
	// A handler's goroutine must not write into the next response.
	for _, back := range []protocol.Back{call, <-requests} {
		if err := back.Notify(context.Background(), progress(1)); err == nil {
			t.Errorf("%T: a notification after the response is accepted", back)
		}
	}
}

func TestNotifyRefuses(t *testing.T) {
	srv := newServer(t, nil)
	addTool(srv, "bad", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		wantIs(t, "with a cancelled context", call.Notify(cancelled, progress(0)), context.Canceled)
		wantError(t, "nil is accepted", call.Notify(ctx, nil))
		if err := call.Notify(ctx, &protocol.Notification{Method: "x",
			Params: []byte("[]")}); err == nil {
			t.Error("params that are no object are accepted")
		}
		return server.Text("fine"), nil
	})
	ts, _ := serve(t, srv, nil)
	got := do(t, ts, "POST", headers("tools/call", "bad"), body("tools/call", `"name":"bad"`))
	wantEqual(t, "the result", got.header.Get("Content-Type"), "application/json")
}

// Clients disconnect wholly or half, before and after a stream has begun.
func TestDisconnect(t *testing.T) {
	for _, tool := range []string{"gate", "gate, streaming"} {
		for _, half := range []bool{false, true} {
			name := tool
			if half {
				name += ", half closed"
			}
			t.Run(name, func(t *testing.T) {
				gate := newGate()
				ts, _ := serve(t, gate.server(t), nil)
				conn := dial(t, ts)
				request := rawRequest(body("tools/call", `"name":"`+tool+`"`),
					"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: "+tool)
				write(t, conn, request)
				<-gate.entered
				if !half {
					conn.Close()
				} else if err := conn.CloseWrite(); err != nil {
					t.Fatal(err)
				}
				wantIs(t, "the handler's context ended with", <-gate.ended, context.Canceled)
				if !half {
					return
				}
				rest, _ := io.ReadAll(conn)
				if strings.Contains(string(rest), "ended") || (tool == "gate" && len(rest) > 0) {
					t.Errorf("the client that cancelled was sent %q", rest)
				}
				if strings.HasSuffix(string(rest), "0\r\n\r\n") {
					t.Error("the stream ends as if it were complete")
				}
			})
		}
	}
}

// The deadline of a wrapping handler is not mistaken for a disconnect.
func TestDeadlineIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate()
		h := servertest.NewHandler(t, gate.server(t), nil)
		ts := servertest.StartPipe(t, http.HandlerFunc(func(
			w http.ResponseWriter, r *http.Request,
		) {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			defer cancel()
			h.ServeHTTP(w, r.WithContext(ctx))
		}))
		got := do(t, ts, "POST", headers("tools/call", "gate"), body("tools/call", `"name":"gate"`))
		wantText(t, "the result", got, "ended")
	})
}

// The client does not read, for both kinds of response.
func TestSlowReader(t *testing.T) {
	for _, tool := range []string{"flood", "huge"} {
		bubble(t, tool, func(t *testing.T) { checkSlowReader(t, tool) })
	}
}

func checkSlowReader(t *testing.T, tool string) {
	failed := make(chan error, 1)
	srv := newServer(t, nil)
	addTool(srv, "flood", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		params := []byte(`{"data":"` + strings.Repeat("x", 1<<20) + `"}`)
		for {
			if err := call.Notify(ctx, &protocol.Notification{Method: protocol.NotifyMessage,
				Params: params}); err != nil {
				failed <- err
				return nil, err
			}
		}
	})
	addTool(srv, "huge", says(strings.Repeat("x", 1<<20)))
	// Ends before a comment is due: waiting for a mutex stops the clock of synctest.
	const limit = time.Second
	h := servertest.NewHandler(t, srv, serverhttp.Tune(&serverhttp.Options{},
		serverhttp.Tuning{WriteTimeout: limit}))
	conn := servertest.ServePipe(t, h).Dial()
	request := rawRequest(body("tools/call", `"name":"`+tool+`"`),
		"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: "+tool)
	write(t, conn, request)
	first, err := bufio.NewReaderSize(conn, 16).ReadByte() // served
	if err != nil || first != 'H' {
		t.Fatalf("got %q, %v", first, err)
	}
	// The request ends although the client does not read.
	began := time.Now()
	noError(t, h.Shutdown(t.Context()))
	wantEqual(t, "it ended after", time.Since(began), limit)
	if tool == "flood" {
		wantError(t, "the handler was not told", <-failed)
	}
}

// TestHTTP2 uses both kinds of response and a cancelled request over HTTP/2.
func TestHTTP2(t *testing.T) {
	gate := newGate()
	ts := httptest.NewUnstartedServer(servertest.NewHandler(t, gate.server(t), nil))
	ts.EnableHTTP2 = true
	ts.StartTLS()
	t.Cleanup(ts.Close)
	for tool, want := range map[string]string{"large": "application/json",
		"notify": "text/event-stream"} {
		r := newRequest(t, ts, "POST", headers("tools/call", " "+tool+"\t"),
			body("tools/call", `"name":"`+tool+`"`))
		response, err := ts.Client().Do(r)
		noError(t, err)
		if got := response.Header.Get("Content-Type"); response.ProtoMajor != 2 ||
			response.StatusCode != 200 || got != want {
			t.Errorf("%s: got %s with status %d and type %s, want %s", tool, response.Proto,
				response.StatusCode, got, want)
		}
		read(t, response)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := newRequest(t, ts, "POST", headers("tools/call", "gate"),
		body("tools/call", `"name":"gate"`)).WithContext(ctx)
	done := make(chan error, 1)
	go func() {
		response, err := ts.Client().Do(r)
		if err == nil {
			response.Body.Close()
		}
		done <- err
	}()
	<-gate.entered
	cancel()
	wantIs(t, "the handler's context ended with", <-gate.ended, context.Canceled)
	wantIs(t, "the client", <-done, context.Canceled)
}

// A slow handler's response becomes a stream with comments, if accepted, because proxies close
// quiet connections.
func TestKeepAliveWithoutAWord(t *testing.T) {
	for _, accept := range []string{"application/json, text/event-stream", onlyEvents, onlyJSON} {
		for _, version := range []string{"2026-07-28", "2025-11-25"} {
			bubble(t, version+" "+accept, func(t *testing.T) {
				gate := newGate()
				ts, _ := servePipes(t, gate.server(t), nil)
				header := headers("tools/call", "gate", "Accept", accept)
				text := body("tools/call", `"name":"gate"`)
				if version == "2025-11-25" {
					header = openSession(t, ts, version).header("Accept", accept)
					text = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"gate"}}`
				}
				begun := time.Now()
				done := make(chan *reply)
				go func() { done <- do(t, ts, "POST", header, text) }()
				<-gate.entered
				time.Sleep(2*time.Minute + time.Second)
				close(gate.open)
				got := <-done
				want := onlyEvents
				comments := int(time.Since(begun) / (25 * time.Second))
				if accept == onlyJSON {
					want, comments = onlyJSON, 0
				}
				wantPart(t, "the response", oneResponse(t, got, want), `"opened"`)
				if n := strings.Count("\n"+got.body, "\n:"); n < comments-1 ||
					n > comments {
					t.Errorf("got %d comments, want %d: %q", n, comments, got.body)
				}
			})
		}
	}
}
