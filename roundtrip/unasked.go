package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
)

// PushFailed: a question was to be put to the client while a call runs, and
// nobody answered it: it could not be sent, the client answered with an error, or
// nobody answered in time. A person who declines, and a question that the handler
// withdraws, are no failures.
type PushFailed struct {
	Where
	Kind protocol.InputKind
	// Err says why. Its text may repeat what the client said, so escape and cut
	// it.
	Err error
	// Tolerated says that the handler went on: it said that it can do without an
	// answer, or the host lets handlers that were not changed for it. Otherwise
	// the client got a refusal, whatever the handler returned.
	Tolerated bool
}

func (PushFailed) event() {}

// WithRoundOf returns ctx as part of the round that handler, the context of a
// handler, is of: for hosts whose calls that push may be given any context.
func WithRoundOf(ctx, handler context.Context) context.Context {
	r := runFrom(handler)
	if r == nil || r == runFrom(ctx) {
		return ctx
	}
	return context.WithValue(ctx, runKey{}, r)
}

// CanAsk reports whether a question of a kind can be put to the client of the
// handler that ctx is of, in its revision and with the capabilities that it
// declares: for handlers that can do without. It is false outside of a handler.
// A question that uses more than its kind, such as tools in sampling or a format
// that an older revision does not know, may be refused all the same; [IfPossible]
// covers those, too.
func CanAsk(ctx context.Context, kind protocol.InputKind) bool {
	r, q := runFrom(ctx), sampleQuestion(kind)
	return r != nil && q != nil && r.exchange.checkAskable(q) == nil
}

// IfPossible has a question of flow style fail instead of ending the flow where
// nobody can be asked: the call that asks returns a [*PushError] then, and the
// handler goes on. On a connection of a legacy revision it returns other failures
// to ask as well, such as a question that nobody answers in time. A refusal by the
// person stays one.
func IfPossible() AskOption {
	return func(q Question) Question {
		q.optional = true
		return q
	}
}

// sampleQuestion returns a plain question of a kind, nil for an unknown one.
func sampleQuestion(kind protocol.InputKind) protocol.InputRequest {
	switch kind {
	case protocol.KindElicitForm:
		return &protocol.ElicitForm{Schema: json.RawMessage(`{"type":"object","properties":{}}`)}
	case protocol.KindElicitURL:
		return &protocol.ElicitURL{}
	case protocol.KindCreateMessage:
		return &protocol.CreateMessage{}
	case protocol.KindListRoots:
		return &protocol.ListRoots{}
	}
	return nil
}

// checkAskable returns why a question that the handler returns, or asks in flow
// style, cannot be asked, nil if it can.
func (p *questioner) checkAskable(question protocol.InputRequest) *PushError {
	if !p.isLegacy() {
		return missingPush(question.Kind().Method(), p.call.Capabilities.Missing(question))
	}
	if p.funnel.opts.RefuseLegacy {
		return &PushError{Method: question.Kind().Method(), Cause: "questions to clients of older revisions are switched off", client: refusedLegacyText}
	}
	if err := p.checkPush(question); err != nil {
		return err
	}
	_, err := p.downgradePushed(question)
	return err
}

// refusedLegacyText tells a client of an older revision that it is not asked.
const refusedLegacyText = "this request asks questions, which needs a client of revision 2026-07-28"

// checkOptional returns the error of a call in flow style that cannot be asked
// and whose handler can do without, nil where asking goes on.
func (r *run) checkOptional(ctx context.Context, missing []Question) error {
	var failed *PushError
	var kind protocol.InputKind
	for i := range missing {
		q := &missing[i]
		if !q.optional {
			continue
		}
		if err := r.exchange.checkAskable(q.request); err != nil {
			failed, kind = err, q.request.Kind()
		}
	}
	if failed == nil {
		return nil
	}
	p, err := r.exchange.funnel.pushAsker(ctx, r, r.exchange.call)
	if err != nil {
		return err
	}
	p.failPushed(ctx, r, kind, failed, true)
	return failed
}

// allOptional reports whether the handler can do without all answers.
func allOptional(questions []Question) bool {
	for i := range questions {
		if !questions[i].optional {
			return false
		}
	}
	return true
}

// NoteFailedPush tells the funnel of a question that the host itself has put to
// the client under the context of a handler, and that failed with err. It does
// what a failed [Funnel.Push] does: the observer hears of it, and the run ends
// with a refusal unless the host tolerates it. A handler's own end of ctx is no
// failure.
func (f *Funnel) NoteFailedPush(ctx context.Context, call Call, kind protocol.InputKind, err error, tolerated bool) {
	r := runFrom(ctx)
	if p, over := f.pushAsker(ctx, r, &call); over == nil {
		p.failPushed(ctx, r, kind, err, tolerated)
	}
}

// failPushed decides what becomes of a run whose question failed.
func (p *questioner) failPushed(ctx context.Context, r *run, kind protocol.InputKind, err error, tolerated bool) {
	if r != nil && ctx.Err() != nil && r.ctx.Err() == nil {
		return // withdrawn by the handler, which chose to do without
	}
	p.observe(ctx, PushFailed{p.where, kind, err, tolerated || r == nil})
	if r != nil && !tolerated {
		r.endWith(&ending{err, cannotAsk(err), EndFailed})
	}
}

// endInvalidPush ends the run of ctx for a question that is the server's mistake.
// The client gets the error if it is one of the protocol.
func endInvalidPush(ctx context.Context, err error) error {
	r := runFrom(ctx)
	if r == nil {
		return err
	}
	e := &ending{err: err, how: EndFailed}
	if wire, ok := protocol.AsError(err); ok {
		e.refusal = &refusal{wire: wire, always: true}
	}
	r.endWith(e)
	return err
}

// endWith settles the run, of guard style as well.
func (r *run) endWith(e *ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.startFlowLocked()
	_ = r.endLocked(e)
}

// notePushedAnswer notes how the last question was answered that was pushed: with
// something that does not fit, or, nil, well.
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

// completes reports whether what a handler returned is a success.
func completes(result protocol.Result, err error) bool {
	if err != nil {
		return false
	}
	switch r := result.(type) {
	case *protocol.InputRequiredResult:
		return false
	case *protocol.CallToolResult:
		return r != nil && !r.IsError
	}
	return true
}

// refuseInvalidAnswer ends a run that would complete on an answer that does not fit.
func (p *exchange) refuseInvalidAnswer(ctx context.Context, unfit *AnswerError) (protocol.Result, error) {
	p.observe(ctx, ServerBug{p.where, errors.Join(errors.New("the handler completes although the last answer was not valid"), unfit)})
	p.reportFlowEnd(ctx, EndFailed)
	return p.refuseFlow(protocol.CodeFlowEnded, unfit.Error()+"; call again and answer the question anew")
}

// refuseUnfinished ends a run that would complete although a visit is not
// finished.
func (p *exchange) refuseUnfinished(ctx context.Context, key string) (protocol.Result, error) {
	p.observe(ctx, ServerBug{p.where, fmt.Errorf("the handler completes although the visit %q is not finished", key)})
	p.reportFlowEnd(ctx, EndFailed)
	return p.refuseFlow(protocol.CodeFlowEnded, fmt.Sprintf("the visit %q is not finished; %s", key, howToFinish))
}
