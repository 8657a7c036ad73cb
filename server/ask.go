package server

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Push sends a question to the client of a [Session] and waits for the answer. It is for
// handlers that were written for sessions; those that ask in rounds, with [roundtrip.Ask] or
// [roundtrip.InputRequired], serve clients of every revision.
//
// The answer is the bare result, to be read with [protocol.DecodeElicitResult],
// [protocol.DecodeCreateMessageResult] or [protocol.DecodeListRootsResult]. A person who declines
// or cancels is an answer. The content of an accepted form has been checked and has its defaults
// filled in; the client is asked again where it does not fit. A URL without an ElicitationID is
// sent with one that nobody else knows; set it to announce the end of the visit with
// [Call.ElicitationComplete]. The wait ends with ctx, or after the HumanTimeout of the options
// since the client last reported progress; the client is told that the question is withdrawn.
//
// On the modern wire, on connections without a session and for clients that cannot be asked Push
// fails before anything is sent, with a [*roundtrip.PushError]. When the client refuses with an
// error, that is the [*protocol.Error] returned; with [protocol.CodeBusy] too many calls wait for
// people already.
//
// Every error ends the run of the handler: its context is cancelled and the client gets a refusal
// that says why, whatever the handler returns, so that a handler which drops the error does not
// go on as if the person had agreed. A question that the handler withdraws itself, by ending ctx,
// ends nothing. Calls may overlap. Handlers that can do without an answer ask in rounds, with
// [roundtrip.IfPossible].
func (c *Call) Push(ctx context.Context, q protocol.InputRequest) (json.RawMessage, error) {
	if c.request == nil {
		return nil, &roundtrip.PushError{Method: q.Kind().Method(), Cause: "there is no connection"}
	}
	return roundtrip.PushRequest(
		roundtrip.WithRoundOf(waiting.WithWatchOf(ctx, c.ctx), c.ctx), q)
}

// ElicitationComplete tells the client that the visit which was asked for under id, an
// ElicitationID, has been completed (2025-11-25 client/elicitation, "Completion Notifications"). It
// goes to the client of this call alone, and may be called after the request has been answered, as
// long as its session is open. Revisions other than 2025-11-25 have no such notification: nothing
// is sent and that is no error, for a client must be able to do without.
func (c *Call) ElicitationComplete(ctx context.Context, id string) error {
	if c.request == nil || c.Version != protocol.V20251125 {
		return nil
	}
	if id == "" {
		return errors.New("server: elicitation complete: the id must not be empty")
	}
	params, err := jsonx.Encode(protocol.ElicitationCompleted{ElicitationID: id})
	if err != nil {
		return err
	}
	n := &protocol.Notification{Method: protocol.NotifyElicitationCompleted, Params: params}
	if err := c.Notify(ctx, n); !errors.Is(err, ErrEnded) {
		return err
	}
	return c.request.era.sendNow(ctx, n)
}
