package mcpgo

import (
	"context"
	"errors"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// Retrofit returns a server whose handlers push their questions, behind the
// funnel of package roundtrip.
func Retrofit() http.Handler {
	srv := newServer(elicit)
	adapter, err := mcpgo.New(nil)
	if err != nil {
		panic(err) // internal error: this is the version that it was written for
	}
	return adapter.Handler(server.NewStreamableHTTPServer(srv, server.WithStateful(true), quiet()))
}

func elicit(ctx context.Context, r request) (result, error) {
	environment, version, err := where(&r)
	if err != nil {
		return nil, err
	}
	answer, err := mcpgo.Elicit(ctx, wire.ConfirmKey,
		mcp.ElicitationRequest{Params: ask(wire.Question(environment, version))})
	if err != nil {
		return nil, err
	}
	if !approved(answer) {
		return nil, errors.New("not deployed")
	}
	return mcp.NewToolResultText(wire.Deployed(environment, version)), nil
}
