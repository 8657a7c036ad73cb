package interop_test

import (
	"context"
	"net/http"
	"testing"

	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestStatelessWithFallback: the server keeps no sessions, and its handler leaves things as they
// are where the client did not declare that it can be asked. That is so for all clients of older
// revisions, since nobody remembers what they declared.
func TestStatelessWithFallback(t *testing.T) { checkAll(t, statelessWithFallback()) }

func statelessWithFallback() shapes {
	const kept = "kept it, since nobody can be asked"
	common := shape{alone: kept, sessionless: true}
	official, other := common, common
	official.serve = func(t *testing.T, s *site) http.Handler {
		srv := s.newOfficial()
		s.addOfficialFallback(srv, kept)
		return s.serveOfficial(t, func(*http.Request) *mcp.Server { return srv },
			mcp.StreamableHTTPOptions{Stateless: true}, gosdk.Options{})
	}
	other.serve = func(t *testing.T, s *site) http.Handler {
		srv := s.newMCPGo()
		srv.AddTool(mcpgomcp.NewToolWithRawSchema("remove", "", removeArgs),
			func(ctx context.Context, r mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult,
				error) {
				session, ok := mcpgoserver.ClientSessionFromContext(ctx).(mcpgoserver.
					SessionWithClientInfo)
				if !ok || session.GetClientCapabilities().Elicitation == nil {
					return mcpgomcp.NewToolResultText(kept), nil
				}
				return s.removeMCPGo(ctx, r, askMCPGo(srv))
			})
		return s.serveMCPGo(t, srv, mcpgo.Options{}, mcpgoserver.WithStateLess(true))
	}
	return shapes{"official": official, "mcp-go": other}
}

// addOfficialFallback adds a tool "remove" that returns kept to clients that cannot be asked.
func (s *site) addOfficialFallback(srv *mcp.Server, kept string) {
	srv.AddTool(&mcp.Tool{Name: "remove", InputSchema: removeArgs},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if hello := req.Session.InitializeParams(); hello == nil ||
				hello.Capabilities == nil || hello.Capabilities.Elicitation == nil {
				return officialText(kept), nil
			}
			return s.removeOfficial(ctx, req, askOfficial(req.Session))
		})
}
