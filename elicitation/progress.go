package elicitation

import (
	"context"
	"errors"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

func isUnclaimed(err error) bool { return errors.Is(err, ErrUnclaimed) }

// Progress hands in a notifications/progress that a client sent. When its token
// is that of a question, which must have been put to this session and principal,
// the question's timeout starts anew, within Options.MaxTimeout, and the upstream
// hears of it through ElicitOptions.Progress. The token of a question is the id
// of its request.
//
// Accepted means just that. Progress about anything else is Unknown, and the
// host's own business. The error is that of the bus, as for [Router.Complete].
func (r *Router) Progress(ctx context.Context, from From, n *protocol.Notification) (Disposition, error) {
	if n == nil || n.Method != protocol.NotifyProgress {
		return Unknown, nil
	}
	d := r.progressLocally(from, n)
	if d != Unknown || r.opts.Bus == nil {
		return d, nil
	}
	token, err := decodeProgress(n)
	if err != nil || !isQuestionID(token.Token) {
		return Unknown, nil
	}
	frame, err := protocol.AppendMessage(nil, n)
	if err != nil || len(frame) > maxOutsideSchema {
		return Invalid, nil
	}
	a, err := r.sendToOwner(ctx, questionBusKey(token.Token), busMessage{
		Do: "progress", Session: from.Session, Issuer: from.Principal.Issuer, Subject: from.Principal.Subject, Frame: frame,
	})
	return a.Disposition, err
}

func decodeProgress(n *protocol.Notification) (*protocol.Progress, error) {
	p := &protocol.Progress{}
	err := jsonx.Decode(n.Params, p)
	return p, err
}

// progressBusKey is the key of the question that n is about, "" if of none.
func progressBusKey(n *protocol.Notification) string {
	if p, err := decodeProgress(n); err == nil && isQuestionID(p.Token) {
		return questionBusKey(p.Token)
	}
	return ""
}

func (r *Router) progressLocally(from From, n *protocol.Notification) Disposition {
	p, err := decodeProgress(n)
	if err != nil {
		return Unknown
	}
	e, d := r.lookUpQuestion(from, p.Token)
	if e == nil {
		return d
	}
	if !e.extendTimeout() {
		return e.disposition(false, Accepted)
	}
	if e.onProgress != nil {
		p.Token = e.upstreamToken
		e.onProgress(p)
	}
	return Accepted
}
