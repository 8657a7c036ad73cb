package serverhttp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/wire/sse"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const toTools = `"notifications":{"toolsListChanged":true}`

func listenRequest(filter string) string {
	return rawRequest(body(protocol.MethodListen, filter), "MCP-Protocol-Version: 2026-07-28",
		"Mcp-Method: "+protocol.MethodListen)
}

// subscribe opens a subscription on conn and returns its events after the acknowledgment.
func subscribe(t testing.TB, conn net.Conn, filter string) *sse.Reader {
	t.Helper()
	write(t, conn, listenRequest(filter))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	noError(t, err)
	if got := response.Header.Get("Content-Type"); response.StatusCode != 200 ||
		got != "text/event-stream" {
		t.Fatalf("got status %d and %s, want a stream", response.StatusCode, got)
	}
	events := sse.NewReader(response.Body, 0)
	wantEvent(t, events, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}`)
	return events
}

// wantEvent reads one event, which must begin with want.
func wantEvent(t testing.TB, events *sse.Reader, want string) {
	t.Helper()
	e, err := events.Next()
	if err != nil || !strings.HasPrefix(string(e.Data), want) {
		t.Fatalf("got %s, %v, want %s", e.Data, err, want)
	}
}

// wantFinal reads the response that ends a subscription.
func wantFinal(t testing.TB, events *sse.Reader) {
	t.Helper()
	e, err := events.Next()
	for err == nil && strings.Contains(string(e.Data), "list_changed") {
		e, err = events.Next()
	}
	if err != nil || !strings.HasPrefix(string(e.Data), `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete"`) ||
		!strings.Contains(string(e.Data), `"io.modelcontextprotocol/subscriptionId":7`) {
		t.Fatalf("got %s, %v, want the final response", e.Data, err)
	}
	if e, err := events.Next(); err != io.EOF {
		t.Fatalf("got %s, %v, want the end", e.Data, err)
	}
}

const toolsChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}`

// TestListen ends subscriptions in all orderly ways.
func TestListen(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(srv *server.Server, h *serverhttp.Handler) error
	}{
		{"Server.Close", func(srv *server.Server, _ *serverhttp.Handler) error { return srv.Close() }},
		{"Server.Shutdown", func(srv *server.Server, _ *serverhttp.Handler) error {
			return srv.Shutdown(t.Context())
		}},
		{"Handler.Shutdown", func(_ *server.Server, h *serverhttp.Handler) error {
			return h.Shutdown(t.Context())
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := newServer(t, nil)
			ts, h := serve(t, srv, nil)
			// The acknowledgment does not wait for another event.
			events := subscribe(t, dial(t, ts), toTools)
			addTool(srv, "new", says("x"))
			wantEvent(t, events, toolsChanged)
			noError(t, test.end(srv, h))
			wantFinal(t, events)
		})
	}
}

// A refused subscription is not a stream.
func TestListenIsRefused(t *testing.T) {
	ts, _ := serve(t, newServer(t, &server.Options{MaxSubscriptions: 1}), nil)
	subscribe(t, dial(t, ts), toTools)
	for _, test := range []struct {
		name, params string
		status       int
		code         int64
	}{
		{"too many", toTools, 200, protocol.CodeBusy},
		{"no filter", `"notifications":5`, 400, protocol.CodeInvalidParams},
		{"too long", `"notifications":{"resourceSubscriptions":["` + strings.Repeat("x", (256<<10)) + `"]}`, 200, protocol.CodeInvalidParams},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := do(t, ts, "POST", headers(protocol.MethodListen, ""),
				body(protocol.MethodListen, test.params))
			if got.status != test.status || got.code() != test.code ||
				got.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: got status %d, %s, want %d with code %d", test.name, got.status, got.body,
					test.status, test.code)
			}
		})
	}
}

// The function ends returns a middleware that reports the end of a subscription and its error.
func ends() (server.Middleware, <-chan error) {
	ended := make(chan error, 1)
	return func(next server.Handler) server.Handler {
		return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
			result, err := next(ctx, request)
			if request.Message.Method == protocol.MethodListen {
				ended <- err
			}
			return result, err
		}
	}, ended
}

// A disconnect, even of only the sending half, frees the place.
func TestListenDisconnect(t *testing.T) {
	for _, half := range []bool{false, true} {
		m, ended := ends()
		ts, _ := serve(t, newServer(t,
			&server.Options{MaxSubscriptions: 1, Middleware: []server.Middleware{m}}), nil)
		for range 3 {
			conn := dial(t, ts)
			subscribe(t, conn, toTools)
			if half {
				_ = conn.CloseWrite()
			} else {
				conn.Close()
			}
			wantError(t, "a subscription whose client left ended well", <-ended)
		}
	}
}

// The client never reads.
func TestListenSlowReader(t *testing.T) {
	m, ended := ends()
	srv := newServer(t, &server.Options{MaxSubscriptions: 1, Middleware: []server.Middleware{m}})
	ts, _ := serve(t, srv, serverhttp.Tune(&serverhttp.Options{},
		serverhttp.Tuning{WriteTimeout: 50 * time.Millisecond}))
	var uris, quoted []string
	for i := range 50 {
		uris = append(uris, fmt.Sprintf("x:%d/%04000d", i, 0))
		quoted = append(quoted, `"`+uris[i]+`"`)
	}
	conn := dial(t, ts)
	subscribe(t, conn, `"notifications":{"resourceSubscriptions":[`+strings.Join(quoted, ",")+`]}`)
	noError(t, conn.SetReadBuffer(4<<10))
	changes := time.NewTicker(time.Millisecond)
	defer changes.Stop()
	for rounds := 1; ; rounds++ {
		for _, uri := range uris {
			srv.ResourceUpdated(uri) // does not block
		}
		select {
		case <-changes.C:
		case err := <-ended:
			if err == nil {
				t.Error("the subscription ended well")
			}
			t.Logf("ended after %d rounds of changes", rounds)
			subscribe(t, dial(t, ts), toTools) // the place is free
			return
		}
	}
}

// arrivals sends the time of each comment and event.
func arrivals(t *testing.T, conn net.Conn) <-chan string {
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	noError(t, err)
	began, seen := time.Now(), make(chan string, 100)
	go func() {
		defer close(seen)
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			switch {
			case lines.Text() == ":":
				seen <- fmt.Sprintf("comment at %s", time.Since(began))
			case strings.HasPrefix(lines.Text(), "data:"):
				seen <- fmt.Sprintf("event at %s", time.Since(began))
			case lines.Text() != "":
				t.Errorf("unexpected line %q", lines.Text())
			}
		}
	}()
	return seen
}

// TestListenKeepAlive watches a quiet stream for two minutes.
func TestListenKeepAlive(t *testing.T) {
	for _, test := range []struct {
		interval time.Duration // 0 for the constant
		want     string
	}{
		{0, "event at 0s, comment at 25s, event at 40s, comment at 1m5s, comment at 1m30s, " +
			"comment at 1m55s, event at 2m0s"},
		{50 * time.Second, "event at 0s, event at 40s, comment at 1m30s, event at 2m0s"},
	} {
		bubble(t, test.interval.String(), func(t *testing.T) {
			srv := newServer(t, nil)
			h := servertest.NewHandler(t, srv, serverhttp.Tune(&serverhttp.Options{},
				serverhttp.Tuning{KeepAlive: test.interval}))
			conn := servertest.ServePipe(t, h).Dial()
			write(t, conn, listenRequest(toTools))
			seen := arrivals(t, conn)
			time.Sleep(40 * time.Second)
			addTool(srv, "new", says("x"))
			time.Sleep(80 * time.Second)
			noError(t, h.Shutdown(t.Context()))
			var got []string
			for s := range seen {
				got = append(got, s)
			}
			wantEqual(t, "the result", strings.Join(got, ", "), test.want)
		})
	}
}

// The keep-alive detects a client that stops reading silently.
func TestDeadPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ended := ends()
		srv := newServer(t, &server.Options{MaxSubscriptions: 1,
			Middleware: []server.Middleware{m}})
		dial := servertest.ServePipe(t, servertest.NewHandler(t, srv, nil)).Dial
		began := time.Now()
		subscribe(t, dial(), toTools)
		wantError(t, "the subscription ended well", <-ended)
		want := (25 * time.Second) + (30 * time.Second)
		wantEqual(t, "found out after", time.Since(began), want)
		subscribe(t, dial(), toTools) // the place is free
	})
}

// A principal at its share is told when to retry; others are served.
func TestNoPrincipalTakesAllSubscriptions(t *testing.T) {
	for _, tc := range []struct {
		name         string
		max          int
		authenticate func(*http.Request) (protocol.Principal, error)
		who          string
		most         int
		limit        string
		fits         bool
	}{
		{"a principal, at the default", 0, byBearer, "mallory", 10_000 / 4,
			"principal", true},
		{"anonymous callers beside others", 8, byBearer, "", 6, "principal", true},
		{"anonymous callers where nobody authenticates", 8, nil, "", 8, "server", false},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			events := &eventList{}
			h := servertest.NewHandler(t, newServer(t,
				&server.Options{MaxSubscriptions: tc.max, Observer: events}),
				&serverhttp.Options{Authenticate: tc.authenticate})
			ctx, cancel := context.WithCancel(t.Context())
			defer synctest.Wait()
			defer cancel()
			// listen returns the refusal, "" while the subscription is open.
			listen := func(name string) string {
				r := httptest.NewRequestWithContext(ctx, "POST", "/",
					strings.NewReader(body(protocol.MethodListen, toTools)))
				r.Header = headers(protocol.MethodListen, "", "Authorization", name)
				w, done := httptest.NewRecorder(), make(chan struct{})
				go func() { h.ServeHTTP(w, r); close(done) }()
				synctest.Wait()
				select {
				case <-done:
					return w.Body.String()
				default:
					return ""
				}
			}
			n, refusal := 0, ""
			for refusal = listen(tc.who); refusal == ""; refusal = listen(tc.who) {
				n++
			}
			if n != tc.most ||
				!strings.Contains(refusal, `"retryAfterMs":30000,"limit":"`+tc.limit+`"`) {
				t.Errorf("%d subscriptions, then %s, want %d", n, refusal, tc.most)
			}
			if e := eventsOf[event.QuotaExceeded](events); len(e) != 1 ||
				e[0].Resource != "subscriptions" || e[0].Limit != tc.limit {
				t.Errorf("events %+v", e)
			}
			if got := listen("alice"); (got == "") != tc.fits {
				t.Errorf("alice: %q", got)
			}
		})
	}
}

// Nothing is declared, served or announced in either era.
func TestNoSubscriptions(t *testing.T) {
	srv, _ := legacyServer(t, &server.Options{NoSubscriptions: true,
		Capabilities: protocol.ServerCapabilities{Prompts: &protocol.ListCapability{}}})
	ts, _ := serve(t, srv, nil)
	c := openSession(t, ts, "2025-11-25")
	addTool(srv, "new", says("x"))
	for _, declared := range []*reply{
		do(t, ts, "POST", headers(protocol.MethodDiscover, ""), body(protocol.MethodDiscover, "")),
		read(t, newClient(t, ts, "").post(initializeBody("2025-11-25"))),
	} {
		wantPart(t, "capabilities", declared.body, `"tools":{},`)
		wantPart(t, "capabilities", declared.body, `"prompts":{}`)
		wantPart(t, "capabilities", declared.body, `"resources":{}`)
	}
	wantRefusal(t, "subscriptions/listen", do(t, ts, "POST", headers(protocol.MethodListen, ""),
		body(protocol.MethodListen, toTools)), 404, protocol.CodeMethodNotFound)
	for _, method := range []string{protocol.MethodSubscribe, protocol.MethodUnsubscribe} {
		got := read(t, c.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+
			`","params":{"uri":"test://a"}}`))
		wantEqual(t, method, got.code(), int64(protocol.CodeMethodNotFound))
	}
	srv.ResourceUpdated("test://a")
	f := c.listen("")
	noError(t, srv.Close())
	if e, err := f.Next(); err == nil {
		t.Errorf("announced: %s", e.Data)
	}
}
