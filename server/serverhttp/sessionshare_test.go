package serverhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// byBearer takes the credentials for the name of the sender. Who has none is anonymous.
func byBearer(r *http.Request) (protocol.Principal, error) {
	return protocol.Principal{Subject: r.Header.Get("Authorization")}, nil
}

// isAnn takes everybody for Ann.
func isAnn(*http.Request) (protocol.Principal, error) {
	return protocol.Principal{Subject: "ann"}, nil
}

// openings opens sessions as name until one is refused, most at most.
func openings(t *testing.T, ts *httptest.Server, name string,
	most int) (open []*legacyClient) {
	t.Helper()
	for range most {
		c := newClient(t, ts, name)
		got := read(t, c.post(initializeBody("2025-11-25")))
		if got.status != 200 {
			if got.status != 503 || got.header.Get("Retry-After") == "" || got.code() != 23223 ||
				string(got.ID) != "0" || !strings.Contains(got.body, `"retryAfterMs":`) {
				t.Errorf("%s: got status %d, Retry-After %q: %s", name, got.status,
					got.header.Get("Retry-After"), got.body)
			}
			break
		}
		c.session = got.header.Get("Mcp-Session-Id")
		open = append(open, c)
	}
	return open
}

// TestSessionsOfOnePrincipal holds how many sessions one principal can open, and
// that others can while it cannot.
func TestSessionsOfOnePrincipal(t *testing.T) {
	for _, tc := range []struct {
		name      string
		opts      serverhttp.Options
		ann, anon int // how many Ann can open, and then those without a name
	}{
		{"default", serverhttp.Options{Authenticate: byBearer,
			Limits: serverhttp.Limits{Sessions: 8}}, 2, 6},
		{"few", serverhttp.Options{Authenticate: byBearer,
			Limits: serverhttp.Limits{Sessions: 3}}, 1, 2},
		{"set", serverhttp.Options{Authenticate: byBearer, Limits: serverhttp.Limits{Sessions: 8,
			SessionsPerPrincipal: 5}},
			5, 3},
		{"all", serverhttp.Options{Authenticate: byBearer, Limits: serverhttp.Limits{Sessions: 4,
			SessionsPerPrincipal: 4}},
			4, 0},
		{"more than there are", serverhttp.Options{Authenticate: byBearer,
			Limits: serverhttp.Limits{Sessions: 4,
				SessionsPerPrincipal: 9}}, 4, 0},
		{"anonymous", serverhttp.Options{Limits: serverhttp.Limits{Sessions: 8}}, 8, 0},
		{"anonymous, set", serverhttp.Options{Limits: serverhttp.Limits{Sessions: 8,
			SessionsPerPrincipal: 3}}, 8, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv, _ := legacyServer(t, nil)
			ts, _ := serve(t, srv, &tc.opts)
			ann := openings(t, ts, "ann", 20)
			if len(ann) != tc.ann {
				t.Fatalf("one principal opened %d sessions, want %d", len(ann), tc.ann)
			}
			if anon := openings(t, ts, "", 20); len(anon) != tc.anon {
				t.Errorf("others opened %d sessions, want %d", len(anon), tc.anon)
			}
			for _, c := range ann {
				wantRefusal(t, "a session that was open", c.call(1, "echo"), 200, 0)
			}
			read(t, ann[0].do(t.Context(), "DELETE", ""))
			if again := openings(t, ts, "ann", 20); len(again) != 1 {
				t.Errorf("%d sessions opened after one was deleted, want 1", len(again))
			}
		})
	}
}

// TestRefusedSessionsTakeNoShare: an initialize that fails leaves nothing behind,
// and those that come at once are counted before they are open.
func TestRefusedSessionsTakeNoShare(t *testing.T) {
	var broken atomic.Bool
	fail := before(func(context.Context, *server.Request) error {
		if broken.Load() {
			return protocol.Errorf(protocol.CodeBusy, "not now")
		}
		return nil
	})
	srv, _ := legacyServer(t, &server.Options{Middleware: fail})
	ts, _ := serve(t, srv, &serverhttp.Options{Authenticate: byBearer,
		Limits: serverhttp.Limits{Sessions: 8}})
	broken.Store(true)
	for range 5 {
		got := read(t, newClient(t, ts, "ann").post(initializeBody("2025-11-25")))
		if got.code() != protocol.CodeBusy || !strings.Contains(got.body, "not now") {
			t.Errorf("got status %d: %s", got.status, got.body)
		}
	}
	broken.Store(false)
	var mu sync.Mutex
	open := 0
	var all sync.WaitGroup
	for range 10 { // at once
		all.Go(func() {
			got := read(t, newClient(t, ts, "ann").post(initializeBody("2025-11-25")))
			mu.Lock()
			defer mu.Unlock()
			if got.status == 200 {
				open++
			}
		})
	}
	all.Wait()
	wantEqual(t, "sessions are open", open, 2)
}

// TestExpiredSessionsFreeTheirShare also ends what is open.
func TestExpiredSessionsFreeTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _ := legacyServer(t, nil)
		h := servertest.NewHandler(t, srv, &serverhttp.Options{
			Authenticate: isAnn,
			Limits:       serverhttp.Limits{SessionsPerPrincipal: 1}, SessionTimeout: time.Hour,
		})
		open := func() int {
			return serveDirect(t.Context(), h, "POST", "",
				initializeBody("2025-11-25")).Code
		}
		wantEqual(t, "got status", [...]int{open(), open()}, [...]int{200, 503})
		time.Sleep(61 * time.Minute)
		wantEqual(t, "after an hour: got status", [...]int{open(), open()}, [...]int{200, 503})
		wantEqual(t, "principals are known", serverhttp.Owners(h), 1)
		noError(t, h.Shutdown(t.Context()))
		wantEqual(t, "principals are known after the end", serverhttp.Owners(h), 0)
	})
}
