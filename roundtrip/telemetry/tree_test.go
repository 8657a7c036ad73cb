package telemetry_test

import (
	"context"
	"net/http"
	"regexp"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/telemetry"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

var trusting = telemetry.Options{TrustCaller: everybody}

// TestOneTraceHasTheFlow: client, replicas of a server, questions and answers, over HTTP and lines.
func TestOneTraceHasTheFlow(t *testing.T) {
	for _, test := range []struct {
		name string
		era  protocol.Era
		want string
	}{{"modern", protocol.Modern, `
client internal caller
  client client tools/call deploy
    server server tools/call deploy round 1
  client server elicitation/create
  client client tools/call deploy
    server server tools/call deploy round 2 -> server server tools/call deploy round 1
  client server elicitation/create
  client client tools/call deploy
    server server tools/call deploy round 3 -> server server tools/call deploy round 2
`}, {"session", protocol.Legacy, `
client internal caller
  client client tools/call deploy
    server server tools/call deploy
      server client elicitation/create
        client server elicitation/create
      server client elicitation/create
        client server elicitation/create
`}} {
		t.Run(test.name+" over HTTP", func(t *testing.T) {
			b := newBook(t)
			url := b.servers("server", trusting)
			c := b.dial(b.tel("client", telemetry.Options{}), b.overHTTP(url), test.era)
			b.call(c, "deploy")
			tree := b.tree(rooted)
			b.wants(tree, test.want)
			b.holdsNoSecrets()
			another := regexp.MustCompile(`server-(a .* -> server-b|b .* -> server-a) `)
			if test.era == protocol.Modern && !another.MatchString(tree) {
				t.Errorf("no round followed one of another replica:\n%s", tree)
			}
		})
		t.Run(test.name+" over lines", func(t *testing.T) {
			b := newBook(t)
			peer := b.overStream(b.serve(b.tel("server", trusting)))
			b.call(b.dial(b.tel("client", telemetry.Options{}), peer, test.era), "deploy")
			b.wants(b.tree(rooted), test.want)
			b.holdsNoSecrets()
		})
	}
}

func (b *book) gateways(connect func() protocol.Peer, era protocol.Era) string {
	return b.fleet(func(name string, o *replicas.Options) http.Handler {
		tel := b.tel("gateway", trusting)
		g, err := gateway.New(&gateway.Options{
			Server: server.Options{
				Info:       protocol.Implementation{Name: "gateway", Version: "1"},
				Observer:   tel,
				Middleware: []server.Middleware{tel.Wrap},
				Roundtrip: roundtrip.Options{Sealer: servertest.NewKeyring("states"),
					Tracer: tel, MinHumanTime: -1},
			},
			Upstreams: []gateway.Upstream{{Name: "ops", Era: era,
				Connect: func(context.Context, gateway.Credential) (protocol.Peer, error) {
					return tel.Peer(connect()), nil
				}}},
		})
		noError(b, err)
		b.Cleanup(func() { _ = g.Close() })
		h, err := g.Handler(&serverhttp.Options{Replicas: o})
		noError(b, err)
		return h
	})
}

// TestOneTraceHasClientGatewayAndUpstream, in all pairs of eras, with two replicas of the gateway.
func TestOneTraceHasClientGatewayAndUpstream(t *testing.T) {
	for _, test := range []struct {
		name          string
		era, upstream protocol.Era
		want          string
	}{
		{"modern before modern", protocol.Modern, protocol.Modern, `
client internal caller
  client client tools/call ops_deploy
    gateway server tools/call ops_deploy round 1
      gateway client tools/call deploy
        upstream server tools/call deploy round 1
  client server elicitation/create
  client client tools/call ops_deploy
    gateway server tools/call ops_deploy round 2 -> gateway server tools/call ops_deploy round 1
      gateway client tools/call deploy
        upstream server tools/call deploy round 2 -> upstream server tools/call deploy round 1
  client server elicitation/create
  client client tools/call ops_deploy
    gateway server tools/call ops_deploy round 3 -> gateway server tools/call ops_deploy round 2
      gateway client tools/call deploy
        upstream server tools/call deploy round 3 -> upstream server tools/call deploy round 2
`}, {"modern before session", protocol.Modern, protocol.Legacy, `
client internal caller
  client client tools/call ops_deploy
    gateway server tools/call ops_deploy round 1
      gateway client initialize
        upstream server initialize
      gateway client tools/call deploy
        upstream server tools/call deploy
          upstream client elicitation/create
            gateway server elicitation/create
          upstream client elicitation/create
            gateway server elicitation/create
  client server elicitation/create
  client client tools/call ops_deploy
    gateway server tools/call ops_deploy round 2 -> gateway server tools/call ops_deploy round 1
  client server elicitation/create
  client client tools/call ops_deploy
    gateway server tools/call ops_deploy round 3 -> gateway server tools/call ops_deploy round 2
`}, {"session before modern", protocol.Legacy, protocol.Modern, `
client internal caller
  client client tools/call ops_deploy
    gateway server tools/call ops_deploy round 3
      gateway client tools/call deploy
        upstream server tools/call deploy round 1
      gateway client elicitation/create
        client server elicitation/create
      gateway client tools/call deploy
        upstream server tools/call deploy round 2 -> upstream server tools/call deploy round 1
      gateway client elicitation/create
        client server elicitation/create
      gateway client tools/call deploy
        upstream server tools/call deploy round 3 -> upstream server tools/call deploy round 2
`}, {"session before session", protocol.Legacy, protocol.Legacy, `
client internal caller
  client client tools/call ops_deploy
    gateway server tools/call ops_deploy
      gateway client initialize
        upstream server initialize
      gateway client tools/call deploy
        upstream server tools/call deploy
          upstream client elicitation/create
            gateway server elicitation/create
              gateway client elicitation/create
                client server elicitation/create
          upstream client elicitation/create
            gateway server elicitation/create
              gateway client elicitation/create
                client server elicitation/create
`}} {
		for _, lines := range []bool{false, true} {
			name := test.name + " over HTTP"
			if lines {
				name = test.name + " over lines"
			}
			t.Run(name, func(t *testing.T) {
				b := newBook(t)
				var connect func() protocol.Peer
				if lines {
					srv := b.serve(b.tel("upstream", trusting))
					connect = func() protocol.Peer { return b.overStream(srv) }
				} else {
					url := b.servers("upstream", trusting)
					connect = func() protocol.Peer { return b.overHTTP(url) }
				}
				url := b.gateways(connect, test.upstream)
				c := b.dial(b.tel("client", telemetry.Options{}), b.overHTTP(url), test.era)
				for range 2 {
					b.awaitTool(c, "ops_deploy") // at both replicas
				}
				b.call(c, "ops_deploy")
				b.wants(b.tree(rooted), test.want)
				b.holdsNoSecrets()
			})
		}
	}
}
