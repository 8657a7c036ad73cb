package elicitation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Disposition says what became of a client's reply; how the question itself ended is its
// [Outcome].
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

// HandleReply takes a response that a client sent. from is where it came from,
// as the host has authenticated it. Replies that do not end the question, those
// of strangers above all, leave it as it is. reply is not kept.
//
// On a [Bus] the reply is forwarded to the replica that asked, which its id names. An id
// that is not one of the fleet's is Unknown without a message. HandleReply tries until ctx
// ends, and for 30 seconds when ctx has no deadline: a reply is not sent twice by clients.
// When that fails the disposition is Unknown and the error says why: [ErrOwnerDead] means
// that the replica is gone and nobody can take the reply, with any other error the host may
// try again. Without a bus there is no error.
func (r *Router) HandleReply(
	ctx context.Context, from Sender, reply *protocol.Response,
) (Disposition, error) {
	if reply == nil || reply.ID.IsZero() {
		return Unknown, nil
	}
	d := r.handleReplyLocally(from, reply, "")
	if d != Unknown || r.opts.Bus == nil {
		return d, nil
	}
	return r.forwardReply(ctx, from, reply)
}

// handleReplyLocally hands a reply to a question of this router. attempt is "" unless the
// reply comes from another replica.
func (r *Router) handleReplyLocally(
	from Sender, reply *protocol.Response, attempt string,
) Disposition {
	p, d := r.lookUpQuestion(from, reply.ID, attempt)
	if p == nil {
		return d
	}
	return p.finishByReply(p.readReply(reply), attempt)
}

// HandleProgress takes a notifications/progress that a client sent. When its token
// is that of a question, which must have been put to this session and principal,
// the question's timeout starts anew, within Options.MaxTimeout, and the upstream
// hears of it through ElicitOptions.Progress. The token of a question is the id
// of its request.
//
// Accepted means that the timeout was extended. Progress about anything else is Unknown, and the
// host's own business. The error is that of the bus, as for [Router.HandleReply].
func (r *Router) HandleProgress(
	ctx context.Context, from Sender, n *protocol.Notification,
) (Disposition, error) {
	if n == nil || n.Method != protocol.NotifyProgress {
		return Unknown, nil
	}
	d := r.handleProgressLocally(from, n)
	if d != Unknown || r.opts.Bus == nil {
		return d, nil
	}
	return r.forwardProgress(ctx, from, n)
}

// handleProgressLocally hands progress to a question of this router.
func (r *Router) handleProgressLocally(from Sender, n *protocol.Notification) Disposition {
	progress, err := decodeProgress(n)
	if err != nil {
		return Unknown
	}
	p, d := r.lookUpQuestion(from, progress.Token, "")
	if p == nil {
		return d
	}
	if !p.extendTimeout() {
		return p.dispositionOfLate("")
	}
	if p.onProgress != nil {
		progress.Token = p.upstreamToken
		p.onProgress(progress)
	}
	return Accepted
}

func decodeProgress(n *protocol.Notification) (*protocol.Progress, error) {
	p := &protocol.Progress{}
	err := jsonx.Decode(n.Params, p)
	return p, err
}

// finishByReply ends the question with what the client replied, and returns what became
// of the reply.
func (p *pendingQuestion) finishByReply(out outcome, attempt string) Disposition {
	out.attempt = attempt
	if !p.finish(out) {
		return p.dispositionOfLate(attempt)
	}
	return dispositionOfReply(out.isInvalidReply())
}

// isInvalidReply reports whether the question failed because the client's reply cannot be
// used.
func (out outcome) isInvalidReply() bool {
	return out.err != nil && out.err.Reason != ReasonClientError &&
		out.err.Reason != ReasonAnswerLost
}

// dispositionOfReply is what becomes of the reply that ended a question.
func dispositionOfReply(invalid bool) Disposition {
	if invalid {
		return Invalid
	}
	return Accepted
}

// dispositionOfLate is what becomes of a reply that comes after the end.
func (p *pendingQuestion) dispositionOfLate(attempt string) Disposition {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answered && attempt != "" && attempt == p.attempt {
		return dispositionOfReply(p.invalidReply)
	}
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

// readError returns the outcome of a question that the client answered with an error.
func (p *pendingQuestion) readError(wire *protocol.Error) outcome {
	out := outcome{state: stateFailed, replied: true}
	limit := p.router.opts.MaxContentBytes
	if len(wire.Message) > maxOutsideSchema || len(wire.Data) > limit {
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
	limit := p.router.opts.MaxContentBytes
	if len(raw) > limit+maxOutsideSchema {
		err := fmt.Errorf("larger than %d bytes", limit+maxOutsideSchema)
		return nil, invalidReply(ReasonInvalidReply, err)
	}
	if err := jsonx.Check(raw); err != nil {
		return nil, invalidReply(ReasonInvalidReply, errNotJSON)
	}
	result, err := protocol.DecodeElicitResult(raw)
	if err != nil {
		return nil, invalidReply(ReasonInvalidReply, errNoResult)
	}
	if len(result.Content) > limit {
		err := fmt.Errorf("content: larger than %d bytes", limit)
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
