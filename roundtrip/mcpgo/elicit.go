package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Elicit takes the place of RequestElicitation in a handler, and serves clients of all
// revisions. Toward those of 2026-07-28 it is [roundtrip.AskRequest]: while there is no
// answer it returns an error, which the handler may return, wrap or ignore; the retry
// with the answer runs the handler again from its start. Toward older revisions Elicit
// blocks until the person has answered.
//
// The key names the question within the call, and must be the same in every run of the
// handler. A refusal is an answer, as with RequestElicitation: look at Action. The
// content of an accepted form is valid under its schema and has the schema's defaults
// filled in, as a map[string]any. Calls may overlap; their keys must differ.
//
// A question that cannot be asked ends the call, whatever the handler does with the
// error. A handler that does not need the answer checks [roundtrip.CanAsk] first, or adds
// the option [roundtrip.IfPossible], with which Elicit returns a [*roundtrip.PushError]
// and the call goes on.
//
// Outside of a handler behind the adapter, such as that of a task, Elicit is
// RequestElicitation, except that it refuses URLs which must not be opened.
func Elicit(ctx context.Context, key string, request mcp.ElicitationRequest,
	opts ...roundtrip.QuestionOption) (*mcp.ElicitationResult, error) {
	if s := serverOutsideRound(ctx); s != nil {
		if visit := request.Params; visit.Mode == mcp.ElicitationModeURL {
			if refusal := urlrule.Hook(nil).Refuse(key, visit.URL); refusal != nil {
				return nil, refusal
			}
		}
		return s.RequestElicitation(ctx, request)
	}
	raw, err := askInRound(ctx, key, elicitInput(request), opts)
	if err != nil {
		return nil, err
	}
	result, ok := decodeJSON[mcp.ElicitationResult](raw)
	if !ok {
		return nil, fmt.Errorf("question %q: the answer is none of mcp-go's", key)
	}
	return &result, nil
}

// CreateMessage takes the place of RequestSampling, as [Elicit] does of
// RequestElicitation. The request must be the same each time the handler runs.
func CreateMessage(ctx context.Context, key string, request mcp.CreateMessageRequest,
	opts ...roundtrip.QuestionOption) (*mcp.CreateMessageResult, error) {
	if s := serverOutsideRound(ctx); s != nil {
		//lint:ignore SA1019 sampling is deprecated, and supported for as long as it exists
		return s.RequestSampling(ctx, request)
	}
	raw, err := askInRound(ctx, key, mcp.NewSamplingInputRequest(request.CreateMessageParams), opts)
	if err != nil {
		return nil, err
	}
	result, err := decodeMessage(raw)
	if err != nil {
		return nil, fmt.Errorf("question %q: %w", key, err)
	}
	return result, nil
}

// ListRoots takes the place of RequestRoots, as [Elicit] does of
// RequestElicitation.
func ListRoots(ctx context.Context, key string,
	opts ...roundtrip.QuestionOption) (*mcp.ListRootsResult, error) {
	if s := serverOutsideRound(ctx); s != nil {
		return s.RequestRoots(ctx, mcp.ListRootsRequest{})
	}
	raw, err := askInRound(ctx, key, mcp.NewRootsInputRequest(), opts)
	if err != nil {
		return nil, err
	}
	result, ok := decodeJSON[mcp.ListRootsResult](raw)
	if !ok {
		return nil, fmt.Errorf("question %q: the answer is none of mcp-go's", key)
	}
	return &result, nil
}

// serverOutsideRound returns the server of a request that does not pass the funnel, nil
// in a round and without a request.
func serverOutsideRound(ctx context.Context) *server.MCPServer {
	if roundtrip.RoundOf(ctx).Number > 0 {
		return nil
	}
	return server.ServerFromContext(ctx)
}

func elicitInput(request mcp.ElicitationRequest) mcp.InputRequest {
	return mcp.NewElicitationInputRequest(request.Params)
}

// askInRound asks a question in mcp-go's types, and returns the encoded answer.
func askInRound(ctx context.Context, key string, q mcp.InputRequest,
	opts []roundtrip.QuestionOption) (json.RawMessage, error) {
	request, err := decodeQuestion(q)
	if err != nil {
		return nil, fmt.Errorf("question %q: %w", key, err)
	}
	raw, err := roundtrip.AskRequest(ctx, key, request, opts...)
	if err != nil {
		return nil, &askError{err}
	}
	return raw, nil
}

// askError marks the error of a question. One that a tool's handler returns becomes a
// result, which the model can read; other errors become JSON-RPC errors.
type askError struct{ err error }

func (e *askError) Error() string { return e.err.Error() }
func (e *askError) Unwrap() error { return e.err }
