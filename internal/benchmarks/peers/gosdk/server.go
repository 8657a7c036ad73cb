// Package gosdk is a server on github.com/modelcontextprotocol/go-sdk. It has typed tools,
// validates arguments, and responds with JSON.
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
	srv := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	add(srv, wire.Echo, wire.EchoSchema,
		func(_ context.Context, _ request, in wire.EchoArgs) (result, any, error) {
			return text(in.Message), nil, nil
		})
	sealer := wire.NewSealer()
	add(srv, wire.Deploy, wire.DeploySchema,
		func(_ context.Context, r request, in wire.DeployArgs) (result, any, error) {
			result, err := deploy(sealer, r, in)
			return result, nil, err
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

func add[T any](srv *mcp.Server, name, schema string,
	f func(context.Context, request, T) (result, any, error)) {
	mcp.AddTool(srv, &mcp.Tool{Name: name, Description: name, InputSchema: json.RawMessage(schema)},
		f)
}

func text(s string) result {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func deploy(sealer *wire.Sealer, r request, in wire.DeployArgs) (result, error) {
	about := in.Environment + "\x00" + in.Version
	answer, ok := r.Params.InputResponses[wire.ConfirmKey].(*mcp.ElicitResult)
	if !ok {
		question := &mcp.ElicitParams{Mode: "form", Message: in.Question(),
			RequestedSchema: json.RawMessage(wire.ConfirmSchema)}
		return &mcp.CallToolResult{
			InputRequests: mcp.InputRequestMap{wire.ConfirmKey: question},
			RequestState:  sealer.Seal(wire.Deploy, about),
		}, nil
	}
	if err := sealer.Open(r.Params.RequestState, wire.Deploy, about); err != nil {
		return nil, err
	}
	if yes, _ := answer.Content["approve"].(bool); answer.Action != "accept" || !yes {
		return text("not deployed"), nil
	}
	return text(in.Deployed()), nil
}
