package serverhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// TestNoPrincipalTakesAllSubscriptions: who has a share of them is told when to
// come back, others go on.
func TestNoPrincipalTakesAllSubscriptions(t *testing.T) {
	for _, tc := range []struct {
		name         string
		max          int
		authenticate func(*http.Request) (roundtrip.Principal, error)
		who          string
		most         int
		limit        string
		fits         bool
	}{
		{"a principal, at the default", 0, byBearer, "mallory", server.DefaultMaxSubscriptions / 4, "principal", true},
		{"anonymous callers beside others", 8, byBearer, "", 6, "principal", true},
		{"anonymous callers where nobody authenticates", 8, nil, "", 8, "server", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events := &eventList{}
				h := serverhttp.New(newServer(t, &server.Options{MaxSubscriptions: tc.max, Observer: events}), &serverhttp.Options{Authenticate: tc.authenticate})
				ctx, cancel := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer cancel()
				// listen returns the refusal, "" while the subscription is open.
				listen := func(name string) string {
					r := httptest.NewRequestWithContext(ctx, "POST", "/", strings.NewReader(body(protocol.MethodListen, toTools)))
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
				if n != tc.most || !strings.Contains(refusal, `"retryAfterMs":30000,"limit":"`+tc.limit+`"`) {
					t.Errorf("%d subscriptions, then %s, want %d", n, refusal, tc.most)
				}
				if e := eventsOf[roundtrip.QuotaExceeded](events); len(e) != 1 || e[0].Resource != "subscriptions" || e[0].Limit != tc.limit {
					t.Errorf("events %+v", e)
				}
				if got := listen("alice"); (got == "") != tc.fits {
					t.Errorf("alice: %q", got)
				}
			})
		})
	}
}
