package elicitation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

func (r *Router) complete(ctx context.Context, from From, reply *protocol.Response) (Disposition, error) {
	if reply == nil || reply.ID.IsZero() {
		return Unknown, nil
	}
	d := r.completeLocally(from, reply)
	if d != Unknown || r.opts.Bus == nil || !isQuestionID(reply.ID) {
		return d, nil
	}
	return r.forwardReply(ctx, from, reply)
}

// completeLocally hands a reply to a question of this router.
func (r *Router) completeLocally(from From, reply *protocol.Response) Disposition {
	e, d := r.lookUpQuestion(from, reply.ID)
	if e == nil {
		return d
	}
	if reply.Error != nil {
		wire := *reply.Error
		wire.Data = cloneJSON(wire.Data)
		return e.judged(e.finishWithError(&wire))
	}
	return e.judged(e.finishWithResult(reply.Result))
}

// judged is what a reply was, given whether it ended the question and could be
// used.
func (e *pendingQuestion) judged(won, fit bool) Disposition {
	if fit {
		return e.disposition(won, Accepted)
	}
	return e.disposition(won, Invalid)
}

// lookUpQuestion finds the pending question with an id and checks that it was put to the
// sender; without one it says what the reply is.
func (r *Router) lookUpQuestion(from From, id protocol.ID) (*pendingQuestion, Disposition) {
	r.mu.Lock()
	e := r.questions[id]
	was, dead := r.tombs.byID[id]
	r.mu.Unlock()
	switch {
	case e == nil && !dead:
		return nil, Unknown
	case e == nil:
		return nil, was.disposition(from)
	case e.call.origin.Session.info.ID != from.Session:
		return nil, WrongSession
	case e.call.origin.Principal != from.Principal:
		return nil, WrongPrincipal
	}
	return e, Unknown
}

// disposition is what a reply was, given whether it ended the question.
func (e *pendingQuestion) disposition(won bool, then Disposition) Disposition {
	if won {
		return then
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answered {
		return Duplicate
	}
	return Expired
}

// finishWithError ends the question with the client's own error. It reports whether this
// ended it, and whether the error could be passed on.
func (e *pendingQuestion) finishWithError(wire *protocol.Error) (won, fit bool) {
	most := e.router.opts.MaxContentBytes
	if len(wire.Message) > maxOutsideSchema || len(wire.Data) > most {
		bad := newFailure(ReasonInvalidReply, "The client's answer is not valid", errLargeError)
		return e.finish(outcome{state: stateFailed, replied: true, err: bad}), false
	}
	return e.finish(outcome{state: stateFailed, replied: true, err: &Error{Reason: ReasonClientError, Wire: wire}}), true
}

// finishWithResult ends the question with the client's result. It reports whether this
// ended it, and whether the result could be used.
func (e *pendingQuestion) finishWithResult(raw []byte) (won, fit bool) {
	result, detail, bad := e.readResult(raw)
	if bad != nil {
		return e.finish(outcome{state: stateFailed, replied: true, err: bad, detail: detail}), false
	}
	return e.finish(outcome{state: stateCompleted, replied: true, result: result, detail: detail}), true
}

// readResult decodes a result and holds its content against the form. detail says what
// does not fit; it holds no value.
func (e *pendingQuestion) readResult(raw []byte) (result *protocol.ElicitResult, detail string, bad *Error) {
	o := &e.router.opts
	invalid := func(reason Reason, err error) *Error {
		return newFailure(reason, "The client's answer is not valid", err)
	}
	if len(raw) > o.MaxContentBytes+maxOutsideSchema {
		return nil, "", invalid(ReasonInvalidReply, fmt.Errorf("larger than %d bytes", o.MaxContentBytes+maxOutsideSchema))
	}
	if err := jsonx.Check(raw); err != nil {
		return nil, "", invalid(ReasonInvalidReply, errNotJSON) // err may quote the answer
	}
	result, err := protocol.DecodeElicitResult(raw)
	switch {
	case err != nil:
		return nil, "", invalid(ReasonInvalidReply, errNoResult) // likewise
	case len(result.Content) > o.MaxContentBytes:
		return nil, "", invalid(ReasonInvalidReply, fmt.Errorf("content: larger than %d bytes", o.MaxContentBytes))
	}
	result.Content = cloneJSON(result.Content)
	if result.Meta, err = relayedMeta(result.Meta); err != nil {
		return nil, "", invalid(ReasonInvalidReply, errNoResult) // likewise
	}
	if e.kind == protocol.KindElicitURL {
		result.Content = nil // belongs to forms alone
	}
	if result.Action != protocol.ActionAccept || e.check.isEmpty() {
		return result, "", nil
	}
	checked, err := e.router.checkContent(e.check, result.Content)
	switch {
	case err == nil && o.Validation == ValidateEnforce:
		result.Content = checked
	case err != nil && o.Validation == ValidateEnforce:
		return nil, err.Error(), invalid(ReasonInvalidContent, err)
	case err != nil:
		return result, err.Error(), nil
	}
	return result, "", nil
}

var (
	errNotJSON    = errors.New("the result is not strict JSON")
	errNoResult   = errors.New("the result is not that of an elicitation")
	errLargeError = errors.New("the client's error is too large")
)

// cloneJSON keeps what would otherwise alias a buffer of the host's.
func cloneJSON(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	return append(json.RawMessage{}, raw...)
}
