// Package gosdk is a server written with github.com/modelcontextprotocol/go-sdk:
// typed tools, whose arguments are validated, and JSON responses.
package gosdk

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

type (
	request = *mcp.CallToolRequest
	result  = *mcp.CallToolResult
)

// New returns a server without sessions.
func New() http.Handler {
	srv := newServer(sealing(wire.NewSealer()))
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

type deployer func(context.Context, request, wire.DeployArgs) (result, any, error)

func newServer(deploy deployer) *mcp.Server {
	srv := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	add(srv, wire.Echo, wire.EchoSchema,
		func(_ context.Context, _ request, in wire.EchoArgs) (result, any, error) {
			return text(in.Message), nil, nil
		})
	add(srv, wire.Deploy, wire.DeploySchema, deploy)
	return srv
}

func add[T any](srv *mcp.Server, name, schema string,
	f func(context.Context, request, T) (result, any, error)) {
	mcp.AddTool(srv, &mcp.Tool{Name: name, Description: name, InputSchema: json.RawMessage(schema)},
		f)
}

func text(s string) result {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func ask(in wire.DeployArgs) *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "form", Message: in.Question(),
		RequestedSchema: json.RawMessage(wire.ConfirmSchema)}
}

func approved(r mcp.InputResponse) bool {
	e, ok := r.(*mcp.ElicitResult)
	if !ok || e.Action != "accept" {
		return false
	}
	yes, _ := e.Content["approve"].(bool)
	return yes
}

// sealing is Deploy with a state that it seals itself: the library passes states on as they are.
func sealing(sealer *wire.Sealer) deployer {
	return func(_ context.Context, r request, in wire.DeployArgs) (result, any, error) {
		about := in.Environment + "\x00" + in.Version
		answer, ok := r.Params.InputResponses[wire.ConfirmKey]
		if !ok {
			return &mcp.CallToolResult{
				InputRequests: mcp.InputRequestMap{wire.ConfirmKey: ask(in)},
				RequestState:  sealer.Seal(wire.Deploy, about),
			}, nil, nil
		}
		if err := sealer.Open(r.Params.RequestState, wire.Deploy, about); err != nil {
			return nil, nil, err
		}
		if !approved(answer) {
			return text("not deployed"), nil, nil
		}
		return text(in.Deployed()), nil, nil
	}
}
