package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

type replica struct {
	gateway  *gateway.Gateway
	listener *httptest.Server
	start    func() // or restarts its process
	handler  atomic.Pointer[serverhttp.Handler]
	frozen   atomic.Bool // accepts connections without answering
}

// startReplicas starts two gateway processes for a legacy upstream and a shared state store.
func startReplicas(t *testing.T) (u *upstreamServer, a, b *replica) {
	t.Helper()
	u = startUpstream(t)
	ring, states := servertest.NewKeyring("shared"), store.NewMemoryStateStore(0)
	a, b = &replica{}, &replica{}
	urls := map[string]string{}
	for name, r := range map[string]*replica{"a": a, "b": b} {
		r.listener = httptest.NewServer(http.HandlerFunc(
			func(w http.ResponseWriter, req *http.Request) {
				if r.frozen.Load() {
					<-req.Context().Done()
					return
				}
				r.handler.Load().ServeHTTP(w, req)
			}))
		urls[name] = r.listener.URL
	}
	locate, err := replicas.LocateByList(urls)
	noError(t, err)
	for name, r := range map[string]*replica{"a": a, "b": b} {
		r.start = func() {
			r.gateway, err = gateway.New(&gateway.Options{
				Server: server.Options{
					Info:      protocol.Implementation{Name: "gateway", Version: "1"},
					Roundtrip: roundtrip.Options{Sealer: ring, StateStore: states},
				},
				Upstreams: []gateway.Upstream{ops(u.url, protocol.Legacy)},
			})
			noError(t, err)
			handler, err := r.gateway.Handler(&serverhttp.Options{
				Replicas: &replicas.Options{Name: name, Keys: ring, Locate: locate},
			})
			noError(t, err)
			r.handler.Store(handler)
		}
		r.start()
		t.Cleanup(func() { stopGateway(t, r.gateway, r.listener) })
		byHand(t, r.listener.URL, "ops_deploy")
	}
	return u, a, b
}

// wantLost checks that a call unknown to its owner is refused, and not repeated.
func wantLost(t *testing.T, u *upstreamServer, at *replica, pending *client.Pending, busy bool) {
	t.Helper()
	result, next, err := byHand(t, at.listener.URL).Resume(t.Context(), pending)
	said, ok := protocol.AsError(err)
	if next != nil || !ok || !strings.Contains(said.Message, "check before calling") &&
		(!busy || said.Code != protocol.CodeBusy) {
		t.Errorf("got %q, %v, %v", textOf(result), next, err)
	}
	wantEqual(t, "calls of the upstream", u.calls.Load(), int64(1))
}

func TestACallWhoseOwnerStartedAgainIsRefused(t *testing.T) {
	u, a, b := startReplicas(t)
	pending := answered(t, begin(t, byHand(t, a.listener.URL)), target{"production"})
	first := a.gateway
	a.start()
	t.Cleanup(func() { _ = first.Close() })
	for _, r := range []*replica{b, a} {
		byHand(t, r.listener.URL, "ops_deploy")
		wantLost(t, u, r, pending, false)
	}
}

func TestACallWhoseOwnerIsGoneIsNotMadeAgain(t *testing.T) {
	u, a, b := startReplicas(t)
	pending := answered(t, begin(t, byHand(t, a.listener.URL)), target{"production"})
	stopGateway(t, a.gateway, a.listener)
	a.listener = httptest.NewServer(http.NotFoundHandler()) // another process, elsewhere
	wantLost(t, u, b, pending, true)
}

func TestAnswersReachTheReplicaThatRunsTheCall(t *testing.T) {
	u, a, b := startReplicas(t)
	viaA, viaB := byHand(t, a.listener.URL), byHand(t, b.listener.URL)
	second, _ := resume(t, viaB, begin(t, viaA), target{"production"})
	for _, c := range []*client.Client{viaB, viaA} {
		_, got := resume(t, c, second, confirmation{true})
		wantEqual(t, "the result", got, deployed)
	}
	u.want(t, 1, 1)
}

func TestAnOwnerThatIsSilentKeepsTheCall(t *testing.T) {
	t.Parallel()
	u, a, b := startReplicas(t)
	viaA, viaB := byHand(t, a.listener.URL), byHand(t, b.listener.URL)
	pending := answered(t, begin(t, viaA), target{"production"})
	a.frozen.Store(true)
	_, _, err := viaB.Resume(t.Context(), pending)
	if said, ok := protocol.AsError(err); !ok || said.Code != protocol.CodeBusy {
		t.Fatalf("got %v", err)
	}
	a.frozen.Store(false)
	var second *client.Pending
	for range 120 { // the other replica asks again after a while
		if _, second, err = viaB.Resume(t.Context(), pending); err == nil {
			break
		}
		time.Sleep(250 * time.Millisecond)
	}
	noError(t, err)
	resume(t, viaB, second, confirmation{true})
	u.want(t, 1, 1)
}

func TestALongStateReachesTheReplicaThatRunsTheCall(t *testing.T) {
	u, a, b := startReplicas(t)
	long := strings.Repeat("n", 12<<10)
	c := byHand(t, a.listener.URL)
	second, _ := resume(t, c, begin(t, c), target{long})
	_, got := resume(t, byHand(t, b.listener.URL), second, confirmation{true})
	if got != "deployed to "+long+": true" {
		t.Errorf("got %d bytes: %.80q", len(got), got)
	}
	wantEqual(t, "calls of the upstream", u.calls.Load(), int64(1))
}
