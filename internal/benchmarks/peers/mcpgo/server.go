// Package mcpgo is a server and a client written with
// github.com/mark3labs/mcp-go, with its defaults: arguments are not validated.
package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
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
	return server.NewStreamableHTTPServer(newServer(nil), server.WithStateLess(true), quiet())
}

// NewLegacy returns a server with sessions, whose questions are requests.
func NewLegacy() http.Handler {
	var t tools
	t.srv = newServer(t.push)
	return server.NewStreamableHTTPServer(t.srv, server.WithStateful(true), quiet())
}

func quiet() server.StreamableHTTPOption {
	return server.WithStreamableHTTPLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
}

// newServer returns a server whose Deploy is that function, or returns its
// question if there is none.
func newServer(deploy server.ToolHandlerFunc) *server.MCPServer {
	srv := server.NewMCPServer("bench", "1.0.0", server.WithToolCapabilities(true),
		server.WithElicitation())
	t := &tools{sealer: wire.NewSealer()}
	if deploy == nil {
		deploy = t.deploy
	}
	add(srv, wire.Echo, wire.EchoSchema, echo)
	add(srv, wire.Sink, wire.SinkSchema, sink)
	add(srv, wire.Deploy, wire.DeploySchema, deploy)
	add(srv, wire.Survey, wire.SurveySchema, t.survey)
	return srv
}

func add(srv *server.MCPServer, name, schema string, f server.ToolHandlerFunc) {
	srv.AddTool(mcp.NewToolWithRawSchema(name, name, json.RawMessage(schema)), f)
}

// tools are those that need more than their arguments: to leave something with
// the client, or to ask it.
type tools struct {
	sealer *wire.Sealer
	srv    *server.MCPServer
}

func ask(message string) mcp.ElicitationParams {
	return mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: message,
		RequestedSchema: json.RawMessage(wire.ConfirmSchema)}
}

func approved(e *mcp.ElicitationResult) bool {
	if e == nil || e.Action != mcp.ElicitationResponseActionAccept {
		return false
	}
	content, _ := e.Content.(map[string]any)
	yes, _ := content["approve"].(bool)
	return yes
}

func echo(_ context.Context, r request) (result, error) {
	message, err := r.RequireString("message")
	return mcp.NewToolResultText(message), err
}

func sink(_ context.Context, r request) (result, error) {
	_, err := r.RequireString("message")
	return mcp.NewToolResultText("ok"), err
}

func where(r *request) (environment, version string, err error) {
	if environment, err = r.RequireString("environment"); err == nil {
		version, err = r.RequireString("version")
	}
	return environment, version, err
}

func (t *tools) deploy(_ context.Context, r request) (result, error) {
	environment, version, err := where(&r)
	if err != nil {
		return nil, err
	}
	about := environment + "\x00" + version
	answer := server.ElicitationResponse(r.Params.InputResponses, wire.ConfirmKey)
	if answer == nil {
		return server.NewInputRequestBuilder(t.sealer.Seal(wire.Deploy, about)).
			Elicit(wire.ConfirmKey, ask(wire.Question(environment, version))).ToolResult(), nil
	}
	if err := t.sealer.Open(r.Params.RequestState, wire.Deploy, about); err != nil {
		return nil, err
	}
	if !approved(answer) {
		return mcp.NewToolResultText("not deployed"), nil
	}
	return mcp.NewToolResultText(wire.Deployed(environment, version)), nil
}

func (t *tools) survey(_ context.Context, r request) (result, error) {
	environment, err := r.RequireString("environment")
	if err != nil {
		return nil, err
	}
	if answers := r.Params.InputResponses; len(answers) > 0 {
		if err := t.sealer.Open(r.Params.RequestState, wire.Survey, environment); err != nil {
			return nil, err
		}
		n := 0
		for key := range answers {
			if approved(server.ElicitationResponse(answers, key)) {
				n++
			}
		}
		return mcp.NewToolResultText(wire.Surveyed(environment, n)), nil
	}
	n, err := r.RequireInt("n")
	if err != nil {
		return nil, err
	}
	questions := server.NewInputRequestBuilder(t.sealer.Seal(wire.Survey, environment))
	for i := range n {
		questions.Elicit(wire.SurveyKey(i), ask(wire.Question(environment, "v")))
	}
	return questions.ToolResult(), nil
}

// push is Deploy in sessions of older revisions.
func (t *tools) push(ctx context.Context, r request) (result, error) {
	environment, version, err := where(&r)
	if err != nil {
		return nil, err
	}
	answer, err := t.srv.RequestElicitation(ctx,
		mcp.ElicitationRequest{Params: ask(wire.Question(environment, version))})
	if err != nil {
		return nil, err
	}
	if !approved(answer) {
		return nil, errors.New("not deployed")
	}
	return mcp.NewToolResultText(wire.Deployed(environment, version)), nil
}
