package gatewaytest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/fleettest"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// A Replica is what a test builds: one of several gateways before an upstream, as a handler.
// Replicas are for the options of its Downstream.
type Replica func(t *testing.T, router *elicitation.Router, up *Upstream,
	replicas *replicas.Options) http.Handler

// AcceptReplicas holds that a balancer may send each request of a session, and each answer, to
// another replica: all of them reach the one that has the session.
func AcceptReplicas(t *testing.T, build Replica) {
	up := NewUpstream(t)
	var routers []*elicitation.Router
	fleet := fleettest.Start(t, 3, func(replicas *replicas.Options) http.Handler {
		router := newRouter(t, nil)
		routers = append(routers, router)
		return build(t, router, up, replicas)
	})
	balancer := httptest.NewServer(fleet.Balancer())
	t.Cleanup(balancer.Close)
	client := Connect(t, balancer.URL, forms, `"result":`+because, nil)
	for range 6 {
		if got := client.Call(t, ToolAsk, plain); got != because {
			t.Errorf("the upstream reads %s, want %s", got, because)
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
