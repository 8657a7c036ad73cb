package serverhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

type name struct {
	Name string `json:"name"`
}

// askingTools are tools with one question, one for each way to ask.
var askingTools = []string{"push", "ask", "guard"}

// askingServer has askingTools, and "report", which sends progress before and after asking.
func askingServer(t testing.TB, opts *server.Options) *server.Server {
	srv, _ := legacyServer(t, opts)
	addTool(srv, "push", pushForm(func(error) {}))
	addTool(srv, "ask", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		answer, err := roundtrip.Ask[name](ctx, "name", "Name?")
		if err != nil {
			return nil, err
		}
		return server.Text("accept " + answer.Name), nil
	})
	addTool(srv, "guard", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		answer, ok := roundtrip.AcceptedContent[name](ctx, "name")
		if !ok {
			return roundtrip.InputRequired(roundtrip.Elicit[name]("name", "Name?")), nil
		}
		return server.Text("accept " + answer.Name), nil
	})
	addTool(srv, "report", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		first := call.Progress(ctx, 1, 3, "one")
		_, err := roundtrip.Ask[name](ctx, "name", "Name?")
		second := call.Progress(ctx, 2, 3, "two")
		return server.Text(fmt.Sprint("reported ", first, err, second)), nil
	})
	return srv
}

func TestShutdownDoesNotWaitForPeople(t *testing.T) {
	for _, tool := range askingTools {
		for name, shutdown := range map[string]func(*server.Server, *serverhttp.Handler) error{
			"handler": func(_ *server.Server, h *serverhttp.Handler) error {
				return h.Shutdown(t.Context())
			},
			"server": func(srv *server.Server, _ *serverhttp.Handler) error {
				return srv.Shutdown(t.Context())
			},
			"close": func(srv *server.Server, _ *serverhttp.Handler) error { return srv.Close() },
		} {
			t.Run(tool+"/"+name, func(t *testing.T) {
				srv := askingServer(t, nil)
				ts, h := serve(t, srv, nil)
				c := openSession(t, ts, "2025-11-25")
				f := c.callFlow(1, tool)
				question := f.expect("elicitation/create")
				noError(t, shutdown(srv, h))
				f.expect(`"requestId":` + string(question.ID) + `,"reason":"the server is closing"`)
				answer := f.expect(`"isError":true`)
				wantPart(t, "the caller", answer.raw, "the server is closing, call again")
				f.end()
			})
		}
	}
}

// A call that begins to wait during a shutdown is ended; a working call is waited for.
func TestShutdownWaitsForWork(t *testing.T) {
	srv, entered, goOn := askingServer(t, nil), make(chan struct{}), make(chan struct{})
	for _, tool := range []string{"work", "work, then ask"} {
		addTool(srv, tool, func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
			entered <- struct{}{}
			<-goOn
			if tool == "work" {
				return server.Text("worked"), nil
			}
			_, err := roundtrip.Ask[name](ctx, "name", "Name?")
			return nil, err
		})
	}
	ts, h := serve(t, srv, nil)
	c := openSession(t, ts, "2025-11-25")
	got := make(chan *reply, 2)
	for i, tool := range []string{"work", "work, then ask"} {
		go func() { got <- c.call(i, tool) }()
		<-entered
	}
	done := make(chan error, 1)
	go func() { done <- h.Shutdown(t.Context()) }()
	for c.call(3, "echo").status != 503 {
	}
	close(goOn)
	texts := (<-got).body + (<-got).body
	for _, want := range []string{"worked", "the server is closing, call again"} {
		wantPart(t, "the result", texts, want)
	}
	noError(t, <-done)
}

// A closing server ends the wait for a visit, and the client gets the link for another replica.
func TestEndlessVisitsDoNotHoldAShutdown(t *testing.T) {
	srv := newServer(t, &server.Options{Roundtrip: roundtrip.Options{MinHumanTime: -1}})
	holding := make(chan struct{})
	server.AddRawTool(srv, server.Tool{Name: "visit"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			if err := roundtrip.AskURL(ctx, "login", "Sign in", "https://id.example/"); err != nil {
				return nil, err
			}
			close(holding)
			return server.Text("signed in"), roundtrip.Await(ctx, "login",
				func(context.Context) (bool, error) { return false, nil })
		})
	ts, h := serve(t, srv, nil)
	call := func(more string) *reply {
		request := strings.Replace(body("tools/call", `"name":"visit"`+more), `Capabilities":{}`,
			`Capabilities":{"elicitation":{"url":{}}}`, 1)
		return do(t, ts, "POST", headers("tools/call", "visit"), request)
	}
	_, state, _ := strings.Cut(call("").body, `"requestState":`)
	state, _, _ = strings.Cut(state, ",")
	answered := make(chan *reply)
	go func() {
		answered <- call(`,"inputResponses":{"login":{"action":"accept"}},"requestState":` + state)
	}()
	<-holding
	noError(t, h.Shutdown(t.Context()))
	if got := <-answered; got.Result.ResultType != "input_required" ||
		!strings.Contains(got.body, "Not finished yet. Sign in") {
		t.Errorf("got %s", got.body)
	}
}

// Heartbeats are useless after a resumption, and must not fill the log.
func TestHeartbeatsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, h := servePipes(t, askingServer(t, &server.Options{}), nil)
		c := openSession(t, ts, "2025-11-25")
		f := c.callFlow(1, "ask")
		question := f.expect("elicitation/create")
		kept := serverhttp.EventBytes(h)
		for range 5 {
			f.expect("waiting for an answer")
		}
		f.drop()
		time.Sleep(time.Minute)
		wantEqual(t, "bytes kept after heartbeats", serverhttp.EventBytes(h), kept)
		c.answer(question.ID, `{"action":"accept","content":{"name":"Ann"}}`)
	})
}

// A deleted session frees its room, and a late answer is ignored.
func TestRoomOfADeletedSessionIsFree(t *testing.T) {
	for _, tool := range askingTools {
		bubble(t, tool, func(t *testing.T) {
			ts, _ := servePipes(t, askingServer(t,
				&server.Options{Roundtrip: roundtrip.Options{
					Limits: roundtrip.Limits{Waiting: 1}}}), nil)
			gone := openSession(t, ts, "2025-11-25")
			f := gone.callFlow(1, tool)
			question := f.expect("elicitation/create")
			other := openSession(t, ts, "2025-11-25")
			wantPart(t, "a second call may wait",
				other.call(1, tool).body, `"retryAfterMs":5000`)
			if got := read(t, gone.do(t.Context(), "DELETE", "")); got.status != 204 {
				t.Fatalf("delete: status %d", got.status)
			}
			late := read(t, gone.post(`{"jsonrpc":"2.0","id":`+string(question.ID)+
				`,"result":{"action":"accept"}}`))
			wantEqual(t, "a late answer: status", late.status, 404)
			synctest.Wait() // the handler has noticed
			second := other.callFlow(2, tool)
			question = second.expect("elicitation/create")
			other.answer(question.ID, `{"action":"accept","content":{"name":"Ann"}}`)
			second.expect("accept")
			other.answer(question.ID, `{"action":"accept","content":{"name":"Eve"}}`)
		})
	}
}

// The type asked is a response that records when a question has been written.
type asked struct {
	header http.Header
	seen   chan struct{}
	once   sync.Once
}

func (w *asked) Header() http.Header { return w.header }
func (w *asked) WriteHeader(int)     {}
func (w *asked) Flush()              {}

func (w *asked) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("elicitation/create")) {
		w.once.Do(func() { close(w.seen) })
	}
	return len(p), nil
}

// wait makes a call that asks, and returns when it waits. left counts connected clients.
func wait(ctx context.Context, h http.Handler, session string, body []byte, left *sync.WaitGroup) {
	r := httptest.NewRequestWithContext(ctx, "POST", "/", bytes.NewReader(body))
	r.Header = http.Header{"Content-Type": {"application/json"},
		"Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {session}}
	w := &asked{header: http.Header{}, seen: make(chan struct{})}
	left.Go(func() { h.ServeHTTP(w, r) })
	<-w.seen
}

// Limits of a waiting call without its client. Its stack takes 8 KiB. Some calls keep 16 KiB, as
// the collector borrows the stack of an allocating goroutine. See internal/design/cost.md.
const (
	maxWaitObjects = 17 << 9  // about 8,150 are used; runs differ by 60
	maxWaitStack   = 12 << 10 // allocated in spans of 32 KiB, shared with others
)

func TestMemoryOfCallsThatWait(t *testing.T) {
	for _, tool := range askingTools {
		t.Run(tool, func(t *testing.T) { measureWaits(t, tool, nil) })
		t.Run(tool+"/all middleware", func(t *testing.T) {
			measureWaits(t, tool, recommendedMiddleware(t))
		})
	}
}

// recommendedMiddleware returns options with all recommended middleware and a discarded log.
func recommendedMiddleware(t *testing.T) *server.Options {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()),
		zapcore.AddSync(io.Discard), zap.InfoLevel)
	observer, chain, err := middleware.Production(zaplog.New(zap.New(core)),
		prom.New(prometheus.NewRegistry()), nil)
	noError(t, err)
	return &server.Options{Observer: observer, Middleware: chain}
}

// measureWaits measures waiting calls in one process.
func measureWaits(t *testing.T, tool string, opts *server.Options) {
	const sessions, calls = 25, 1000
	h := servertest.NewHandler(t, askingServer(t, opts), nil)
	var ids []string
	for range sessions {
		ids = append(ids, openDirect(t.Context(), h))
	}
	waitAlone(t.Context(), h, ids[0], []byte(toolCall(calls, tool))) // lazy state
	objectsBefore, stacksBefore := memoryInUse()
	for i := range calls {
		waitAlone(t.Context(), h, ids[i%sessions], []byte(toolCall(i, tool)))
	}
	objectsNow, stacksNow := memoryInUse()
	objects, stack := int64(objectsNow-objectsBefore)/calls, int64(stacksNow-stacksBefore)/calls
	t.Logf("%d bytes of objects and %d of stack for each of %d calls that wait", objects, stack,
		calls)
	if objects > maxWaitObjects && !testkit.Race {
		t.Errorf("a call that waits takes %d bytes of objects, want at most %d", objects,
			maxWaitObjects)
	}
	if stack > maxWaitStack && !testkit.Race {
		t.Errorf("a call that waits takes %d bytes of stack, want at most %d", stack, maxWaitStack)
	}
	noError(t, h.Shutdown(t.Context()))
}

// waitAlone makes a call that asks, and returns when it waits without its client. Many clients at
// once would leave gaps between stacks that count as used.
func waitAlone(ctx context.Context, h http.Handler, session string, body []byte) {
	ctx, leave := context.WithCancel(ctx)
	var left sync.WaitGroup
	wait(ctx, h, session, body, &left)
	leave()
	left.Wait()
}

// A waiting call holds only the part of the body that its handler got, and nothing of its client.
func TestACallThatWaitsHoldsNoBody(t *testing.T) {
	const calls, padding = 16, 128 << 10 // read in pieces
	for _, tool := range askingTools {
		t.Run(tool, func(t *testing.T) {
			var came bodies
			note := before(func(_ context.Context, r *server.Request) error {
				came.add(r.Message.Params) // part of the body
				return nil
			})
			h := servertest.NewHandler(t, askingServer(t, &server.Options{Middleware: note}), nil)
			session := openDirect(t.Context(), h)
			ctx, leave := context.WithCancel(t.Context())
			var left sync.WaitGroup
			for i := range calls {
				body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"a":1},"padding":"%s"}}`,
					i+1, tool, strings.Repeat("x", padding))
				came.add(body)
				wait(ctx, h, session, body, &left)
			}
			leave() // disconnected
			left.Wait()
			if got, want := len(came.list), 2*calls+1; got != want {
				t.Fatalf("%d bodies were seen, want %d", got, want)
			}
			if n := came.held(); n > 0 {
				t.Errorf("%d of %d bodies are held while %d calls wait", n, len(came.list), calls)
			}
			noError(t, h.Shutdown(t.Context()))
		})
	}
}

// The type bodies holds request bodies as sent and as read.
type bodies struct {
	mu   sync.Mutex
	list []weak.Pointer[byte]
}

func (b *bodies) add(body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, weak.Make(&body[0]))
}

// The method held returns the number of reachable bodies after one collection. Interrupted
// goroutines may have stale pointers on their stacks.
func (b *bodies) held() (n int) {
	for range 20 {
		runtime.GC()
		n = 0
		for _, one := range b.list {
			if one.Value() != nil {
				n++
			}
		}
		if n == 0 {
			break
		}
		runtime.Gosched()
	}
	return n
}

// Waiting calls do not count in their session until they resume.
func TestCallsThatWaitLeaveTheirSessionToOthers(t *testing.T) {
	for _, tool := range askingTools {
		t.Run(tool, func(t *testing.T) {
			srv, entered, goOn := askingServer(t, nil), make(chan struct{}), make(chan struct{})
			addTool(srv, "ask, then work",
				func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
					if _, err := roundtrip.Ask[name](ctx, "name", "Name?"); err != nil {
						return nil, err
					}
					entered <- struct{}{}
					<-goOn
					return server.Text("worked"), nil
				})
			ts, _ := serve(t, srv,
				&serverhttp.Options{Limits: serverhttp.Limits{RequestsPerSession: 2}})
			c := openSession(t, ts, "2025-11-25")
			var waits []*flow
			var questions []json.RawMessage
			for i := range 6 {
				which := tool
				if i >= 3 {
					which = "ask, then work"
				}
				f := c.callFlow(i, which)
				waits, questions = append(waits, f),
					append(questions, f.expect("elicitation/create").ID)
			}
			if got := c.call(10, "echo"); got.status != 200 {
				t.Errorf("six people think, and a plain call gets status %d: %s", got.status,
					got.body)
			}
			for _, id := range questions[3:] {
				c.answer(id, `{"action":"accept","content":{"name":"Ann"}}`)
				<-entered
			}
			if got := c.call(11, "echo"); got.status != 429 {
				t.Errorf("three calls work with a limit of 2, and a further one gets status %d: %s",
					got.status, got.body)
			}
			close(goOn)
			for _, id := range questions[:3] {
				c.answer(id, `{"action":"accept","content":{"name":"Ann"}}`)
			}
			for i, f := range waits {
				if answer := f.next(); !strings.Contains(answer.raw, "accept") &&
					!strings.Contains(answer.raw, "worked") {
					t.Errorf("call %d: %s", i, answer.raw)
				}
				f.end()
			}
			for i := range 3 { // all room is free, and no more
				wantStatus(t, "a call afterwards", c.call(20+i, "echo"), 200)
			}
		})
	}
}
