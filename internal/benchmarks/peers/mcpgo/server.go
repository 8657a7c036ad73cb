// Package mcpgo is a server on github.com/mark3labs/mcp-go, with its defaults, which do not
// validate arguments.
package mcpgo

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

type (
	request = mcp.CallToolRequest
	result  = *mcp.CallToolResult
)

// New returns a server without sessions.
func New() http.Handler {
	sealer := wire.NewSealer()
	srv := server.NewMCPServer("bench", "1.0.0", server.WithToolCapabilities(true),
		server.WithElicitation())
	add(srv, wire.Echo, wire.EchoSchema, func(_ context.Context, r request) (result, error) {
		message, err := r.RequireString("message")
		return mcp.NewToolResultText(message), err
	})
	add(srv, wire.Deploy, wire.DeploySchema,
		func(_ context.Context, r request) (result, error) {
			environment, err := r.RequireString("environment")
			if err != nil {
				return nil, err
			}
			version, err := r.RequireString("version")
			if err != nil {
				return nil, err
			}
			return deploy(sealer, r,
				wire.DeployArgs{Environment: environment, Version: version})
		})
	quiet := server.WithStreamableHTTPLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	return server.NewStreamableHTTPServer(srv, server.WithStateLess(true), quiet)
}

func add(srv *server.MCPServer, name, schema string, f server.ToolHandlerFunc) {
	srv.AddTool(mcp.NewToolWithRawSchema(name, name, json.RawMessage(schema)), f)
}

func deploy(sealer *wire.Sealer, r request, in wire.DeployArgs) (result, error) {
	about := in.Environment + "\x00" + in.Version
	answer := server.ElicitationResponse(r.Params.InputResponses, wire.ConfirmKey)
	if answer == nil {
		question := mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: in.Question(),
			RequestedSchema: json.RawMessage(wire.ConfirmSchema)}
		return server.NewInputRequestBuilder(sealer.Seal(wire.Deploy, about)).
			Elicit(wire.ConfirmKey, question).ToolResult(), nil
	}
	if err := sealer.Open(r.Params.RequestState, wire.Deploy, about); err != nil {
		return nil, err
	}
	content, _ := answer.Content.(map[string]any)
	if yes, _ := content["approve"].(bool); !yes ||
		answer.Action != mcp.ElicitationResponseActionAccept {
		return mcp.NewToolResultText("not deployed"), nil
	}
	return mcp.NewToolResultText(in.Deployed()), nil
}
