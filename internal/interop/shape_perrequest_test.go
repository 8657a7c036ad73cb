package interop_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestServerPerRequest: a server is built for each request, with the tools that a header of it
// names. mcp-go has one server instead, which filters by the header.
func TestServerPerRequest(t *testing.T) {
	all := serversPerRequest()
	checkAll(t, all)
	for name, x := range all {
		for _, revision := range []string{modern, v20251125} {
			t.Run(name+"/"+revision+"/tools of the header", func(t *testing.T) {
				endpoint := x.open(t, newSite(revision))
				for header, want := range map[string]bool{"remove": true, "version": false} {
					x.header = http.Header{toolsetsHeader: {header}}
					for client, dial := range shapeClients() {
						c, _ := x.dial(t, dial, endpoint, revision, newPerson(t, nil), false)
						got, err := c.do(within(t, patience),
							request{Method: protocol.MethodListTools})
						if err != nil ||
							slices.Contains(strings.Fields(got), "remove") != want {
							t.Errorf("%s with %s: got %q, %v", client, header, got, err)
						}
					}
				}
			})
		}
	}
}

// toolsetsHeader names the tools that a client wants.
const toolsetsHeader = "X-Toolsets"

func serversPerRequest() shapes {
	header := http.Header{toolsetsHeader: {"remove"}}
	return shapes{
		"official": {header: header, serve: func(t *testing.T, s *site) http.Handler {
			return s.serveOfficial(t, func(r *http.Request) *mcp.Server {
				srv := s.newOfficial()
				if r.Header.Get(toolsetsHeader) == "remove" {
					s.addOfficialRemove(srv)
				}
				return srv
			}, mcp.StreamableHTTPOptions{}, gosdk.Options{})
		}},
		"mcp-go": {header: header, serve: func(t *testing.T, s *site) http.Handler {
			srv := s.newMCPGo(mcpgoserver.WithToolFilter(func(ctx context.Context,
				tools []mcpgomcp.Tool) []mcpgomcp.Tool {
				named, _ := ctx.Value(toolsetsKey{}).(string)
				return slices.DeleteFunc(slices.Clone(tools), func(x mcpgomcp.Tool) bool {
					return x.Name == "remove" && named != "remove"
				})
			}))
			s.addMCPGoRemove(srv)
			return s.serveMCPGo(t, srv, mcpgo.Options{}, mcpgoserver.WithHTTPContextFunc(
				func(ctx context.Context, r *http.Request) context.Context {
					return context.WithValue(ctx, toolsetsKey{}, r.Header.Get(toolsetsHeader))
				}))
		}},
	}
}

type toolsetsKey struct{}
