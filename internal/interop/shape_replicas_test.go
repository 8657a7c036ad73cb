package interop_test

import (
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/fleettest"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// TestTwoReplicas: two processes behind a balancer that takes them in turn. Sessions of the SDKs
// live in one process, so that what is compared with the SDK alone is one replica.
func TestTwoReplicas(t *testing.T) {
	checkAll(t, twoReplicas())
	for name, x := range twoStatelessReplicas() {
		t.Run(name+"/stateless", x.check)
	}
}

func twoReplicas() shapes {
	return shapes{
		"official": {serve: func(t *testing.T, s *site) http.Handler {
			return s.balance(t, func(r *replicas.Options) http.Handler {
				srv := s.newOfficial()
				s.addOfficialRemove(srv)
				opts := gosdk.Options{Options: roundtrip.Options{Sealer: r.Keys, Audience: "shape"}}
				if !s.bare {
					opts.Replicas = r
				}
				return s.serveOfficial(t, func(*http.Request) *mcp.Server { return srv },
					mcp.StreamableHTTPOptions{}, opts)
			})
		}},
		"mcp-go": {serve: func(t *testing.T, s *site) http.Handler {
			return s.balance(t, func(r *replicas.Options) http.Handler {
				srv := s.newMCPGo()
				s.addMCPGoRemove(srv)
				opts := mcpgo.Options{Options: roundtrip.Options{Sealer: r.Keys, Audience: "shape"}}
				if !s.bare {
					opts.Replicas = r
				}
				return s.serveMCPGo(t, srv, opts)
			})
		}},
	}
}

// twoStatelessReplicas need a shared key and nothing else.
func twoStatelessReplicas() shapes {
	const kept = "kept it, since nobody can be asked"
	return shapes{
		"official": {alone: kept, sessionless: true,
			serve: func(t *testing.T, s *site) http.Handler {
				return s.balance(t, func(r *replicas.Options) http.Handler {
					srv := s.newOfficial()
					s.addOfficialFallback(srv, kept)
					return s.serveOfficial(t, func(*http.Request) *mcp.Server { return srv },
						mcp.StreamableHTTPOptions{Stateless: true}, gosdk.Options{
							Options: roundtrip.Options{Sealer: r.Keys, Audience: "shape"}})
				})
			}},
	}
}

// balance starts two replicas, and returns a balancer that takes them in turn. Of a bare server
// there is one.
func (s *site) balance(t *testing.T,
	start func(r *replicas.Options) http.Handler) http.Handler {
	t.Helper()
	if s.bare {
		return start(&replicas.Options{Keys: fleettest.NewKeyring("shared")})
	}
	return fleettest.Start(t, 2, start).Balancer()
}
