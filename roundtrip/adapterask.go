package roundtrip

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// AskRequest asks a question given as the wire has it and returns the bare
// result: it is what adapters of other SDKs put in the place of a call to the
// client. Unlike [Ask] it does not take a refusal for an error but returns it,
// so that {"action":"decline"} comes out as the client said it. The content of
// an accepted form has been checked and has its defaults filled in. The result
// is to be read with the Decode*Result functions of package protocol.
//
// The question must be the same in every round, too. Where Ask would ask another one under the
// key once more, AskRequest ends the flow with an error for client and observer, since what
// handlers of an SDK have that is fresh in a question is fresh in each round ([Nonce] and
// [Memo] keep it).
//
// Errors are those of Ask but for the refusals. Adapters whose callers have no
// keys must make them, the same in every round: the ordinal of the question in
// the run and a digest of it will do where nothing is asked concurrently.
func AskRequest(ctx context.Context, key string, request protocol.InputRequest,
	opts ...QuestionOption) (json.RawMessage, error) {
	q := requestQuestion(key, request).applyOptions(opts)
	var content json.RawMessage
	err := askQuestions(ctx, q.intoRaw(&content))
	switch {
	case findRefusal(err) != nil: // unseen ones, too: the SDK has no other word
		return jsonx.Marshal(protocol.ElicitResult{Action: actionOf(findRefusal(err))})
	case err != nil:
		return nil, err
	case q.request.Kind() == protocol.KindElicitURL:
		return json.RawMessage(`{"action":"accept"}`), nil
	case q.request.Kind() == protocol.KindElicitForm:
		return jsonx.Marshal(protocol.ElicitResult{Action: protocol.ActionAccept, Content: content})
	}
	return content, nil
}

// actionOf returns the action that a client refused with, as it sent it.
func actionOf(refusal error) protocol.ElicitAction {
	switch refused := refusal.(type) {
	case *DeclinedError:
		return protocol.ActionDecline
	case *UnseenError:
		return refused.Action
	}
	return protocol.ActionCancel
}

// RefusedAction returns the action with which the client refused the form or visit key, as it
// sent it, and false if it has not: for adapters of SDKs that have no word for [Unseen].
func RefusedAction(ctx context.Context, key string) (protocol.ElicitAction, bool) {
	if r := runFrom(ctx); r != nil {
		if refused := r.refusalOf(key); refused != nil {
			return actionOf(refused), true
		}
	}
	return "", false
}

// requestQuestion reads a question as a gateway does its upstream's.
func requestQuestion(key string, request protocol.InputRequest) Question {
	q := Question{key: key, request: request, fixed: true}
	fail := func(err error) Question {
		q.err = fmt.Errorf("question %q: %w", key, err)
		return q
	}
	asks := protocol.InputRequiredResult{
		InputRequests: protocol.InputRequests{{Key: key, Request: request}}}
	if err := asks.Validate(); err != nil {
		return fail(err)
	}
	if r, ok := request.(*protocol.ElicitForm); ok {
		f, err := form.ParsePeer(r.Schema)
		if err != nil {
			return fail(err)
		}
		q.form, q.carryForm = f, true
	}
	return q
}

// StateOfAnyVersion is [State] for adapters that look whether there is a state before
// the handler runs. State fixes the version of the flow, so that the handler could not
// call [FlowVersion] any more; StateOfAnyVersion does not. What the handler is given
// must be read with State: only that is of the handler's version.
func StateOfAnyVersion[T any](ctx context.Context) (T, bool) {
	var v T
	r := runFrom(ctx)
	if r == nil {
		return v, false
	}
	r.mu.Lock()
	state := r.state
	r.mu.Unlock()
	if state == nil {
		return v, false
	}
	if err := jsonx.Unmarshal(state, &v); err != nil {
		var zero T
		return zero, false
	}
	return v, true
}

// ReceivedState returns the requestState that the client sent, in funnels with
// Sealing Unsealed. Nothing vouches for it.
func ReceivedState(ctx context.Context) protocol.RequestState {
	if r := runFrom(ctx); r != nil && r.funnel.opts.Sealing == Unsealed {
		return r.received
	}
	return protocol.RequestState{}
}
