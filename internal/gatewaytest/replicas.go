package gatewaytest

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/balancerhttp"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A Replica is what a test builds: one of several gateways before an upstream, as a handler.
// Replicas are for the options of its Downstream.
type Replica func(t *testing.T, router *elicitation.Router, up *Upstream,
	replicas *serverhttp.Replicas) http.Handler

// AcceptReplicas holds that a balancer may send each request of a session, and each answer, to
// another replica: all of them reach the one that has the session.
func AcceptReplicas(t *testing.T, build Replica) {
	urls := map[string]*url.URL{}
	locate := func(_ context.Context, name string) (*url.URL, error) {
		if u := urls[name]; u != nil {
			return u, nil
		}
		return nil, serverhttp.ErrUnknownReplica
	}
	up := NewUpstream(t)
	var routers []*elicitation.Router
	var backends []*httputil.ReverseProxy
	for _, name := range []string{"a", "b", "c"} {
		router, err := elicitation.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		served := httptest.NewServer(build(t, router, up,
			&serverhttp.Replicas{Name: name, Keys: fleetKeys(), Locate: locate}))
		t.Cleanup(served.Close)
		u, err := url.Parse(served.URL)
		if err != nil {
			t.Fatal(err)
		}
		urls[name], routers = u, append(routers, router)
		proxy := httputil.NewSingleHostReverseProxy(u)
		proxy.FlushInterval = -1
		proxy.Transport = &http.Transport{DisableKeepAlives: true}
		backends = append(backends, proxy)
	}
	var turn atomic.Uint32
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		balancerhttp.FullDuplex(backends[turn.Add(1)%3]).ServeHTTP(w, r)
	}))
	t.Cleanup(balancer.Close)
	const answer = `{"action":"accept","content":{"why":"because"}}`
	client := Connect(t, balancer.URL, forms, `"result":`+answer, nil)
	for range 6 {
		if got := client.Call(t, ToolAsk, plain); got != answer {
			t.Errorf("the upstream reads %s, want %s", got, answer)
		}
	}
	if got := client.Delete(t); got >= http.StatusMultipleChoices {
		t.Errorf("DELETE is answered %d", got)
	}
	known := 0
	for _, router := range routers {
		known += len(router.Sessions())
	}
	if known != 0 {
		t.Errorf("%d sessions are known after it ended", known)
	}
}

// fleetKeys are the keys that all gateways of a test have.
func fleetKeys() *keys.Keyring {
	secret := sha256.Sum256([]byte("secret"))
	key, err := keys.NewKey("k1", secret[:])
	if err != nil {
		panic(err)
	}
	ring, err := keys.NewKeyring(key)
	if err != nil {
		panic(err)
	}
	return ring
}
