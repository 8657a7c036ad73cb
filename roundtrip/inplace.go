package roundtrip

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// askInPlace pushes a question and waits for the answer, with the checks of returned questions. A
// failure to ask ends the run, because a handler might mistake the error for an answer.
//
// Code before and after the wait is in functions not inlined: stacks of waiting calls stay small.
func (r asker) askInPlace(ctx context.Context, one *inquiry) error {
	waits, done := r.waitingContext(ctx)
	defer done()
	ignored := 0
	for again, missing := 0, true; missing; again++ {
		p, err := r.beginInPlace(&one.question, again)
		if err != nil {
			return err
		}
		usable, failed := r.pushInPlace(waits, p, &one.question, again)
		if ignored++; usable {
			ignored = 0
		}
		missing, err = r.readInPlace(ctx, p, one, ignored, failed)
		if err != nil {
			return err
		}
	}
	return nil
}

// readInPlace decides the next step: an error, or a repetition of the question. ignored counts
// unusable answers in a row. Inlined it would take 300 bytes of the stack of a waiting call.
//
//go:noinline
func (r asker) readInPlace(ctx context.Context, p *questioner, one *inquiry,
	ignored int, failed error) (missing bool, err error) {
	r.mu.Lock()
	r.flow.answered = true // the next question begins a round
	r.mu.Unlock()
	if failed != nil {
		return false, r.failInPlace(ctx, &one.question, failed)
	}
	if ignored >= maxRoundsIgnored {
		return false, r.endWithText(protocol.CodeFlowEnded, words.EndFailed,
			"the client keeps sending answers that cannot be used: their shape is wrong; not "+
				"asking again: use a client that answers in the shape of the question, and start "+
				"the call again")
	}
	missing, err = r.collectAnswer(one)
	r.reportFindings(ctx, p)
	if err != nil || !missing {
		return false, err
	}
	if r.canUsePage() && r.isHidden(&one.question) {
		return false, errNotShown
	}
	if text := r.tooOftenInvalid(&one.question); text != "" {
		return false, r.endWithText(protocol.CodeFlowEnded, words.EndInvalid, text)
	}
	return true, nil
}

// waitingContext returns the context for the questions of ctx, and a function to release it. It is
// ctx itself unless ctx may be detached from the call's context, which no question may outlive.
func (r asker) waitingContext(ctx context.Context) (context.Context, func()) {
	if ctx == context.Context(&r.ctx) {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(&r.ctx, func() { cancel(context.Cause(&r.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// inPlaceSlack multiplies Limits.Rounds: one round of goroutines in replay may be several in place.
const inPlaceSlack = 8

// beginInPlace counts rounds, so that a run that does not converge ends: questions asked before any
// is answered are one round, and each may be asked as often as in replay.
func (r asker) beginInPlace(missing *Question, again int) (*questioner, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.activeFlowLocked()
	if err != nil {
		return nil, err
	}
	if r.ctx.Err() != nil { // the wait may outlive the run
		cause := context.Cause(&r.ctx)
		if errors.Is(cause, ErrPending) { // another goroutine's question goes by text
			return nil, cause
		}
		return nil, r.endLocked(&ending{err: cause, refusal: cannotAsk(cause),
			how: words.EndFailed})
	}
	limit := r.funnel.opts.Limits.Rounds
	if f.rounds == 0 || f.answered {
		f.rounds++
		f.answered = false
	}
	if int(f.rounds) > inPlaceSlack*limit {
		limit *= inPlaceSlack
	} else if again < limit {
		own := r.exchange.questioner
		return &own, nil
	}
	text := gaveUp(limit, missing.key, r.answeredKeysLocked(), r.lastFaultTextLocked(missing))
	return nil, r.endLocked(&ending{err: errors.New(text),
		refusal: &refusal{code: protocol.CodeFlowEnded, text: text}, how: words.EndRounds})
}

// pushInPlace asks the question and records the answer. It reports whether the answer is usable.
func (r asker) pushInPlace(ctx context.Context, p *questioner, missing *Question,
	again int) (usable bool, err error) {
	requests, err := r.prepareInPlace(ctx, p, missing)
	if err != nil {
		return false, err
	}
	r.noteForm(false)
	asked := p.describeInPlace(missing, requests, p.funnel.opts.Limits.Rounds-1-again)
	pushed, err := p.pushAll(ctx, requests, asked)
	if err != nil {
		return false, err
	}
	return r.acceptInPlace(ctx, p, missing, requests, pushed), nil
}

// acceptInPlace records and reports the answer. It reports whether the answer is usable.
//
//go:noinline
func (r asker) acceptInPlace(ctx context.Context, p *questioner, q *Question,
	sent protocol.InputRequests, pushed *pushedAnswers) (usable bool) {
	waited := pushed.took[0].waited
	outcome, content, err := p.interpretAfter(ctx, q.request.Kind(), pushed.responses[0].Result,
		waited)
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return false
	}
	if err != nil {
		dropped := event.Dropped{Key: q.key, Reason: words.DropMalformed}
		r.dropped = append(r.dropped, dropped)
		r.mu.Unlock()
		p.observe(ctx, event.AnswersDropped{Where: p.where, Dropped: []event.Dropped{dropped}})
		return false
	}
	a := &answer{
		key: q.key, kind: q.request.Kind(), outcome: outcome, digest: q.formDigest(),
		mark: q.mark, content: append(json.RawMessage(nil), content...), round: r.number,
		announced: !p.funnel.silent, soon: r.ladder != nil && p.isTooSoon(ctx, waited),
	}
	_, a.mark.Invalid = r.faultOfLocked(q.key)
	hidden := r.hideUnseen(a)
	reported := *a
	if !hidden {
		r.recordAnswerLocked(a)
		r.inPlace = r.inPlace || !isLink(a.key)
	}
	r.mu.Unlock()
	r.noteForm(true)
	p.reportAnswered(ctx, &reported, &pushed.responses[0].Result,
		event.Answered{Where: p.where, Asked: sent[0].Request, Waited: waited})
	return true
}

// prepareInPlace returns the question to push, or why it cannot be pushed.
//
//go:noinline
func (r asker) prepareInPlace(
	ctx context.Context, p *questioner, missing *Question,
) (protocol.InputRequests, error) {
	d, asks := draft{questions: []Question{*missing}}, protocol.InputRequiredResult{}
	d.fillResult(&asks)
	if err := p.checkDraft(&d, &asks); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return nil, r.failLocked(err)
	}
	requests, no := p.checkLegacyClient(ctx, asks.InputRequests)
	if no != nil {
		return nil, r.endWithText(no.code, words.EndFailed, no.text)
	}
	return r.explainRepeats(requests), nil
}

// describeInPlace is apart from prepareInPlace, whose frame would double a waiting call's stack.
//
//go:noinline
func (p *questioner) describeInPlace(
	missing *Question, requests protocol.InputRequests, roundsLeft int,
) event.Event {
	if p.funnel.silent {
		return nil
	}
	return event.InputRequested{
		Where: p.where, Kinds: requestKinds(requests),
		Questions: askedQuestions([]Question{*missing}, requests...), RoundsLeft: roundsLeft,
		Principal: &p.call.Principal, Client: p.call.Client,
	}
}

// failInPlace ends the run, unless the handler withdrew the question or can do without an answer.
func (r asker) failInPlace(ctx context.Context, missing *Question, err error) error {
	if ctx.Err() != nil && r.ctx.Err() == nil {
		r.freeKey(missing.key)
		return err
	}
	p, over := r.newQuestioner(ctx)
	if over != nil {
		return over
	}
	if kind := missing.request.Kind(); r.isNotShown(ctx, kind, missing.key, err) {
		r.ladder.noteHidden(missing.key, nil)
		if kind == protocol.KindElicitURL || r.wayOf(missing) != words.WayForm {
			p.observe(ctx, event.PushFailed{Where: p.where, Kind: kind, Err: err, Tolerated: true})
			return errNotShown
		}
	}
	r.failQuestion(ctx, p, missing, err)
	if missing.optional {
		r.freeKey(missing.key)
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flow.end != nil {
		return r.flow.end.err
	}
	return err
}
