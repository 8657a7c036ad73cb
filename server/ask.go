package server

import (
	"context"
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
func (c *Call) Elicit(ctx context.Context, q *protocol.ElicitForm) (*protocol.ElicitResult, error) {
	raw, err := c.push(ctx, q)
	if err != nil {
		return nil, err
	}
	return protocol.DecodeElicitResult(raw)
}

// ElicitURL is [Call.Elicit] for a URL to visit. A question without an
// ElicitationID is sent with one that nobody else knows; set it to announce the
// end of the visit with [Call.ElicitationComplete].
func (c *Call) ElicitURL(ctx context.Context, q *protocol.ElicitURL) (*protocol.ElicitResult, error) {
	raw, err := c.push(ctx, q)
	if err != nil {
		return nil, err
	}
	return protocol.DecodeElicitResult(raw)
}

// CreateMessage is [Call.Elicit] for a message of the client's model.
func (c *Call) CreateMessage(ctx context.Context, q *protocol.CreateMessage) (*protocol.CreateMessageResult, error) {
	raw, err := c.push(ctx, q)
	if err != nil {
		return nil, err
	}
	return protocol.DecodeCreateMessageResult(raw)
}

// ListRoots is [Call.Elicit] for the directories that the client exposes.
func (c *Call) ListRoots(ctx context.Context) (*protocol.ListRootsResult, error) {
	raw, err := c.push(ctx, &protocol.ListRoots{})
	if err != nil {
		return nil, err
	}
	return protocol.DecodeListRootsResult(raw)
}

func (c *Call) push(ctx context.Context, q protocol.InputRequest) ([]byte, error) {
	if c.in == nil {
		return nil, &roundtrip.PushError{Method: q.Kind().Method(), Cause: "there is no connection"}
	}
	ctx = waiting.WithWatchOf(ctx, c.ctx)
	return c.in.server.funnel.Push(ctx, roundtripCall(c.in, nil, &protocol.Retry{}), q)
}

// ElicitationComplete tells the client that the visit which was asked for under
// id, an ElicitationID, has been completed (2025-11-25 client/elicitation,
// "Completion Notifications"). It goes to the client of this call alone, and
// may be called after the request has been answered, as long as its session is
// open. Revisions other than 2025-11-25 have no such notification: nothing is
// sent and that is no error, for a client must be able to do without.
func (c *Call) ElicitationComplete(ctx context.Context, id string) error {
	if c.in == nil || c.in.session == nil || c.Version != protocol.V20251125 {
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
	return c.in.session.tellNow(ctx, n)
}
