package mcpgo_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/examples/sdkgateway/cases"
	"github.com/rondo-mcp/rondo/examples/sdkgateway/mcpgo"
)

func TestGateway(t *testing.T) {
	cases.Run(t, func(ctx context.Context, router *elicitation.Router, url string) (http.Handler,
		func(), error) {
		gateway, stop, err := mcpgo.New(ctx, router, url)
		if err != nil {
			return nil, nil, err
		}
		return server.NewStreamableHTTPServer(gateway,
			server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler))), stop, nil
	})
}
