package elicitation

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Disposition is the outcome of a client's reply.
type Disposition int

// The dispositions. [Router.HandleReply] returns any of them. [Router.HandleProgress] returns
// Accepted when the timeout was extended, never Invalid, and otherwise the same.
const (
	// Unknown: no question has, or lately had, this id.
	Unknown Disposition = iota
	// Accepted: it is the outcome of the question, be it an answer or the
	// client's error.
	Accepted
	// WrongSession: the question was put to another session.
	WrongSession
	// WrongPrincipal: the question was put to this session while somebody else
	// was behind it.
	WrongPrincipal
	// Duplicate: the question has been answered.
	Duplicate
	// Expired: the question ended otherwise: it timed out, was cancelled, or
	// failed.
	Expired
	// Invalid: it comes from the right client and cannot be used. The question
	// has ended with an error.
	Invalid
)

// String names the disposition.
func (d Disposition) String() string {
	switch d {
	case Unknown:
		return "unknown"
	case Accepted:
		return "accepted"
	case WrongSession:
		return "wrong_session"
	case WrongPrincipal:
		return "wrong_principal"
	case Duplicate:
		return "duplicate"
	case Expired:
		return "expired"
	case Invalid:
		return "invalid"
	}
	return "invalid disposition"
}

// HandleReply takes a response that a client sent to a question of this router. from is where
// it came from, as the host has authenticated it. Replies that do not end the question, those
// of strangers above all, leave it as it is. reply is not kept.
func (r *Router) HandleReply(from Sender, reply *protocol.Response) Disposition {
	if reply == nil || reply.ID.IsZero() {
		return Unknown
	}
	p, d := r.lookUpQuestion(from, reply.ID)
	if p == nil {
		return d
	}
	return p.finishByReply(p.readReply(reply))
}

// lookUpQuestion returns the pending question with an id if it was put to the sender.
// Otherwise it returns nil and what becomes of the reply; beside a question the
// disposition means nothing.
func (r *Router) lookUpQuestion(from Sender, id protocol.ID) (*pendingQuestion, Disposition) {
	r.mu.Lock()
	p := r.questions[id]
	was, remembered := r.ended.Get(id)
	r.mu.Unlock()
	switch {
	case p == nil && !remembered:
		return nil, Unknown
	case p == nil:
		return nil, was.dispositionOf(from)
	case p.call.origin.Session.info.ID != from.Session:
		return nil, WrongSession
	case p.call.origin.Principal != from.Principal:
		return nil, WrongPrincipal
	}
	return p, Unknown
}

// dispositionOf is what becomes of a reply to a question that has ended.
func (q endedQuestion) dispositionOf(from Sender) Disposition {
	switch {
	case q.session != from.Session:
		return WrongSession
	case q.principal != from.Principal:
		return WrongPrincipal
	case q.answered:
		return Duplicate
	}
	return Expired
}

// HandleProgress takes a notifications/progress that a client sent. When its token
// is that of a question, which must have been put to this session and principal,
// the question's timeout starts anew, as long as Options.Timeout lets it. The token of a
// question is the id of its request.
//
// Accepted means that the timeout was extended. Progress about anything else is Unknown, and the
// host's own business.
func (r *Router) HandleProgress(from Sender, n *protocol.Notification) Disposition {
	if n == nil || n.Method != protocol.NotifyProgress {
		return Unknown
	}
	progress := &protocol.Progress{}
	if jsonx.Decode(n.Params, progress) != nil {
		return Unknown
	}
	p, d := r.lookUpQuestion(from, progress.Token)
	if p == nil {
		return d
	}
	if !p.extendTimeout() {
		return p.dispositionOfLate()
	}
	return Accepted
}

// finishByReply ends the question with what the client replied, and returns what became
// of the reply.
func (p *pendingQuestion) finishByReply(out outcome) Disposition {
	switch {
	case !p.finish(out):
		return p.dispositionOfLate()
	case out.err != nil && out.err.Reason != ReasonClientError:
		return Invalid
	}
	return Accepted
}

// dispositionOfLate is what becomes of a reply that comes after the end.
func (p *pendingQuestion) dispositionOfLate() Disposition {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answered {
		return Duplicate
	}
	return Expired
}

var (
	errNotJSON    = errors.New("the result is not strict JSON")
	errNoResult   = errors.New("the result is not that of an elicitation")
	errLargeError = errors.New("the client's error is too large")
)

func invalidReply(reason Reason, err error) *Error {
	return newFailure(reason, "The client's answer is not valid", err)
}

// readReply returns the outcome of a question that the client answered.
func (p *pendingQuestion) readReply(reply *protocol.Response) outcome {
	if reply.Error != nil {
		wire := *reply.Error
		wire.Data = cloneJSON(wire.Data)
		return p.readError(&wire)
	}
	return p.readResult(reply.Result)
}

// readError returns the outcome of a question that the client answered with an error.
func (p *pendingQuestion) readError(wire *protocol.Error) outcome {
	out := outcome{state: stateFailed, replied: true}
	if len(wire.Message) > maxOutsideSchema || len(wire.Data) > maxContentBytes {
		out.err = invalidReply(ReasonInvalidReply, errLargeError)
	} else {
		out.err = &Error{Reason: ReasonClientError, Wire: wire}
	}
	return out
}

// readResult returns the outcome of a question that the client answered with a result.
// Content is validated against the form as Options.Validation says.
func (p *pendingQuestion) readResult(raw []byte) outcome {
	result, bad := p.decodeResult(raw)
	if bad != nil {
		return outcome{state: stateFailed, replied: true, err: bad}
	}
	out := outcome{state: stateCompleted, replied: true, result: result}
	if result.Action != protocol.ActionAccept || p.check.isEmpty() {
		return out
	}
	enforce := p.router.opts.Validation == ValidateEnforce
	checked, err := p.router.forms.checkContent(p.check, result.Content, enforce)
	switch {
	case err == nil:
		result.Content = checked
	case err != nil && enforce:
		bad := invalidReply(ReasonInvalidContent, err)
		return outcome{state: stateFailed, replied: true, err: bad, detail: err.Error()}
	case err != nil:
		out.detail = err.Error()
	}
	return out
}

// decodeResult decodes a result strictly. The errors of the decoders are replaced by
// constants, since they may quote the answer.
func (p *pendingQuestion) decodeResult(raw []byte) (*protocol.ElicitResult, *Error) {
	if len(raw) > maxContentBytes+maxOutsideSchema {
		err := fmt.Errorf("larger than %d bytes", maxContentBytes+maxOutsideSchema)
		return nil, invalidReply(ReasonInvalidReply, err)
	}
	if err := jsonx.Check(raw); err != nil {
		return nil, invalidReply(ReasonInvalidReply, errNotJSON)
	}
	result, err := protocol.DecodeElicitResult(raw)
	if err != nil {
		return nil, invalidReply(ReasonInvalidReply, errNoResult)
	}
	if len(result.Content) > maxContentBytes {
		err := fmt.Errorf("content: larger than %d bytes", maxContentBytes)
		return nil, invalidReply(ReasonInvalidReply, err)
	}
	if result.Meta, err = relayedMeta(result.Meta); err != nil {
		return nil, invalidReply(ReasonInvalidReply, errNoResult)
	}
	if p.kind == protocol.KindElicitURL {
		result.Content = nil // belongs to forms alone
	}
	result.Content = cloneJSON(result.Content)
	return result, nil
}

// cloneJSON copies JSON that may alias a buffer of the host.
func cloneJSON(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	return append(json.RawMessage{}, raw...)
}
