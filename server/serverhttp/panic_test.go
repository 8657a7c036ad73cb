package serverhttp_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// errorLog is the log of an [http.Server].
type errorLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *errorLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *errorLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The function logged is serveHandler with its own log.
func logged(t *testing.T, h http.Handler) (*httptest.Server, *errorLog) {
	t.Helper()
	text := &errorLog{}
	ts := httptest.NewUnstartedServer(h)
	ts.Config.ErrorLog = log.New(text, "", 0)
	ts.Start()
	t.Cleanup(ts.Close)
	return ts, text
}

// The function fallible returns cases of code outside of handlers that panics with value.
func fallible(value any) []panicCase {
	observer := observerFunc(func(event.Event) { panic(value) })
	fall := before(func(_ context.Context, r *server.Request) error {
		if r.Message.Method == protocol.MethodListTools {
			return errors.New("no error of the protocol")
		}
		return nil
	})
	return []panicCase{
		{"observer of a panic", &server.Options{Observer: observer}, nil, protocol.MethodCallTool,
			"panic", 200},
		{"observer of an error", &server.Options{Observer: observer, Middleware: fall}, nil,
			protocol.MethodListTools, "", 200},
		{"Authenticate", nil,
			&serverhttp.Options{Authenticate: func(r *http.Request) (protocol.Principal, error) {
				if r.Header.Get("Mcp-Name") == "" {
					return protocol.Principal{}, nil
				}
				panic(value)
			}}, protocol.MethodCallTool, "echo", 500},
		{"Visible",
			&server.Options{Visible: func(_ protocol.Principal, _ server.Kind, name string) bool {
				if name == "echo" {
					panic(value)
				}
				return true
			}}, nil, protocol.MethodCallTool, "echo", 500},
	}
}

type panicCase struct {
	name           string
	opts           *server.Options
	http           *serverhttp.Options
	method, target string
	status         int
}

func (tc panicCase) request() (http.Header, string) {
	params := ""
	if tc.target != "" {
		params = `"name":"` + tc.target + `","arguments":{}`
	}
	return headers(tc.method, tc.target), body(tc.method, params)
}

// A panic outside handlers is an internal error of its request, and the connection survives.
func TestPanicsAreAnswered(t *testing.T) {
	for _, tc := range fallible("on purpose") {
		t.Run(tc.name, func(t *testing.T) {
			ts, text := logged(t, servertest.NewHandler(t, newServer(t, tc.opts), tc.http))
			header, message := tc.request()
			got := do(t, ts, "POST", header, message)
			id := "7"
			if tc.name == "Authenticate" {
				id = "" // nothing was read yet
			}
			if got.status != tc.status || got.code() != protocol.CodeInternalError ||
				strings.Trim(string(got.ID), "nul") != id {
				t.Errorf("got status %d: %s, want an internal error", got.status, got.body)
			}
			wantNoPart(t, "the client learns what the panic says", got.body, "on purpose")
			if !strings.Contains(text.String(), "on purpose") ||
				!strings.Contains(text.String(), "panic_test.go") {
				t.Errorf("logged %q, want the panic and its stack", text)
			}
			wantRefusal(t, "the next request", do(t, ts, "POST", headers("server/discover", ""),
				body("server/discover", "")), 200, 0)
		})
	}
}

// http.ErrAbortHandler breaks the connection and is not logged, as in net/http.
func TestAbortIsPassedOn(t *testing.T) {
	for _, tc := range fallible(http.ErrAbortHandler) {
		t.Run(tc.name, func(t *testing.T) {
			ts, text := logged(t, servertest.NewHandler(t, newServer(t, tc.opts), tc.http))
			header, message := tc.request()
			if response, err := ts.Client().Do(newRequest(t, ts, "POST", header,
				message)); err == nil {
				t.Errorf("got %s", read(t, response).body)
			}
			wantEqual(t, "logged", text.String(), "")
		})
	}
}

// A stream ends with the error.
func TestPanicOnAStream(t *testing.T) {
	srv := newServer(t,
		&server.Options{Observer: panicsOn[event.HandlerPanicked]("in the observer")})
	addTool(srv, "fall", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		if err := call.Notify(ctx, progress(0)); err != nil {
			t.Error(err)
		}
		panic("in the handler")
	})
	ts, _ := logged(t, servertest.NewHandler(t, srv, nil))
	got := do(t, ts, "POST", headers(protocol.MethodCallTool, "fall"),
		body(protocol.MethodCallTool, `"name":"fall"`))
	before, after, _ := strings.Cut(got.body, `"progress":0`)
	if before == "" || !strings.Contains(after, `"id":7,"error":{"code":-32603`) {
		t.Errorf("got %q, want a notification and an internal error", got.body)
	}
}

// halfWriter panics within a body.
type halfWriter struct{ http.ResponseWriter }

func (w halfWriter) Write(p []byte) (int, error) {
	_, _ = w.ResponseWriter.Write(p[:len(p)/2])
	panic("in the writer")
}

// A partly written response is not completed.
func TestPanicOfAWriter(t *testing.T) {
	h := servertest.NewHandler(t, newServer(t, nil), nil)
	ts, text := logged(t, http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		h.ServeHTTP(halfWriter{w}, r)
	}))
	response, err := ts.Client().Do(newRequest(t, ts, "POST", headers("tools/list", ""),
		body("tools/list", "")))
	if err == nil {
		defer response.Body.Close()
		if got, err := io.ReadAll(response.Body); err == nil {
			t.Errorf("got all of a response: %s", got)
		}
	}
	wantEqual(t, "times in "+text.String(), strings.Count(text.String(), "in the writer"), 1)
}

// A failed session takes no room.
func TestPanicOfInitialize(t *testing.T) {
	for _, tc := range []struct {
		name  string
		value any
	}{{"answered", "on purpose"}, {"passed on", http.ErrAbortHandler}} {
		t.Run(tc.name, func(t *testing.T) {
			var broken atomic.Bool
			fall := before(func(context.Context, *server.Request) error {
				if broken.Load() {
					panic("in the middleware")
				}
				return nil
			})
			srv := newServer(t, &server.Options{Middleware: fall,
				Observer: observerFunc(func(event.Event) {
					if broken.Load() {
						panic(tc.value)
					}
				})})
			broken.Store(true)
			h := servertest.NewHandler(t, srv,
				&serverhttp.Options{Limits: serverhttp.Limits{Sessions: 1}})
			ts, _ := logged(t, h)
			for range 2 {
				r := newRequest(t, ts, "POST", (&legacyClient{}).header(),
					initializeBody("2025-11-25"))
				response, err := ts.Client().Do(r)
				if tc.value == http.ErrAbortHandler {
					if err == nil {
						t.Errorf("got %s, want a broken connection", read(t, response).body)
					}
					continue
				}
				noError(t, err)
				if got := read(t, response); got.code() != protocol.CodeInternalError ||
					got.header.Get("Mcp-Session-Id") != "" {
					t.Errorf("got status %d: %s, want an internal error", got.status, got.body)
				}
			}
			broken.Store(false)
			openSession(t, ts, "2025-11-25")
		})
	}
}
