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

// Push sends a question to the client of a [Session] and waits for the answer. It is for handlers
// written for sessions; handlers that ask in rounds, with [roundtrip.Ask] or
// [roundtrip.InputRequired], serve clients of every revision.
//
// The answer is the bare result, for [protocol.DecodeElicitResult],
// [protocol.DecodeCreateMessageResult] or [protocol.DecodeListRootsResult]. Declining and
// cancelling are answers. The content of an accepted form is valid, with defaults filled in; after
// invalid content the client is asked again. A URL without an ElicitationID gets a random one; set
// it to announce the end of the visit with [Call.ElicitationComplete]. The wait ends with ctx, or
// HumanTimeout after the client's last progress report; the question is then withdrawn.
//
// On the modern wire, without a session and for clients that cannot be asked, Push fails before
// anything is sent, with a [*roundtrip.PushError]. An error of the client is returned as its
// [*protocol.Error]; [protocol.CodeBusy] can also mean that too many calls are waiting for users.
//
// With a page ([roundtrip.Options].Page) a form may go by it. If its link is in the result, the call
// ends, and the handler runs again from its start in the next call; that works for the first form.
//
// Every error ends the run of the handler: its context is cancelled and the client gets a refusal
// with the reason, whatever the handler returns, so ignoring the error cannot act as approval. A
// handler that withdraws its question by ending ctx goes on. Calls may overlap. Handlers that can
// do without an answer ask in rounds, with [roundtrip.IfPossible].
func (c *Call) Push(ctx context.Context, q protocol.InputRequest) (json.RawMessage, error) {
	if c.request == nil {
		return nil, &roundtrip.PushError{Method: q.Kind().Method(), Cause: "there is no connection"}
	}
	return roundtrip.PushRequest(roundtrip.WithRoundOf(waiting.WithWatchOf(ctx, c.ctx), c.ctx), q)
}

// ElicitationComplete tells the client that the visit with the ElicitationID id is complete
// (2025-11-25 client/elicitation, "Completion Notifications"). It may be called after the response,
// while the session is open. In other revisions it sends nothing and returns nil.
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
