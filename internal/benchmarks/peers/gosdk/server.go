// Package gosdk is a server and a client written with
// github.com/modelcontextprotocol/go-sdk: typed tools, whose arguments are
// validated, and JSON responses.
package gosdk

import (
	"context"
	"encoding/json"
	"errors"
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
	srv := newServer((&tools{sealer: wire.NewSealer()}).deploy)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

// NewLegacy returns a server with sessions, whose questions are requests.
func NewLegacy() http.Handler {
	srv := newServer(push)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil)
}

func newServer(deploy func(context.Context, request, wire.DeployArgs) (result, any,
	error)) *mcp.Server {
	srv := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	t := tools{sealer: wire.NewSealer()}
	add(srv, wire.Echo, wire.EchoSchema, echo)
	add(srv, wire.Sink, wire.SinkSchema, sink)
	add(srv, wire.Deploy, wire.DeploySchema, deploy)
	add(srv, wire.Survey, wire.SurveySchema, t.survey)
	return srv
}

func add[T any](srv *mcp.Server, name, schema string,
	f func(context.Context, request, T) (result, any, error)) {
	mcp.AddTool(srv, &mcp.Tool{Name: name, Description: name, InputSchema: json.RawMessage(schema)},
		f)
}

// tools are those that leave something with the client, which the library
// passes on as it is.
type tools struct{ sealer *wire.Sealer }

func text(s string) result {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func ask(message string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "form", Message: message,
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

func echo(_ context.Context, _ request, in wire.EchoArgs) (result, any, error) {
	return text(in.Message), nil, nil
}

func sink(context.Context, request, wire.SinkArgs) (result, any, error) {
	return text("ok"), nil, nil
}

func (t *tools) deploy(_ context.Context, r request, in wire.DeployArgs) (result, any, error) {
	about := in.Environment + "\x00" + in.Version
	answer, ok := r.Params.InputResponses[wire.ConfirmKey]
	if !ok {
		return &mcp.CallToolResult{
			InputRequests: mcp.InputRequestMap{wire.ConfirmKey: ask(wire.Question(in.Environment,
				in.Version))},
			RequestState: t.sealer.Seal(wire.Deploy, about),
		}, nil, nil
	}
	if err := t.sealer.Open(r.Params.RequestState, wire.Deploy, about); err != nil {
		return nil, nil, err
	}
	if !approved(answer) {
		return text("not deployed"), nil, nil
	}
	return text(wire.Deployed(in.Environment, in.Version)), nil, nil
}

func (t *tools) survey(_ context.Context, r request, in wire.SurveyArgs) (result, any, error) {
	if len(r.Params.InputResponses) == 0 {
		questions := make(mcp.InputRequestMap, in.N)
		for i := range in.N {
			questions[wire.SurveyKey(i)] = ask(wire.Question(in.Environment, "v"))
		}
		return &mcp.CallToolResult{InputRequests: questions,
			RequestState: t.sealer.Seal(wire.Survey, in.Environment)}, nil, nil
	}
	if err := t.sealer.Open(r.Params.RequestState, wire.Survey, in.Environment); err != nil {
		return nil, nil, err
	}
	n := 0
	for _, answer := range r.Params.InputResponses {
		if approved(answer) {
			n++
		}
	}
	return text(wire.Surveyed(in.Environment, n)), nil, nil
}

// push is Deploy in sessions of older revisions.
func push(ctx context.Context, r request, in wire.DeployArgs) (result, any, error) {
	answer, err := r.Session.Elicit(ctx, ask(wire.Question(in.Environment, in.Version)))
	if err != nil {
		return nil, nil, err
	}
	if !approved(answer) {
		return nil, nil, errors.New("not deployed")
	}
	return text(wire.Deployed(in.Environment, in.Version)), nil, nil
}
