package serverhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// eventList remembers events.
type eventList struct {
	mu     sync.Mutex
	events []event.Event
}

func (o *eventList) Observe(_ context.Context, e event.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

// eventsOf returns the events of one type.
func eventsOf[T event.Event](o *eventList) (list []T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e, ok := e.(T); ok {
			list = append(list, e)
		}
	}
	return list
}

// table opens sessions without a network, so that time can be the test's.
type table struct {
	*testing.T
	h      http.Handler
	events *eventList
	steps  *steps
}

func newTable(t *testing.T, opts serverhttp.Options) *table {
	events := &eventList{}
	srv, steps := legacyServer(t, &server.Options{Observer: events})
	h := servertest.NewHandler(t, srv, &opts)
	t.Cleanup(func() { h.Shutdown(context.Background()) })
	return &table{t, h, events, steps}
}

func (tb *table) do(ctx context.Context,
	method, name, session, body string) *httptest.ResponseRecorder {
	return serveDirect(ctx, tb.h, method, session, body, "Authorization", name)
}

// open opens a session for name. It returns "" and when to come back if there is no room.
func (tb *table) open(name string) (session string, after time.Duration) {
	return tb.openWith(name, initializeBody("2025-11-25"))
}

func (tb *table) openWith(name, initialize string) (session string, after time.Duration) {
	tb.Helper()
	w := tb.do(tb.Context(), "POST", name, "", initialize)
	if w.Code == 200 {
		return w.Header().Get("Mcp-Session-Id"), 0
	}
	var got struct {
		Error struct {
			Code int64
			Data struct{ RetryAfterMs int64 }
		}
	}
	err := json.Unmarshal(w.Body.Bytes(), &got)
	after = time.Duration(got.Error.Data.RetryAfterMs) * time.Millisecond
	if err != nil || w.Code != 503 || got.Error.Code != protocol.CodeBusy ||
		w.Header().Get("Retry-After") != fmt.Sprint(after.Seconds()) {
		tb.Errorf("%s: got status %d, Retry-After %q: %s", name, w.Code,
			w.Header().Get("Retry-After"), w.Body)
	}
	return "", after
}

// status returns the status of a ping.
func (tb *table) status(name, session string) int {
	return tb.do(tb.Context(), "POST", name, session, `{"jsonrpc":"2.0","id":1,"method":"ping"}`).Code
}

// TestTheLongestIdleSessionMakesRoom at the cap, once it has been idle for a
// minute. Its client is told to open another, and the operator hears of it.
func TestTheLongestIdleSessionMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t, serverhttp.Options{Limits: serverhttp.Limits{Sessions: 3}})
		first, _ := tb.open("")
		time.Sleep(10 * time.Second)
		second, _ := tb.open("")
		third, _ := tb.open("")
		if s, after := tb.open(""); s != "" || after != 50*time.Second {
			t.Errorf("got session %q and told to come back in %v, want a refusal for 50s", s, after)
		}
		time.Sleep(30 * time.Second)
		tb.status("", first) // now the second has been idle longest
		time.Sleep(30 * time.Second)
		fourth, _ := tb.open("")
		got := [...]int{tb.status("", first), tb.status("", second), tb.status("", third),
			tb.status("", fourth)}
		if want := [...]int{200, 404, 200, 200}; got != want {
			t.Errorf("status of the sessions: got %v, want %v", got, want)
		}
		evicted := eventsOf[event.SessionEvicted](tb.events)
		if len(evicted) != 1 || evicted[0].Idle != time.Minute || evicted[0].Limit != "server" {
			t.Errorf("evictions reported: %+v, want one after a minute", evicted)
		}
		refused := eventsOf[event.RequestRefused](tb.events)
		if len(refused) == 0 || refused[0].Reason != words.RefusedSessions ||
			!strings.Contains(refused[0].Err.Error(), "Limits.Sessions") {
			t.Errorf("refusals reported: %+v, want one that names the option", refused)
		}
	})
}

// TestWhatIsInUseIsNotEvicted, however long ago its client sent anything.
func TestWhatIsInUseIsNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t, serverhttp.Options{Limits: serverhttp.Limits{Sessions: 2}})
		ctx, cancel := context.WithCancel(t.Context())
		listening, _ := tb.open("")
		running, _ := tb.open("")
		go tb.do(ctx, "GET", "", listening, "")
		gone, leave := context.WithCancel(ctx)
		go tb.do(gone, "POST", "", running, toolCall(1, "wait"))
		<-tb.steps.entered
		leave() // the call goes on without a connection
		time.Sleep(20 * time.Minute)
		if s, after := tb.open(""); s != "" || after != time.Minute {
			t.Errorf("got session %q, told to come back in %v", s, after)
		}
		cancel()
		synctest.Wait()
		time.Sleep(time.Minute)
		if s, _ := tb.open(""); s == "" || tb.status("", listening) != 404 ||
			tb.status("", running) != 200 {
			t.Errorf("got session %q; the one without a stream should be gone", s)
		}
		tb.steps.allow <- struct{}{}
		synctest.Wait()
	})
}

// TestAPrincipalMakesRoomForItself first, and does not end sessions of others
// when it has used up its own share.
func TestAPrincipalMakesRoomForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// 2 for each, 6 anonymous
		tb := newTable(t, serverhttp.Options{Authenticate: byBearer,
			Limits: serverhttp.Limits{Sessions: 8}})
		bob, _ := tb.open("bob")
		time.Sleep(time.Second)
		ann, _ := tb.open("ann")
		tb.open("ann")
		time.Sleep(time.Minute)
		again, _ := tb.open("ann")
		if got := [...]int{tb.status("bob", bob), tb.status("ann", ann),
			tb.status("ann", again)}; got != [...]int{200, 404, 200} {
			t.Errorf("at the share: got status %v", got)
		}
		time.Sleep(time.Minute)
		for range 5 { // fill the rest
			tb.open("")
		}
		time.Sleep(time.Minute)
		tb.status("ann", again)
		second, _ := tb.open("bob") // at the total, with a session of his own that is idle
		wantEqual(t, "at the total: got status",
			[...]int{tb.status("bob", bob), tb.status("bob", second)}, [...]int{404, 200})
		if s, _ := tb.open("carol"); s == "" {
			t.Error("somebody without a session gets none of those that are idle")
		}
		for _, e := range eventsOf[event.SessionEvicted](tb.events) {
			if e.Idle < time.Minute {
				t.Errorf("evicted after %v", e.Idle)
			}
		}
	})
}

// TestNoPrincipalFillsTheSessionsForOthers, at the defaults, neither their number
// nor what they keep of initialize.
func TestNoPrincipalFillsTheSessionsForOthers(t *testing.T) {
	large := strings.Replace(initializeBody("2025-11-25"), `"clientInfo"`,
		`"_meta":{"pad":"`+strings.Repeat("x", 15_000)+`"},"clientInfo"`, 1)
	for _, tc := range []struct {
		name, initialize string
		mallory, anon    int
	}{
		{"number", initializeBody("2025-11-25"), 10_000 / 4,
			10_000 * 3 / 4},
		{"bytes", large, 865, 2595},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			tb := newTable(t, serverhttp.Options{Authenticate: byBearer})
			fill := func(name string) (n int) {
				for s, _ := tb.openWith(name, tc.initialize); s != ""; s, _ = tb.openWith(name,
					tc.initialize) {
					n++
				}
				return n
			}
			if n := fill("mallory"); n < tc.mallory || n > tc.mallory+10 {
				t.Errorf("one principal opens %d sessions, want %d", n, tc.mallory)
			}
			if s, _ := tb.open("alice"); s == "" {
				t.Error("alice gets none beside one principal")
			}
			if n := fill(""); n < tc.anon-10 || n > tc.anon+30 {
				t.Errorf("anonymous callers open %d sessions, want %d", n, tc.anon)
			}
		})
	}
}

// TestNoPrincipalFillsTheEventsForOthers: what its sessions say is dropped, not
// what others have not received yet.
func TestNoPrincipalFillsTheEventsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t, *serverhttp.Tune(&serverhttp.Options{Authenticate: byBearer},
			serverhttp.Tuning{EventBytes: 100_000}))
		say := func(name string) (session, last string) {
			session, _ = tb.open(name)
			w := tb.do(t.Context(), "POST", name, session, toolCall(1, "notify"))
			id, _, _ := strings.Cut(strings.TrimPrefix(
				w.Body.String()[strings.Index(w.Body.String(), "id:"):], "id: "), "\n")
			return session, strings.TrimSpace(id)
		}
		alice, first := say("alice")
		for range 300 {
			say("mallory")
		}
		h := tb.h.(*serverhttp.Handler)
		if n := serverhttp.EventBytes(h); n > 30_000 {
			t.Errorf("one principal keeps %d of 100,000 bytes", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := serveDirect(ctx, tb.h, "GET", alice, "", "Authorization", "alice",
			"Last-Event-Id", first)
		if w.Code != 200 || !strings.Contains(w.Body.String(), "done") {
			t.Errorf("alice resumes with status %d: %s", w.Code, w.Body)
		}
	})
}
