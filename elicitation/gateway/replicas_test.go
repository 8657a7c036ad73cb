package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A replica is one process of a gateway.
type replica struct {
	gateway  *gateway.Gateway
	listener *httptest.Server
	start    func() // starts its process, again
	handler  atomic.Pointer[serverhttp.Handler]
	frozen   atomic.Bool // takes connections and answers nothing
}

// startReplicas starts two processes of one gateway before a legacy upstream.
func startReplicas(t *testing.T) (u *upstreamServer, a, b *replica) {
	t.Helper()
	return startReplicasWith(t, nil)
}

// startReplicasWith has them keep long states in a store that they share.
func startReplicasWith(t *testing.T, states store.StateStore) (u *upstreamServer, a, b *replica) {
	t.Helper()
	u = startUpstream(t)
	key, err := keys.NewKey("test", []byte(strings.Repeat("0123456789abcdef", 2)))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keys.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*replica{"a": a, "b": b} {
		r.start = func() { r.gateway = startProcess(t, r, name, u.url, ring, locate, states) }
		r.start()
		t.Cleanup(func() { stopGateway(t, r.gateway, r.listener) })
		awaitTool(t, byHand(t, r.listener.URL), "ops_deploy")
	}
	return u, a, b
}

// startProcess starts one process of a gateway behind the listener of a replica.
func startProcess(t *testing.T, r *replica, name, upstream string, ring *keys.Keyring,
	locate func(context.Context, string) (*url.URL, error), states store.StateStore,
) *gateway.Gateway {
	t.Helper()
	g, err := gateway.New(&gateway.Options{
		Server: server.Options{
			Info:      protocol.Implementation{Name: "gateway", Version: "1"},
			Roundtrip: roundtrip.Options{Sealer: ring, StateStore: states},
		},
		Upstreams: []gateway.Upstream{
			{Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: protocol.Legacy},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := g.Handler(&serverhttp.Options{
		Replicas: &replicas.Options{Name: name, Keys: ring, Locate: locate},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.handler.Store(handler)
	return g
}

func TestACallWhoseOwnerStartedAgainIsRefused(t *testing.T) {
	u, a, b := startReplicas(t)
	pending := answered(t, begin(t, byHand(t, a.listener.URL)), target{"production"})
	first := a.gateway
	a.start()
	t.Cleanup(func() { _ = first.Close() })
	for _, r := range []*replica{b, a} {
		c := byHand(t, r.listener.URL)
		awaitTool(t, c, "ops_deploy")
		result, next, err := c.Resume(t.Context(), pending)
		if next != nil {
			t.Fatal("asked again")
		}
		said, ok := protocol.AsError(err)
		if !ok || !strings.Contains(said.Message, "check before calling") {
			t.Errorf("got %v, %v", result, err)
		}
	}
	if u.calls.Load() != 1 {
		t.Errorf("called %d times", u.calls.Load())
	}
}

func TestAnswersReachTheReplicaThatRunsTheCall(t *testing.T) {
	u, a, b := startReplicas(t)
	viaA, viaB := byHand(t, a.listener.URL), byHand(t, b.listener.URL)
	_, second, err := viaB.Resume(t.Context(), answered(t, begin(t, viaA), target{"production"}))
	if err != nil {
		t.Fatal(err)
	}
	last := answered(t, second, confirmation{true})
	for _, c := range []*client.Client{viaB, viaA} {
		result, _, err := c.Resume(t.Context(), last)
		if err != nil {
			t.Fatal(err)
		}
		if got := textOf(result.(*protocol.CallToolResult)); got != "deployed to production: true" {
			t.Errorf("got %q", got)
		}
	}
	if u.calls.Load() != 1 || u.commits.Load() != 1 {
		t.Errorf("called %d times, %d effects", u.calls.Load(), u.commits.Load())
	}
}

func TestACallWhoseOwnerIsGoneIsNotMadeAgain(t *testing.T) {
	u, a, b := startReplicas(t)
	pending := answered(t, begin(t, byHand(t, a.listener.URL)), target{"production"})
	stopGateway(t, a.gateway, a.listener)
	a.listener = httptest.NewServer(http.NotFoundHandler()) // another process, elsewhere
	result, next, err := byHand(t, b.listener.URL).Resume(t.Context(), pending)
	if next != nil {
		t.Fatal("asked again")
	}
	said, ok := protocol.AsError(err)
	if !ok {
		data, _ := json.Marshal(result)
		t.Fatalf("got %s, %v", data, err)
	}
	if said.Code != protocol.CodeBusy && !strings.Contains(said.Message, "check before calling") {
		t.Errorf("got %v", said)
	}
	if u.calls.Load() != 1 {
		t.Errorf("called %d times", u.calls.Load())
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := viaB.Resume(t.Context(), answered(t, second, confirmation{true})); err != nil {
		t.Fatal(err)
	}
	if u.calls.Load() != 1 || u.commits.Load() != 1 {
		t.Errorf("called %d times, %d effects", u.calls.Load(), u.commits.Load())
	}
}

func TestALongStateReachesTheReplicaThatRunsTheCall(t *testing.T) {
	u, a, b := startReplicasWith(t, store.NewMemoryStateStore(0))
	long := strings.Repeat("n", 12<<10)
	_, second, err := byHand(t, a.listener.URL).Resume(
		t.Context(), answered(t, begin(t, byHand(t, a.listener.URL)), target{long}))
	if err != nil {
		t.Fatal(err)
	}
	result, _, err := byHand(t, b.listener.URL).Resume(
		t.Context(), answered(t, second, confirmation{true}))
	if err != nil {
		t.Fatal(err)
	}
	if got := textOf(result.(*protocol.CallToolResult)); got != "deployed to "+long+": true" {
		t.Errorf("got %d bytes: %.80q", len(got), got)
	}
	if u.calls.Load() != 1 {
		t.Errorf("called %d times", u.calls.Load())
	}
}
