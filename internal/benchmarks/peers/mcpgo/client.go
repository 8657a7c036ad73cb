package mcpgo

import (
	"context"
	"errors"
	"net/http"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

type approver struct{}

func (approver) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"approve": true},
	}}, nil
}

// Dial returns a client that has found out what the server speaks.
func Dial(ctx context.Context, endpoint string, hc *http.Client) (wire.Caller, error) {
	t, err := transport.NewStreamableHTTP(endpoint, transport.WithHTTPBasicClient(hc))
	if err != nil {
		return nil, err
	}
	c := client.NewClient(t, client.WithElicitationHandler(approver{}))
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	var hello mcp.InitializeRequest
	hello.Params.ClientInfo = mcp.Implementation{Name: "bench", Version: "1.0.0"}
	found, err := c.Initialize(ctx, hello)
	if err != nil {
		return nil, err
	}
	if found.ProtocolVersion != wire.Version {
		return nil, errors.New("the server is taken to speak " + found.ProtocolVersion)
	}
	return caller{c}, nil
}

type caller struct{ *client.Client }

func (c caller) Call(ctx context.Context, tool string, args map[string]any) (string, error) {
	var r mcp.CallToolRequest
	r.Params.Name, r.Params.Arguments = tool, args
	result, err := c.CallTool(ctx, r)
	if err != nil {
		return "", err
	}
	if len(result.Content) != 1 {
		return "", errors.New("unexpected content")
	}
	text, ok := result.Content[0].(mcp.TextContent)
	if !ok {
		return "", errors.New("unexpected content")
	}
	return text.Text, nil
}
