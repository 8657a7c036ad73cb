package gosdk_test

import (
	"context"
	"crypto/rand"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// newFleetGateway is one of several gateways, in a process of its own.
func newFleetGateway(router *elicitation.Router,
	shared *replicas.Options) (http.Handler, error) {
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, &gosdk.Options{Replicas: shared})
	if err != nil {
		return nil, err
	}
	server.AddTool(tool(gatewaytest.ToolAsk), func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call, err := clients.Begin(ctx, req, elicitation.UpstreamKey(rand.Text()))
		if err != nil {
			return nil, err
		}
		defer call.End()
		text, err := gatewaytest.Ask(ctx, call, req.Params.Arguments)
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	})
	handler := clients.Handler(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server }, nil))
	return clients.AnswerChallenges(handler), nil
}
