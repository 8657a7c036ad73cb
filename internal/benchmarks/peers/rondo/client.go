package rondo

import (
	"context"
	"errors"
	"net/http"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
	"github.com/rondo-mcp/rondo/protocol"
)

// Dial returns a client that has found out what the server speaks.
func Dial(ctx context.Context, endpoint string, hc *http.Client) (wire.Caller, error) {
	transport, err := clienthttp.New(endpoint, &clienthttp.Options{HTTPClient: hc})
	if err != nil {
		return nil, err
	}
	c, err := client.New(transport, &client.Options{
		Info: protocol.Implementation{Name: "bench", Version: "1.0.0"},
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(map[string]any{"approve": true})
		},
	})
	if err != nil {
		return nil, err
	}
	if version, err := c.Negotiate(ctx); err != nil || version != wire.Version {
		return nil, errors.Join(err, errors.New("the server is taken to speak "+string(version)))
	}
	return caller{c}, nil
}

type caller struct{ *client.Client }

func (c caller) Call(ctx context.Context, tool string, args map[string]any) (string, error) {
	result, err := c.CallTool(ctx, tool, args)
	if err != nil {
		return "", err
	}
	if len(result.Content) != 1 {
		return "", errors.New("unexpected content")
	}
	text, ok := result.Content[0].(*protocol.TextContent)
	if !ok {
		return "", errors.New("unexpected content")
	}
	return text.Text, nil
}
