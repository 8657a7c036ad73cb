package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/urlrule"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Elicit takes the place of RequestElicitation in a handler and serves clients
// of all revisions. Toward those of 2026-07-28 it is [roundtrip.AskRequest]:
// while the answer is not there it returns an error, which the handler may
// return, wrap or drop, and the handler runs again from its start with the
// answer. Toward others it asks and waits.
//
// The key names the question within the call and must be the same each time
// the handler runs. What the person did is in the result's Action, as with
// RequestElicitation; the content of an accepted form fits the form and has
// its defaults filled in, as a map[string]any. Calls may overlap; their keys
// must differ.
//
// A question that cannot be asked ends the call, whatever the handler makes of the
// error. Handlers that can do without an answer look first, with
// [roundtrip.CanAsk], or add the option [roundtrip.IfPossible], with which Elicit
// returns a [*roundtrip.PushError] and the call goes on.
//
// Outside of a handler behind the adapter, such as that of a task,
// it is RequestElicitation and nothing else, except that a URL that nobody may be
// sent to is refused there, too.
func Elicit(ctx context.Context, key string, request mcp.ElicitationRequest, opts ...roundtrip.AskOption) (*mcp.ElicitationResult, error) {
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

// Sample takes the place of RequestSampling, as [Elicit] does of
// RequestElicitation. The request must be the same each time the handler runs.
func Sample(ctx context.Context, key string, request mcp.CreateMessageRequest, opts ...roundtrip.AskOption) (*mcp.CreateMessageResult, error) {
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
func ListRoots(ctx context.Context, key string, opts ...roundtrip.AskOption) (*mcp.ListRootsResult, error) {
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

// serverOutsideRound returns the server whose request is served without a round, nil
// where there is one, or no request.
func serverOutsideRound(ctx context.Context) *server.MCPServer {
	if roundtrip.Number(ctx) > 0 {
		return nil
	}
	return server.ServerFromContext(ctx)
}

func elicitInput(request mcp.ElicitationRequest) mcp.InputRequest {
	return mcp.NewElicitationInputRequest(request.Params)
}

// askInRound asks a question given in mcp-go's types.
func askInRound(ctx context.Context, key string, q mcp.InputRequest, opts []roundtrip.AskOption) (json.RawMessage, error) {
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

// askError is an error of a question. Returned by a tool's handler it becomes a
// result that the model can read, unlike the handler's own.
type askError struct{ err error }

func (e *askError) Error() string { return e.err.Error() }
func (e *askError) Unwrap() error { return e.err }
