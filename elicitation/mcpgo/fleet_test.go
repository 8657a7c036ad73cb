package mcpgo_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// newFleetGateway is one of several gateways, in a process of its own.
func newFleetGateway(router *elicitation.Router,
	shared *replicas.Options) (http.Handler, error) {
	s := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, &mcpgo.Options{Replicas: shared})
	if err != nil {
		return nil, err
	}
	s.AddTool(mcp.NewTool(gatewaytest.ToolAsk), func(ctx context.Context,
		req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call, err := clients.Begin(ctx, elicitation.UpstreamKey(rand.Text()))
		if err != nil {
			return nil, err
		}
		defer call.End()
		arguments, err := json.Marshal(req.Params.Arguments)
		if err != nil {
			return nil, err
		}
		text, err := gatewaytest.Ask(ctx, call, arguments)
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(text), nil
	})
	return clients.AnswerChallenges(clients.Handler(server.NewStreamableHTTPServer(s, quiet))), nil
}
