package interop_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/balancerhttp"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
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
			return s.balance(t, func(replica string, ring *keys.Keyring,
				urls map[string]string) http.Handler {
				srv := s.newOfficial()
				s.addOfficialRemove(srv)
				opts := gosdk.Options{Options: roundtrip.Options{Sealer: ring, Audience: "shape"}}
				if !s.bare {
					opts.Replicas = &replicas.Options{Name: replica, Keys: ring,
						Locate: locateIn(urls, replicas.ErrUnknown)}
				}
				return s.serveOfficial(t, func(*http.Request) *mcp.Server { return srv },
					mcp.StreamableHTTPOptions{}, opts)
			})
		}},
		"mcp-go": {serve: func(t *testing.T, s *site) http.Handler {
			return s.balance(t, func(replica string, ring *keys.Keyring,
				urls map[string]string) http.Handler {
				srv := s.newMCPGo()
				s.addMCPGoRemove(srv)
				opts := mcpgo.Options{Options: roundtrip.Options{Sealer: ring, Audience: "shape"}}
				if !s.bare {
					opts.Replicas = &replicas.Options{Name: replica, Keys: ring,
						Locate: locateIn(urls, replicas.ErrUnknown)}
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
				return s.balance(t, func(_ string, ring *keys.Keyring,
					_ map[string]string) http.Handler {
					srv := s.newOfficial()
					s.addOfficialFallback(srv, kept)
					return s.serveOfficial(t, func(*http.Request) *mcp.Server { return srv },
						mcp.StreamableHTTPOptions{Stateless: true}, gosdk.Options{
							Options: roundtrip.Options{Sealer: ring, Audience: "shape"}})
				})
			}},
	}
}

func locateIn(urls map[string]string,
	unknown error) func(context.Context, string) (*url.URL, error) {
	return func(_ context.Context, name string) (*url.URL, error) {
		if at := urls[name]; at != "" {
			return url.Parse(at)
		}
		return nil, unknown
	}
}

// balance starts two replicas, and returns a balancer that takes them in turn. Of a bare server
// there is one.
func (s *site) balance(t *testing.T, start func(replica string, ring *keys.Keyring,
	urls map[string]string) http.Handler) http.Handler {
	t.Helper()
	key, err := keys.NewKey("shared", []byte("a secret that the replicas share"))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keys.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	urls := map[string]string{}
	if s.bare {
		return start("a", ring, urls)
	}
	var backends []*httputil.ReverseProxy
	for _, name := range []string{"a", "b"} {
		server := httptest.NewServer(start(name, ring, urls))
		t.Cleanup(func() {
			server.CloseClientConnections()
			server.Close()
		})
		urls[name] = server.URL + "/mcp"
		at, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		own := &http.Transport{}
		t.Cleanup(own.CloseIdleConnections)
		backends = append(backends, &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(at) },
			Transport:     own,
			FlushInterval: -1, // events pass at once
			ErrorLog:      log.New(io.Discard, "", 0),
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
				panic(http.ErrAbortHandler) // one end has hung up
			},
		})
	}
	var turn atomic.Uint32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		balancerhttp.FullDuplex(backends[turn.Add(1)%2]).ServeHTTP(w, r)
	})
}
