package server

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Elicit asks the person to fill in a form and waits for the answer. That is
// how servers of legacy revisions ask: it works in a [Session] only, and
// handlers that return [roundtrip.InputRequired] work everywhere. Content that
// the person accepts has been checked against the form and has its defaults
// filled in, as in answers to returned questions; content that does not fit is
// a [*roundtrip.AnswerError].
//
// On the modern wire, on connections without a session and for clients that
// cannot be asked it fails before anything is sent, with a
// [*roundtrip.PushError]. When the client refuses with an error, that is the
// [*protocol.Error] returned; with [protocol.CodeBusy] too many calls wait for
// people already. The wait ends with ctx, or after the HumanTimeout
// of the options since the client last reported progress; the client is told
// that the question is withdrawn.
//
// Every error but an AnswerError ends the run of the handler: its context is
// cancelled and the client gets a refusal that says why, whatever the handler
// returns, so that a handler which drops the error does not go on as if the person
// had agreed. After an AnswerError it may ask again, and gets a refusal if it
// completes without another answer. A question that the handler withdraws itself,
// by ending ctx, ends nothing. Handlers that can do without an answer look first,
// with [Call.CanPush], or call [Call.TryElicit].
func (c *Call) Elicit(ctx context.Context, q *protocol.ElicitForm) (*protocol.ElicitResult, error) {
	return decodePushed(protocol.DecodeElicitResult)(c.pushQuestion(ctx, q, false))
}

// TryElicit is [Call.Elicit] for handlers that can do without an answer: an error
// ends nothing.
func (c *Call) TryElicit(ctx context.Context,
	q *protocol.ElicitForm) (*protocol.ElicitResult, error) {
	return decodePushed(protocol.DecodeElicitResult)(c.pushQuestion(ctx, q, true))
}

// ElicitURL is [Call.Elicit] for a URL to visit. A question without an
// ElicitationID is sent with one that nobody else knows; set it to announce the
// end of the visit with [Call.ElicitationComplete].
func (c *Call) ElicitURL(ctx context.Context,
	q *protocol.ElicitURL) (*protocol.ElicitResult, error) {
	return decodePushed(protocol.DecodeElicitResult)(c.pushQuestion(ctx, q, false))
}

// TryElicitURL is [Call.ElicitURL] as [Call.TryElicit] is Elicit.
func (c *Call) TryElicitURL(ctx context.Context,
	q *protocol.ElicitURL) (*protocol.ElicitResult, error) {
	return decodePushed(protocol.DecodeElicitResult)(c.pushQuestion(ctx, q, true))
}

// CreateMessage is [Call.Elicit] for a message of the client's model.
func (c *Call) CreateMessage(ctx context.Context,
	q *protocol.CreateMessage) (*protocol.CreateMessageResult, error) {
	return decodePushed(protocol.DecodeCreateMessageResult)(c.pushQuestion(ctx, q, false))
}

// TryCreateMessage is [Call.CreateMessage] as [Call.TryElicit] is Elicit.
func (c *Call) TryCreateMessage(ctx context.Context,
	q *protocol.CreateMessage) (*protocol.CreateMessageResult, error) {
	return decodePushed(protocol.DecodeCreateMessageResult)(c.pushQuestion(ctx, q, true))
}

// ListRoots is [Call.Elicit] for the directories that the client exposes.
func (c *Call) ListRoots(ctx context.Context) (*protocol.ListRootsResult, error) {
	return decodePushed(protocol.DecodeListRootsResult)(c.pushQuestion(ctx, &protocol.ListRoots{},
		false))
}

// TryListRoots is [Call.ListRoots] as [Call.TryElicit] is Elicit.
func (c *Call) TryListRoots(ctx context.Context) (*protocol.ListRootsResult, error) {
	return decodePushed(protocol.DecodeListRootsResult)(c.pushQuestion(ctx, &protocol.ListRoots{},
		true))
}

// CanPush reports whether [Call.Elicit] and its siblings can ask a plain question
// of a kind: in a session, of a client that declares the capability. On the modern
// wire it is false; what can be asked by returning it there, [roundtrip.CanAsk]
// tells.
func (c *Call) CanPush(kind protocol.InputKind) bool {
	return c.request != nil && c.request.server.funnel.CanPush(*c.newRoundtripCall(), kind)
}

// decodePushed decodes what a push returned.
func decodePushed[T any](decode func([]byte) (*T, error)) func(json.RawMessage, error) (*T, error) {
	return func(raw json.RawMessage, err error) (*T, error) {
		if err != nil {
			return nil, err
		}
		return decode(raw)
	}
}

func (c *Call) pushQuestion(ctx context.Context, q protocol.InputRequest,
	optional bool) (json.RawMessage, error) {
	if c.request == nil {
		return nil, &roundtrip.PushError{Method: q.Kind().Method(), Cause: "there is no connection"}
	}
	ctx = roundtrip.WithRoundOf(waiting.WithWatchOf(ctx, c.ctx), c.ctx)
	call := c.newRoundtripCall()
	if optional {
		return c.request.server.funnel.TryPush(ctx, *call, q)
	}
	return c.request.server.funnel.Push(ctx, *call, q)
}

// newRoundtripCall returns the call as the funnel takes it. It is on the heap, as one more
// copy on the stack of a call that waits would be.
//
//go:noinline
func (c *Call) newRoundtripCall() *roundtrip.Call {
	call := roundtripCall(c.request, nil, &protocol.Retry{})
	return &call
}

// ElicitationComplete tells the client that the visit which was asked for under
// id, an ElicitationID, has been completed (2025-11-25 client/elicitation,
// "Completion Notifications"). It goes to the client of this call alone, and
// may be called after the request has been answered, as long as its session is
// open. Revisions other than 2025-11-25 have no such notification: nothing is
// sent and that is no error, for a client must be able to do without.
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
