package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/claims"
	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Push puts one question to the client while call runs: the push API of hosts
// that serve legacy revisions sits on it. The question is gated and spelled as
// those that handlers return are, and waits as long. The answer is the bare
// result, to be read with one of the Decode*Result functions of package
// protocol; the content of an accepted form has been checked and has its
// defaults filled in.
//
// Where the question cannot be asked Push fails before anything is sent, with a
// [*PushError]: in modern revisions, without a [Call].Push, for clients that
// lack the capability, and when the revision cannot carry it. An
// [*protocol.Error] is what the client said instead of an answer, or, before
// anything is sent, that too many calls wait already ([protocol.CodeBusy]) or that
// the question's URL must not be sent (see [Options].AllowURL); an [*AnswerError]
// is an answer that does not fit its form. Calls may overlap.
//
// Under the context of a handler a failure ends the run: the handler's context
// is cancelled, nothing more is asked, and the client gets a refusal that says
// why, whatever the handler returns. A handler that drops the error must not go
// on as if the person had agreed. After an AnswerError the handler may ask again;
// if it completes without another answer the client gets a refusal, too. A
// question that the handler itself withdraws, by a context of its own that ends,
// ends nothing. Handlers that can do without an answer look first ([CanAsk],
// [Funnel.CanPush]) or use [Funnel.TryPush].
func (f *Funnel) Push(ctx context.Context, call Call,
	question protocol.InputRequest) (json.RawMessage, error) {
	return f.pushUnder(ctx, &call, question, false)
}

// TryPush is [Funnel.Push] for handlers that can do without an answer: a failure
// is returned and ends nothing. The observer is notified all the same.
func (f *Funnel) TryPush(ctx context.Context, call Call,
	question protocol.InputRequest) (json.RawMessage, error) {
	return f.pushUnder(ctx, &call, question, true)
}

// CanPush reports whether a plain question of a kind can be put to the client
// while call runs. It is never so in modern revisions.
func (f *Funnel) CanPush(call Call, kind protocol.InputKind) bool {
	p, q := &questioner{funnel: f, call: &call}, sampleQuestion(kind)
	if q == nil || p.checkPush(q) != nil {
		return false
	}
	_, err := p.downgradePushed(q)
	return err == nil
}

// NoteFailedPush informs the funnel of a question that the host itself has put to
// the client under the context of a handler, and that failed with err. It does
// what a failed [Funnel.Push] does: the observer is notified, and unless the host
// tolerates it the run ends with a refusal. Where the handler fails as well, with an
// error or an error result, its own words go out in the place of the refusal, as they
// would without a funnel. A handler's own end of ctx is no failure. Where no question can reach
// the client, by what [Call].Push says, the refusal gives that reason, and is never tolerated.
func (f *Funnel) NoteFailedPush(ctx context.Context, call Call, kind protocol.InputKind, err error,
	tolerated bool) {
	r := runFrom(ctx)
	if p, over := f.newPushQuestioner(ctx, r, &call); over == nil {
		after := refuseUnlessHandlerFails
		if text := p.unreachableText(); text != "" {
			err = &PushError{Method: kind.Method(), Cause: text, client: text}
		} else if tolerated {
			after = tolerateFailure
		}
		p.failPushed(ctx, r, kind, err, after)
	}
}

// WithRoundOf returns ctx as part of the round that handler, the context of a
// handler, is of: for hosts whose calls that push may be given any context.
func WithRoundOf(ctx, handler context.Context) context.Context {
	r := runFrom(handler)
	if r == nil || r == runFrom(ctx) {
		return ctx
	}
	return context.WithValue(ctx, runKey{}, r)
}

// pushUnder pushes for the run of ctx, if there is one. optional says that a failure does not
// end the run. What comes before and after the question is in functions of its own, to keep
// the stack of a call that waits small.
func (f *Funnel) pushUnder(ctx context.Context, call *Call, question protocol.InputRequest,
	optional bool) (json.RawMessage, error) {
	p, err := f.newPushQuestioner(ctx, runFrom(ctx), call)
	if err != nil {
		return nil, err
	}
	raw, err := p.pushAndWait(ctx, question)
	return p.applyPushed(ctx, question, raw, err, optional)
}

// applyPushed decides what an answer, or a failure, means for the run.
func (p *questioner) applyPushed(ctx context.Context, question protocol.InputRequest,
	raw json.RawMessage, err error, optional bool) (json.RawMessage, error) {
	r := runFrom(ctx)
	r.noteActed()
	switch failed := err.(type) {
	case nil:
		r.notePushedAnswer(nil)
		return raw, nil
	case *AnswerError:
		if !optional {
			r.notePushedAnswer(failed)
		}
	case *invalidPushError:
		return nil, endInvalidPush(ctx, failed.err)
	default:
		p.failPushed(ctx, r, question.Kind(), err, afterFailureOf(optional))
	}
	return nil, err
}

// An invalidPushError is a question that cannot be put to any client.
type invalidPushError struct{ err error }

func (e *invalidPushError) Error() string { return e.err.Error() }

// newPushQuestioner returns a questioner of its own, because a goroutine that the handler left
// behind must not use that of the exchange, which goes on. It fails in a run whose outcome is
// fixed, or that is about to ask.
func (f *Funnel) newPushQuestioner(ctx context.Context, r *run, call *Call) (*questioner, error) {
	p := &questioner{}
	p.attachCall(ctx, f, call, nil)
	if r == nil {
		return p, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.wait = r.ensureWaitLocked()
	if r.closed {
		return p, nil
	}
	switch {
	case r.flow == nil:
	case r.flow.end != nil:
		return p, r.flow.end.err
	case r.flow.asksClient():
		return p, fmt.Errorf("%w: %s", ErrPending, questionKeys(r.flow.pending))
	}
	p.where = r.where
	return p, nil
}

// pushAndWait asks and waits. What it returns is an answer to the question.
func (p *questioner) pushAndWait(ctx context.Context,
	question protocol.InputRequest) (json.RawMessage, error) {
	downgraded, fields, err := p.preparePush(ctx, question)
	if err != nil {
		return nil, err
	}
	w, err := p.beginWaitingIn(ctx, runFrom(ctx))
	if err != nil {
		return nil, err
	}
	defer w.endWaiting()
	raw, err := p.pushQuestion(&w.Context, downgraded, &w.took)
	if err = w.awaitResume(ctx, err); err != nil {
		return nil, err
	}
	return p.acceptPushed(ctx, question, fields, raw, w.took.waited)
}

// preparePush returns the question as it is put to the client, and its form if it has one, or
// why it cannot be put.
//
//go:noinline
func (p *questioner) preparePush(ctx context.Context,
	question protocol.InputRequest) (protocol.InputRequest, *form.Form, error) {
	alone := protocol.InputRequiredResult{InputRequests: protocol.InputRequests{
		{Key: "question", Request: question}}}
	if err := alone.Validate(); err != nil {
		return nil, nil, &invalidPushError{err}
	}
	if err := p.checkPush(question); err != nil {
		if !err.Missing.IsZero() {
			p.observe(ctx, event.CapabilityRefused{Where: p.where, Missing: err.Missing})
		}
		return nil, nil, err
	}
	if err := p.checkPushedURL(ctx, question); err != nil {
		return nil, nil, &invalidPushError{err}
	}
	fields, err := pushedForm(question)
	if err != nil {
		return nil, nil, &invalidPushError{err}
	}
	downgraded, cannot := p.downgradePushed(question)
	if cannot != nil {
		return nil, nil, cannot
	}
	return downgraded, fields, nil
}

// checkPush returns why no question of this kind can be pushed to the client, nil if it can.
func (p *questioner) checkPush(question protocol.InputRequest) *PushError {
	method := question.Kind().Method()
	if !p.isLegacy() {
		return &PushError{
			Method: method, Cause: fmt.Sprintf("revision %s has no requests from server to client",
				p.call.Version),
			client: "nobody could be asked: the server asks in a way that this connection does not " +
				"carry, so calling again does not help; tell whoever runs the server",
		}
	}
	if p.call.Push == nil {
		return &PushError{
			Method: method, Cause: "this connection cannot carry questions to the client",
			client: "nobody could be asked: this connection cannot carry questions to the " +
				"client; call again over one that keeps a session",
		}
	}
	if text := p.unreachableText(); text != "" {
		return &PushError{Method: method, Cause: text, client: text}
	}
	return missingPush(method, p.call.Capabilities.Missing(question))
}

// unreachableText is the text for a client that the connection cannot reach now, by what its
// [Pusher] says; empty where it can.
func (p *questioner) unreachableText() string {
	if c, ok := p.call.Push.(interface{ CannotPush() string }); ok {
		return c.CannotPush()
	}
	return ""
}

// downgradePushed is downgradeQuestion for a question that is pushed.
func (p *questioner) downgradePushed(question protocol.InputRequest) (protocol.InputRequest,
	*PushError) {
	downgraded, err := p.downgradeQuestion(question)
	if err != nil {
		return nil, &PushError{
			Method: question.Kind().Method(), Cause: err.Error(),
			client: fmt.Sprintf("nobody could be asked: %v; call again from a client of a newer "+
				"revision", err),
		}
	}
	return downgraded, nil
}

// missingPush returns the error for a client that lacks capabilities, nil for one
// that lacks none.
func missingPush(method string, missing protocol.ClientCapabilities) *PushError {
	if missing.IsZero() {
		return nil
	}
	return &PushError{Method: method, Cause: "the client does not support: " + missing.String(),
		Missing: missing, client: missingText(missing)}
}

// missingText is the text for a client that lacks capabilities.
func missingText(missing protocol.ClientCapabilities) string {
	return "the client does not support: " + missing.String() +
		", so nobody could be asked; call again from a client that does"
}

// acceptPushed checks an answer and reports it to the observer.
//
//go:noinline
func (p *questioner) acceptPushed(ctx context.Context, question protocol.InputRequest,
	fields *form.Form, raw json.RawMessage, waited time.Duration) (json.RawMessage, error) {
	p.reportPushed(ctx, question, fields, raw, waited)
	if fields == nil {
		if _, _, err := interpret(question.Kind(), raw); err != nil {
			return nil, &AnswerError{err}
		}
		return raw, nil
	}
	accepted, err := acceptForm(fields, raw)
	if invalid, ok := errors.AsType[*AnswerError](err); ok {
		fault := fields.Explain(invalid.Err)
		p.observe(ctx, event.AnswerInvalid{Where: p.where, Field: fault.Field,
			Rule: event.Rule(fault.Rule)})
	}
	return accepted, err
}

// reportPushed reports what a person decided on a question without a key. An answer that
// cannot be read is not reported.
func (p *questioner) reportPushed(ctx context.Context, question protocol.InputRequest,
	fields *form.Form, raw json.RawMessage, waited time.Duration) {
	if p.funnel.silent {
		return
	}
	outcome, _, err := p.interpretAfter(ctx, question.Kind(), raw, waited)
	if err != nil {
		return
	}
	q := Question{request: question, form: fields}
	m, err := q.makeMark()
	if err != nil {
		return
	}
	p.reportAnswered(ctx, &claims.Question{Kind: question.Kind(), Digest: q.formDigest(), Mark: m},
		outcome, waited)
}

// checkPushedURL refuses a visit to a URL that must not be sent. A question that
// is pushed has no key, so the refusal names the elicitation, if that has an id.
func (p *questioner) checkPushedURL(ctx context.Context, question protocol.InputRequest) error {
	visit, ok := question.(*protocol.ElicitURL)
	if !ok {
		return nil
	}
	refusal := p.funnel.allowURL().RefuseAny([]*protocol.ElicitURL{visit})
	if refusal == nil {
		return nil
	}
	p.observe(ctx, event.ServerBug{Where: p.where, Err: refusal})
	return refusal.Wire()
}

// pushedForm reads the form of a question, nil if it has none.
func pushedForm(question protocol.InputRequest) (*form.Form, error) {
	q, ok := question.(*protocol.ElicitForm)
	if !ok {
		return nil, nil
	}
	return form.ParsePeer(q.Schema)
}

// acceptForm checks and completes the content of an accepted form.
func acceptForm(fields *form.Form, raw json.RawMessage) (json.RawMessage, error) {
	result, err := protocol.DecodeElicitResult(raw)
	if err != nil {
		return nil, &AnswerError{err}
	}
	if result.Action != protocol.ActionAccept {
		return raw, nil
	}
	content := result.Content
	if content == nil {
		content = json.RawMessage("{}")
	}
	if result.Content, err = fields.Accept(content); err != nil {
		return nil, &AnswerError{err}
	}
	return jsonx.Marshal(result)
}

// afterFailure says what becomes of a run whose question failed.
type afterFailure int

const (
	refuseAlways             afterFailure = iota // whatever the handler returns
	refuseUnlessHandlerFails                     // then its own words go out
	tolerateFailure                              // the handler may complete
)

// afterFailureOf returns what becomes of a run that asked with a function of this package.
func afterFailureOf(optional bool) afterFailure {
	if optional {
		return tolerateFailure
	}
	return refuseAlways
}

// failPushed reports a question that failed, and ends the run as after says.
func (p *questioner) failPushed(ctx context.Context, r *run, kind protocol.InputKind, err error,
	after afterFailure) {
	if r != nil && ctx.Err() != nil && r.ctx.Err() == nil {
		return // withdrawn by the handler, which chose to do without
	}
	tolerated := r == nil || after == tolerateFailure
	p.observe(ctx, event.PushFailed{Where: p.where, Kind: kind, Err: err, Tolerated: tolerated})
	if !tolerated {
		r.endWith(&ending{err: err, refusal: cannotAsk(err), how: event.EndFailed,
			yields: after == refuseUnlessHandlerFails})
	}
}

// endInvalidPush ends the run of ctx for a question that is the server's mistake. The client
// gets err if it is an error of the protocol.
func endInvalidPush(ctx context.Context, err error) error {
	r := runFrom(ctx)
	if r == nil {
		return err
	}
	e := &ending{err: err, how: event.EndFailed}
	if wire, ok := protocol.AsError(err); ok {
		e.refusal = &refusal{wire: wire, always: true}
	}
	r.endWith(e)
	return err
}

// endWith fixes the outcome of the run, in guard style as well.
func (r *run) endWith(e *ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.startFlowLocked()
	_ = r.endLocked(e)
}

// notePushedAnswer records whether the last question that was pushed got an answer that does
// not fit (invalid) or a good one (nil).
func (r *run) notePushedAnswer(invalid *AnswerError) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.flow == nil && invalid == nil {
		return
	}
	r.startFlowLocked()
	r.flow.invalidAnswer = invalid
}
