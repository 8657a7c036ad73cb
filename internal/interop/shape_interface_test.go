package interop_test

import (
	"context"
	"net/http"
	"testing"

	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestHandlerWithSmallInterface: the code that asks knows neither the SDK's session nor the
// request. It holds an interface of its own, which the session satisfies.
func TestHandlerWithSmallInterface(t *testing.T) { checkAll(t, smallInterface()) }

func smallInterface() shapes {
	return shapes{
		"official": {serve: func(t *testing.T, s *site) http.Handler {
			srv := s.newOfficial()
			srv.AddTool(&mcp.Tool{Name: "remove", InputSchema: removeArgs},
				func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return s.removeOfficial(ctx, req, askElicitor(req.Session))
				})
			return s.serveOneOfficial(t, srv)
		}},
		"mcp-go": {serve: func(t *testing.T, s *site) http.Handler {
			srv := s.newMCPGo()
			srv.AddTool(mcpgomcp.NewToolWithRawSchema("remove", "", removeArgs),
				func(ctx context.Context, r mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult,
					error) {
					return s.removeMCPGo(ctx, r, askElicitationRequester(srv))
				})
			return s.serveOneMCPGo(t, srv)
		}},
	}
}

// An elicitor is all that code far from the SDK's types needs of a session.
type elicitor interface {
	Elicit(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error)
}

func askElicitor(e elicitor) questioner {
	return func(ctx context.Context, message string, schema map[string]any) (string,
		map[string]any, error) {
		answer, err := e.Elicit(ctx, &mcp.ElicitParams{Message: message, RequestedSchema: schema})
		if err != nil {
			return "", nil, err
		}
		return answer.Action, answer.Content, nil
	}
}

// An elicitationRequester is the same for a server of mcp-go.
type elicitationRequester interface {
	RequestElicitation(context.Context, mcpgomcp.ElicitationRequest) (*mcpgomcp.ElicitationResult,
		error)
}

func askElicitationRequester(e elicitationRequester) questioner {
	return func(ctx context.Context, message string, schema map[string]any) (string,
		map[string]any, error) {
		answer, err := e.RequestElicitation(ctx, mcpgomcp.ElicitationRequest{
			Params: mcpgomcp.ElicitationParams{Message: message, RequestedSchema: schema}})
		if err != nil {
			return "", nil, err
		}
		content, _ := answer.Content.(map[string]any)
		return string(answer.Action), content, nil
	}
}
