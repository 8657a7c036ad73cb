package clienthttp_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
)

// inProcess returns a round tripper over pipes: synctest recognizes when they block.
func inProcess(t *testing.T, h http.Handler) http.RoundTripper {
	return servertest.ServePipe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(flushing{w}, r)
	})).Client().Transport
}

type flushing struct{ http.ResponseWriter }

func (w flushing) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

func (w flushing) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	return n, err
}

// A legacyServer is the server of one session, whose behaviour the test chooses.
type legacyServer struct {
	id      string
	version string           // empty: 2025-06-18
	call    http.HandlerFunc // POST of tools/call
	ping    http.HandlerFunc // POST of a ping
	notify  http.HandlerFunc // POST of notifications/cancelled
	resume  http.HandlerFunc // GET with Last-Event-ID
	listen  http.HandlerFunc // GET without Last-Event-ID; nil: 405
	end     http.HandlerFunc // DELETE

	mu   sync.Mutex
	seen []string // method, session, version, last event, JSON-RPC method
	when []time.Time
}

func (s *legacyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if r.Body != nil {
		_ = json.NewDecoder(r.Body).Decode(&m)
	}
	r = r.WithContext(context.WithValue(r.Context(), idKey{}, m.ID))
	s.mu.Lock()
	s.seen = append(s.seen, strings.Join(slices.DeleteFunc([]string{
		r.Method, r.Header.Get("Mcp-Session-Id"), r.Header.Get("Mcp-Protocol-Version"),
		r.Header.Get("Last-Event-Id"), m.Method,
	}, func(s string) bool { return s == "" }), " "))
	s.when = append(s.when, time.Now())
	s.mu.Unlock()
	next := answer(202, "", "")
	switch {
	case r.Method == http.MethodDelete && s.end != nil:
		next = s.end
	case r.Method == http.MethodDelete:
		next = answer(200, "", "")
	case r.Method == http.MethodGet && r.Header.Get("Last-Event-Id") != "":
		next = s.resume
	case r.Method == http.MethodGet && s.listen != nil:
		next = s.listen
	case r.Method == http.MethodGet:
		next = answer(405, "", "")
	case m.Method == protocol.MethodInitialize:
		if s.id != "" {
			w.Header().Set("Mcp-Session-Id", s.id)
		}
		next = answer(200, media,
			`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"`+cmp.Or(s.version, "2025-06-18")+
				`","capabilities":{},"serverInfo":{"name":"n","version":"1"}}}`)
	case m.Method == protocol.NotifyCancelled && s.notify != nil:
		next = s.notify
	case m.Method == protocol.MethodPing && s.ping != nil:
		next = s.ping
	case m.Method == protocol.MethodCallTool && s.call != nil:
		next = s.call
	}
	next(w, r)
}

func (s *legacyServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.seen), func(line string) bool {
		return strings.Contains(line, "initialize")
	})
}

// The type asked is a session's BackCaller. It answers with call, or if that is nil with {}.
type asked struct {
	notes chan string
	call  func(context.Context, *protocol.Request) (*protocol.Response, error)
}

func (a *asked) Notify(_ context.Context, n *protocol.Notification) error {
	if a.notes != nil {
		a.notes <- n.Method
	}
	return nil
}

func (a *asked) Call(ctx context.Context, req *protocol.Request) (*protocol.Response, error) {
	if a.call != nil {
		return a.call(ctx, req)
	}
	return &protocol.Response{ID: req.ID, Result: json.RawMessage(`{}`)}, nil
}

func (s *legacyServer) open(t *testing.T,
	back protocol.BackCaller) (protocol.LegacySession, *clienthttp.Transport) {
	t.Helper()
	return openSession(t, inProcess(t, s), nil, back)
}

// openSession returns a session and its transport, which are closed when the test ends.
func openSession(t *testing.T, over http.RoundTripper, a clienthttp.Authorizer,
	back protocol.BackCaller) (protocol.LegacySession, *clienthttp.Transport) {
	t.Helper()
	tr, err := clienthttp.New("http://server.test/mcp", &clienthttp.Options{
		HTTPClient: &http.Client{Transport: over}, Authorizer: a,
		Header: http.Header{
			"Mcp-Session-Id": {"forged"}, "Mcp-Protocol-Version": {"forged"}, "Last-Event-Id": {},
		},
	})
	noError(t, err)
	t.Cleanup(func() { _ = tr.Close() })
	x, resp, err := tr.OpenSession(t.Context(), initialize, back)
	if err != nil || resp.Error != nil || x == nil {
		t.Fatalf("open: %v, %+v", err, resp)
	}
	t.Cleanup(func() { _ = x.Close() })
	noError(t, x.Notify(t.Context(), &protocol.Notification{Method: protocol.NotifyInitialized}))
	return x, tr
}

var initialize = &protocol.Request{
	ID: protocol.IntID(1), Method: protocol.MethodInitialize, Params: json.RawMessage(`{}`),
}

// The function in runs a session test in a synctest bubble.
func in(t *testing.T, s *legacyServer, back protocol.BackCaller, test func(*testing.T,
	protocol.LegacySession)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x, _ := s.open(t, back)
		test(t, x)
	})
}

func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func events(text ...string) http.HandlerFunc { return answer(200, stream, strings.Join(text, "")) }

func failed(id string, code int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"m"}}`, id, code)
}

func event(id, data string) string { return fmt.Sprintf("id: %s\ndata: %s\n\n", id, data) }

func TestSessionOnTheWire(t *testing.T) {
	for _, id := range []string{"", "s!~"} {
		t.Run(fmt.Sprintf("id %q", id), func(t *testing.T) {
			s := &legacyServer{id: id, call: answer(200, media, result)}
			in(t, s, &asked{}, func(t *testing.T, x protocol.LegacySession) {
				resp, err := x.Handle(t.Context(), request(), nil)
				if err != nil || string(resp.Result) != `{"x":1}` {
					t.Errorf("got %+v, %v", resp, err)
				}
				wantEqual(t, "ended", x.Err(), nil)
			})
			const both = " 2025-06-18"
			with := strings.TrimRight("POST "+id, " ") + both
			want := []string{
				"POST initialize",
				with + " notifications/initialized",
				strings.Replace(with, "POST", "GET", 1),
				with + " tools/call",
			}
			if id != "" {
				want = append(want, strings.Replace(with, "POST", "DELETE", 1))
			}
			if !slices.Equal(s.seen, want) {
				t.Errorf("got %q, want %q", s.seen, want)
			}
		})
	}
}

// A server may end the connection and let the client resume the stream (SEP-1699).
func TestResume(t *testing.T) {
	var polls int
	poll := func(w http.ResponseWriter, r *http.Request) {
		polls++
		if polls == 12 {
			events(event("e12", fmt.Sprintf(note, 12)), event("e13", result))(w, r)
			return
		}
		events(fmt.Sprintf("id: e%d\nretry: 700\ndata:\n\n", polls))(w, r)
	}
	s := &legacyServer{id: "s", call: poll, resume: poll}
	in(t, s, &asked{}, func(t *testing.T, x protocol.LegacySession) {
		back := &collect{}
		resp, err := x.Handle(t.Context(), request(), back)
		if err != nil || string(resp.Result) != `{"x":1}` || len(back.got) != 1 {
			t.Fatalf("got %+v, %v, %v", resp, err, back.got)
		}
	})
	wantEqual(t, "connections", polls, 12)
	for i := 4; i < len(s.seen)-1; i++ {
		wantEqual(t, "request", s.seen[i], fmt.Sprintf("GET s 2025-06-18 e%d", i-3))
		// The client waits at least as long as the server said, and not much longer.
		if d := s.when[i].Sub(s.when[i-1]); d < 700*time.Millisecond || d > 800*time.Millisecond {
			t.Errorf("came back after %v", d)
		}
	}
}

func TestResumeFails(t *testing.T) {
	first := event("e1", fmt.Sprintf(note, 1))
	lost := func(w http.ResponseWriter, r *http.Request) {
		events(first)(w, r)
		panic(http.ErrAbortHandler)
	}
	const withdrawn = "POST s 2025-06-18 notifications/cancelled"
	tests := []struct {
		name   string
		call   http.HandlerFunc
		resume []http.HandlerFunc // the last one repeats
		err    error              // nil: the response arrives
		gets   int
		told   bool // the client sent the cancellation
		least  time.Duration
	}{
		{"no event id", events(fmt.Sprintf("data: "+note+"\n\n", 1)), nil,
			clienthttp.ErrNoResponse, 0,
			true, 0},
		{"not allowed", events(first), []http.HandlerFunc{answer(405, "", "")},
			clienthttp.ErrNoResponse,
			1, true, time.Second / 2},
		{"no last blank line", events(first, "data: "+result+"\n"), nil, nil, 0, false, 0},
		{"bad request", events(first),
			[]http.HandlerFunc{answer(400, "text/plain", "no such event")},
			clienthttp.ErrNoResponse, 1, true, 0},
		{"a page", events(first), []http.HandlerFunc{answer(200, "text/html", "<html>")},
			clienthttp.ErrNoResponse, 1, true, 0},
		{"session gone", events(first), []http.HandlerFunc{answer(404, "", "")},
			protocol.ErrSessionGone,
			1, false, 0},
		{"lost, then found", lost, []http.HandlerFunc{events(event("e2", result))}, nil, 1, false,
			0},
		{"server starts anew", events(first),
			[]http.HandlerFunc{answer(503, "", ""), answer(502, "", ""),
				events("data: " + result + "\n\n")},
			nil, 3, false, 3 * time.Second},
		{"never anything", events(first), []http.HandlerFunc{events("")}, clienthttp.ErrNoResponse,
			5, true, 10 * time.Second},
		{"never there", events(first), []http.HandlerFunc{answer(503, "", "")},
			clienthttp.ErrNoResponse,
			5, true, 10 * time.Second},
		{"forbidden for a while", events(first),
			[]http.HandlerFunc{answer(401, "", ""), events("data: " + result + "\n\n")}, nil, 2,
			false, 0},
		{"waits long", events("retry: 99999999999\n" + first),
			[]http.HandlerFunc{events(event("e2", result))}, nil, 1, false, time.Minute},
		{"wants no wait", events("retry: 0\n" + first),
			[]http.HandlerFunc{events(event("e2", result))},
			nil, 1, false, (10 * time.Millisecond)},
		{"id that fits no header", events(event(strings.Repeat("x", 2000),
			fmt.Sprintf(note, 1))), nil,
			clienthttp.ErrNoResponse, 0, true, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			gets := 0
			s := &legacyServer{id: "s", call: test.call}
			s.resume = func(w http.ResponseWriter, r *http.Request) {
				gets++
				test.resume[min(gets, len(test.resume))-1](w, r)
			}
			in(t, s, &asked{}, func(t *testing.T, x protocol.LegacySession) {
				start := time.Now()
				resp, err := x.Handle(t.Context(), request(), nil)
				if !errors.Is(err, test.err) || (err == nil) != (resp != nil) {
					t.Errorf("got %+v, %v, want %v", resp, err, test.err)
				}
				_, isStatus := errors.AsType[*clienthttp.StatusError](err) // would blame the URL
				if isStatus && test.err == clienthttp.ErrNoResponse && test.name != "never there" {
					t.Errorf("got %v, which has a status", err)
				}
				if took := time.Since(start); took < test.least ||
					took > test.least+100*time.Second {
					t.Errorf("took %v, want %v or a little more", took, test.least)
				}
				synctest.Wait()
				requests := s.requests()
				what := fmt.Sprintf("told in %q", requests)
				wantEqual(t, what, slices.Contains(requests, withdrawn), test.told)
				if gone := errors.Is(x.Err(),
					protocol.ErrSessionGone); gone != (test.err == protocol.ErrSessionGone) {
					t.Errorf("session: %v", x.Err())
				}
			})
			wantEqual(t, "resumptions", gets, test.gets)
		})
	}
}

func TestSessionStatus(t *testing.T) {
	tests := []struct {
		name string
		id   string
		call http.HandlerFunc
		gone bool
		err  bool
	}{
		{"404", "s", answer(404, "", ""), true, true},
		{"404 with a message", "s", answer(404, media, failed("7", -32001)), true, true},
		{"404 of a handler, whose session is known", "s", answer(404, "", ""), true, true},
		{"404 of a method", "s", answer(404, media, failed("7", -32601)), false, false},
		{"404 of a resource", "s", answer(404, media, failed("7", -32002)), false, false},
		{"404 without a session", "", answer(404, "", ""), false, true},
		{"400", "s", answer(400, "", ""), false, true},
		{"400 of a request", "s", answer(400, media, failed("7", -32602)), false, false},
		{"500", "s", answer(500, "", ""), false, true},
		{"another id", "s", answer(200, media, strings.Replace(result, "7", "8", 1)), false, true},
		{"garbage", "s", answer(200, media, "<html>"), false, true},
		{"garbage in a stream", "s", events("data: <html>\n\n"), false, true},
		{"null in a stream", "s", events("data: null\n\ndata: {}\n\n"), false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &legacyServer{id: test.id, call: test.call}
			known := strings.HasSuffix(test.name, "is known")
			if test.gone && !known {
				s.ping = answer(404, "", "")
			}
			in(t, s, &asked{}, func(t *testing.T, x protocol.LegacySession) {
				resp, err := x.Handle(t.Context(), request(), nil)
				if (err != nil) != test.err ||
					errors.Is(err, protocol.ErrSessionGone) != test.gone {
					t.Errorf("got %+v, %v", resp, err)
				}
				ended := false
				select {
				case <-x.Done():
					ended = true
				default:
				}
				wantEqual(t, "session has ended", ended, test.gone)
				if !test.gone {
					return
				}
				_, later := x.Handle(t.Context(), request(), nil) // must not be sent
				if !errors.Is(later, protocol.ErrSessionGone) {
					t.Errorf("afterwards: %v", later)
				}
				// Neither request has run, but others in the session may have.
				if errors.Is(err, protocol.ErrNotRun) == known || !errors.Is(later, protocol.ErrNotRun) ||
					errors.Is(x.Err(), protocol.ErrNotRun) {
					t.Errorf("got %v, %v, session %v", err, later, x.Err())
				}
			})
			deleted := slices.ContainsFunc(s.seen,
				func(line string) bool { return strings.HasPrefix(line, "DELETE") })
			if deleted != (test.id != "" && !test.gone) {
				t.Errorf("DELETE %v: %q", deleted, s.seen)
			}
		})
	}
}

// Some servers refuse requests of a lost session with 400 and no id. If the server still answers a
// ping, it had another reason, and the session continues.
func TestSessionLostWithoutTheIDOfTheRequest(t *testing.T) {
	refusals := map[string]http.HandlerFunc{
		"no id": answer(400, media,
			`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`),
		"null":       answer(400, media, failed("null", -32000)),
		"another id": answer(400, media, failed(`"server-error"`, -32600)),
		"text":       answer(400, "text/plain", "Invalid or missing session ID"),
		"empty":      answer(400, "", ""),
	}
	pings := map[string]struct {
		serve http.HandlerFunc // nil: answers a ping as it does the request
		gone  bool
	}{
		"refused too":        {nil, true},
		"not found":          {answer(404, "", ""), true},
		"answered":           {echoID(`"result":{}`), false},
		"answered on events": {events("data: {}\n\n"), false},
		"an unknown method":  {echoID(`"error":{"code":-32601,"message":"m"}`), false},
		"silence":            {silent, false},
		"a busy server":      {answer(503, "", ""), false},
	}
	for name, refuse := range refusals {
		for ping, p := range pings {
			t.Run(name+", ping "+ping, func(t *testing.T) {
				s := &legacyServer{id: "s", call: refuse, ping: p.serve}
				if p.serve == nil {
					s.ping = refuse
				}
				in(t, s, &asked{}, func(t *testing.T, x protocol.LegacySession) {
					resp, err := x.Handle(t.Context(), request(), nil)
					if errors.Is(err, protocol.ErrSessionGone) != p.gone {
						t.Errorf("got %+v, %v, want gone %v", resp, err, p.gone)
					}
					if gone := errors.Is(x.Err(), protocol.ErrSessionGone); gone != p.gone {
						t.Errorf("session: %v, want gone %v", x.Err(), p.gone)
					}
				})
				if calls := strings.Count(strings.Join(s.requests(), "\n"),
					"tools/call"); calls != 1 {
					t.Errorf("the call was sent %d times", calls)
				}
			})
		}
	}
}

func echoID(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer(200, media, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, r.Context().Value(idKey{}),
			body))(w, r)
	}
}

type idKey struct{}

func TestSessionIDMustBeVisible(t *testing.T) {
	for _, id := range []string{"a b", "é", "a\tb", strings.Repeat("x", 2000)} {
		inBubble(t, fmt.Sprintf("%.8q", id), func(t *testing.T) {
			tr, err := clienthttp.New("http://server.test/mcp", &clienthttp.Options{
				HTTPClient: &http.Client{Transport: inProcess(t, &legacyServer{id: id})},
			})
			noError(t, err)
			defer tr.Close()
			x, _, err := tr.OpenSession(t.Context(), initialize, &asked{})
			if x != nil || err == nil {
				t.Errorf("%.20q: no error", id)
			}
		})
	}
}

// A closed connection does not cancel a request on a legacy server, which may end or continue
// requests when their session ends. So the client sends a cancellation before it ends the session.
func TestSessionCancel(t *testing.T) {
	for _, closes := range []bool{false, true} {
		t.Run(fmt.Sprintf("closed %v", closes), func(t *testing.T) {
			s := &legacyServer{id: "s", call: late(stream, "")}
			in(t, s, &asked{}, func(t *testing.T, x protocol.LegacySession) {
				enough := errors.New("enough")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(enough) })
				if _, err := x.Handle(ctx, request(), nil); !errors.Is(err, enough) {
					t.Errorf("got %v", err)
				}
				if closes {
					noError(t, x.Close())
				}
				synctest.Wait()
				got := s.requests()
				end := slices.Index(got, "DELETE s 2025-06-18")
				i := slices.Index(got, "POST s 2025-06-18 notifications/cancelled")
				if i < 0 || closes && i > end {
					t.Errorf("sent %q", got)
				}
			})
		})
	}
}

// The session's stream resumes after the last event. Each empty stream makes the wait longer.
func TestSessionStream(t *testing.T) {
	n := 0
	hear := func(w http.ResponseWriter, r *http.Request) {
		n++
		switch {
		case n <= 2:
			events(event(fmt.Sprintf("g%d", n), fmt.Sprintf(note, n)), "data: <html>\n\n",
				"data: "+result+"\n\n", "event: other\ndata: x\n\n")(w, r)
		case n == 3:
			answer(503, "", "")(w, r)
		default:
			late(stream, "")(w, r)
		}
	}
	s := &legacyServer{id: "s", listen: hear, resume: hear}
	back := &asked{notes: make(chan string, 8)}
	in(t, s, back, func(t *testing.T, x protocol.LegacySession) {
		time.Sleep(time.Minute)
		want := []string{
			"GET s 2025-06-18", "GET s 2025-06-18 g1", "GET s 2025-06-18 g2", "GET s 2025-06-18 g2",
		}
		if got := s.requests(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		wantEqual(t, "heard: notifications", len(back.notes), 2)
	})
}

func TestSessionStreamEnds(t *testing.T) {
	for _, test := range []struct {
		status int
		gets   int
		gone   bool
	}{{405, 1, false}, {400, 1, false}, {404, 1, true}, {302, 1, false}, {503, 4, false},
		{429, 4, false}} {
		t.Run(http.StatusText(test.status), func(t *testing.T) {
			s := &legacyServer{id: "s", listen: answer(test.status, "", "")}
			in(t, s, &asked{}, func(t *testing.T, x protocol.LegacySession) {
				time.Sleep(12 * time.Second)
				gets := len(s.requests())
				if (test.gets == 1) != (gets == 1) || gets > 6 {
					t.Errorf("%d: %d requests", test.status, gets)
				}
				if gone := errors.Is(x.Err(), protocol.ErrSessionGone); gone != test.gone {
					t.Errorf("%d: session %v", test.status, x.Err())
				}
			})
		})
	}
}

// Close is not delayed if the server refuses the session's end or never answers.
func TestSessionClose(t *testing.T) {
	for name, end := range map[string]http.HandlerFunc{
		"silent":      silent,
		"not allowed": answer(405, "", ""),
		"broken":      answer(500, "", ""),
	} {
		t.Run(name, func(t *testing.T) {
			s := &legacyServer{id: "s", end: end, listen: late(stream, "")}
			in(t, s, &asked{}, func(t *testing.T, x protocol.LegacySession) {
				start := time.Now()
				err := x.Close()
				if (name == "not allowed") != (err == nil) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("took %v", took)
				}
				wantEqual(t, "again", x.Close(), nil)
				if _, err := x.Handle(t.Context(), request(), nil); !errors.Is(err,
					clienthttp.ErrClosed) {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

func askFor(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		events(`data: {"jsonrpc":"2.0","id":"a","method":"roots/list"}`+"\n\n")(w, r)
		time.Sleep(d)
		_, _ = io.WriteString(w, "data: "+result+"\n\n")
	}
}

// A server's question ends with its request, and the client then sends no answer.
func TestServerQuestionEndsWithItsRequest(t *testing.T) {
	ended := make(chan error, 1)
	back := &asked{}
	back.call = func(ctx context.Context, req *protocol.Request) (*protocol.Response, error) {
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}
	s := &legacyServer{id: "s", call: askFor(time.Second)}
	in(t, s, back, func(t *testing.T, x protocol.LegacySession) {
		if _, err := x.Handle(t.Context(), request(), nil); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			t.Error("no cause")
		}
		synctest.Wait()
		if got := s.requests(); len(got) != 2 { // GET and the call
			t.Errorf("sent %q", got)
		}
	})
}

// Only revision 2025-03-26 has batches.
func TestBatchesOfRevision20250326(t *testing.T) {
	batch := "data: [" + fmt.Sprintf(note, 1) + "," + result + "]\n\n"
	for version, ok := range map[string]bool{"2025-03-26": true, "2025-06-18": false} {
		t.Run(version, func(t *testing.T) {
			s := &legacyServer{id: "s", version: version, call: events(batch)}
			in(t, s, &asked{}, func(t *testing.T, x protocol.LegacySession) {
				if _, err := x.Handle(t.Context(), request(), nil); (err == nil) != ok {
					t.Errorf("%s: got %v", version, err)
				}
			})
		})
	}
}

// The type unsteady is a round tripper that fails when an answer is posted.
type unsteady struct {
	http.RoundTripper
	statuses []int // per attempt; the last one repeats; 0: success, -1: broken connection
	when     []time.Time
}

func (u *unsteady) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost {
		return u.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if strings.Contains(string(body), `"result"`) {
		u.when = append(u.when, time.Now())
		switch status := u.statuses[min(len(u.when), len(u.statuses))-1]; status {
		case 0:
		case -1:
			return nil, errors.New("broken")
		default:
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody,
				Request: r}, nil
		}
	}
	return u.RoundTripper.RoundTrip(r)
}

// A user's answer survives a broken connection, and is not repeated after a refusal.
func TestAnswerIsSentAgain(t *testing.T) {
	for _, tc := range []struct {
		name     string
		statuses []int
		want     int // attempts
	}{
		{"taken", []int{0}, 1},
		{"broken twice", []int{-1, -1, 0}, 3},
		{"busy once", []int{503, 0}, 2},
		{"refused", []int{400}, 1},
		{"broken for good", []int{-1}, 7},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			s := &legacyServer{id: "s", call: askFor(time.Minute)}
			u := &unsteady{RoundTripper: inProcess(t, s), statuses: tc.statuses}
			x, _ := openSession(t, u, nil, &asked{})
			if _, err := x.Handle(t.Context(), request(), nil); err != nil {
				t.Error(err)
			}
			wantEqual(t, "attempts", len(u.when), tc.want)
		})
	}
}

// An open session's stream ends with the transport. Synctest waits for its goroutine.
func TestCloseEndsSessionStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &legacyServer{id: "s", listen: answer(http.StatusOK, stream, "")} // the stream breaks
		_, transport := s.open(t, &asked{})
		synctest.Wait() // the client is about to reopen the stream
		noError(t, transport.Close())
	})
}
