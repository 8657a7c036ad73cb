package elicitation

import (
	"context"

	"github.com/rondo-mcp/rondo/internal/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
)

// URLRequired makes an upstream's error for the call fit for the client. The
// error -32042 of revision 2025-11-25 says that the person must visit URLs
// first: they pass the same gate and policy as questions do, and get
// elicitationIds of the router's, so that [Router.ElicitationCompleted] can tell
// this client alone when a visit is over. Any other error is returned as it is.
//
// The second result, an [*Error], says that the client cannot be told; its Wire
// is what the client gets instead. wire is not changed.
func (c *Call) URLRequired(ctx context.Context, wire *protocol.Error) (*protocol.Error, error) {
	if wire == nil || wire.Code != protocol.CodeURLElicitationRequired {
		return wire, nil
	}
	asked, ok := wire.URLElicitations()
	refused := c.checkCapabilities(protocol.KindElicitURL)
	if refused == nil && !ok {
		refused = newFailure(ReasonInvalidQuestion, "The server's error is malformed", nil)
	}
	out := &protocol.URLElicitationRequiredError{Message: wire.Message}
	for _, q := range asked {
		if refused != nil {
			break
		}
		var v *urlElicitation
		if v, refused = c.rememberRequiredURL(ctx, q); refused == nil {
			known := *q
			known.ElicitationID = v.clientID
			out.Elicitations = append(out.Elicitations, &known)
		}
	}
	if refused != nil {
		return nil, c.rejectQuestion(nil, refused)
	}
	legacy, err := out.Legacy()
	if err != nil {
		return nil, c.rejectQuestion(nil, newFailure(ReasonInvalidQuestion, "The server's error is malformed", err))
	}
	return legacy, nil
}

// rememberRequiredURL remembers a visit that comes without a question.
func (c *Call) rememberRequiredURL(ctx context.Context, q *protocol.ElicitURL) (*urlElicitation, *Error) {
	r := c.router
	if refused := r.checkURL(ctx, c, q.URL); refused != nil {
		// The client is told, not the upstream, and it has made no mistake.
		refused.Wire = (&urlrule.Refusal{Key: urlrule.Keys([]*protocol.ElicitURL{q}, 1)[0]}).Wire()
		return nil, refused
	}
	v, refused := r.urlElicitationFor(c.origin.Session, c, q.ElicitationID)
	if refused != nil {
		return nil, refused
	}
	if err := r.claimURL(ctx, v); err != nil {
		return nil, newFailure(ReasonBus, "The other replicas of the gateway cannot be reached", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	refused = c.checkUsableLocked()
	if refused == nil {
		refused = r.rememberURLLocked(v)
	}
	if refused != nil {
		r.releaseUnusedClaimLocked(v)
		return nil, refused
	}
	return v, nil
}
