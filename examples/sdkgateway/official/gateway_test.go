package official_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/examples/sdkgateway/cases"
	"github.com/rondo-mcp/rondo/examples/sdkgateway/official"
)

func TestGateway(t *testing.T) {
	cases.Run(t, func(ctx context.Context, router *elicitation.Router, url string) (http.Handler,
		func(), error) {
		server, stop, err := official.New(ctx, router, url)
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil),
			stop, err
	})
}
