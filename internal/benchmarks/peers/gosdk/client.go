package gosdk

import (
	"context"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// Dial returns a client that has found out what the server speaks.
func Dial(ctx context.Context, endpoint string, hc *http.Client) (wire.Caller, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}},
				nil
		},
	})
	session, err := c.Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: hc}, nil)
	if err != nil {
		return nil, err
	}
	if version := session.InitializeResult().ProtocolVersion; version != wire.Version {
		return nil, errors.New("the server is taken to speak " + version)
	}
	return caller{session}, nil
}

type caller struct{ *mcp.ClientSession }

func (c caller) Call(ctx context.Context, tool string, args map[string]any) (string, error) {
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", err
	}
	if len(r.Content) != 1 {
		return "", errors.New("unexpected content")
	}
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok {
		return "", errors.New("unexpected content")
	}
	return text.Text, nil
}
