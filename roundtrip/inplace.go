package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/internal/lazyctx"
	"github.com/rondo-mcp/rondo/protocol"
)

// askInPlace puts questions to a client of a legacy revision and waits until all of
// them are answered. Gate, limits and validation are those of questions that
// are returned. What keeps them from being answered ends the run: a handler that
// takes the error for a go-ahead must not get one.
func (r *run) askInPlace(ctx context.Context, inquiries []inquiry, missing []Question) error {
	waits, done, err := r.waitingContext(ctx)
	if err != nil {
		return err
	}
	defer done()
	unheard := 0
	for again := 0; len(missing) > 0; again++ {
		p, err := r.beginInPlace(missing, again)
		if err != nil {
			return err
		}
		heard, failed := r.pushInPlace(waits, p, missing, again)
		if unheard++; heard {
			unheard = 0
		}
		missing, err = r.readInPlace(ctx, p, inquiries, missing, unheard, failed)
		if err != nil {
			return err
		}
	}
	return nil
}

// readInPlace decides what follows from the answers to what was asked, or from the
// failure to ask: an error, or the questions to ask again. unheard is how many
// times in a row no answer could be used. It is no part of the stack of a call that
// waits, where it would take 300 bytes.
//
//go:noinline
func (r *run) readInPlace(ctx context.Context, p *questioner, inquiries []inquiry, asked []Question, unheard int, failed error) (missing []Question, err error) {
	r.endInPlace()
	if failed != nil {
		return nil, r.failInPlace(ctx, inquiries, asked, failed)
	}
	if unheard >= maxRoundsIgnored {
		return nil, r.endWithText(protocol.CodeFlowEnded, EndFailed,
			"the client keeps sending answers that cannot be used: their shape is wrong; not asking again: use a client that answers in the shape of the question, and start the call again")
	}
	missing, err = r.collectAnswers(inquiries)
	r.reportFindings(ctx, p)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	if text := r.tooOftenInvalid(asked); text != "" {
		return nil, r.endWithText(protocol.CodeFlowEnded, EndInvalid, text)
	}
	return missing, nil
}

// waitingContext returns the context under which the questions of ctx wait for their
// answers, and what must be called when none does any more.
func (r *run) waitingContext(ctx context.Context) (context.Context, func(), error) {
	if !r.keepsDeadline(ctx) {
		// The caller's context may have been cut off from that of the call, which
		// a question must not outlive all the same.
		ctx, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(&r.ctx, func() { cancel(context.Cause(&r.ctx)) })
		return ctx, func() { stop(); cancel(nil) }, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.activeFlowLocked(); err != nil {
		return nil, nil, err
	}
	live := &lazyctx.Context{}
	r.attachWaitLocked(live)
	return live, func() {
		r.detachWait(live)
		live.Cancel(nil)
	}, nil
}

// keepsDeadline reports whether ctx is the context of the handler, which it nearly
// always is, and has no deadline but the flow's. Questions keep to that by
// themselves: they hang on what is beyond it, and none of the contexts between comes
// to life for them, which would take 4 KB.
func (r *run) keepsDeadline(ctx context.Context) bool {
	_, timed := r.ctx.Context.(*lazyctx.Timed)
	return timed && ctx == context.Context(&r.ctx)
}

// attachWait makes live, under which a question waits, a child of ctx. It reports true
// when the round is to cancel it, and must be told of its end by detach.
func (r *run) attachWait(live *lazyctx.Context, ctx context.Context) bool {
	if r == nil || !r.keepsDeadline(ctx) {
		live.Init(ctx)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || ctx.Err() != nil { // has ended already
		live.Init(ctx)
		return false
	}
	r.attachWaitLocked(live)
	return true
}

func (r *run) attachWaitLocked(live *lazyctx.Context) {
	live.Init(r.ctx.Context.(*lazyctx.Timed).Parent())
	r.ctx.waits = append(r.ctx.waits, live)
}

func (r *run) detachWait(live *lazyctx.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.ctx.waits, live); i >= 0 {
		r.ctx.waits = slices.Delete(r.ctx.waits, i, i+1)
	}
}

// withdrawLocked ends the contexts that were attached.
func (r *run) withdrawLocked(cause error) {
	for _, live := range r.ctx.waits {
		live.Cancel(cause)
	}
	r.ctx.waits = nil
}

// liveSlack is how many times MaxRounds a run may ask live, one question after
// the other: goroutines whose questions are one round in replay may here, with a
// client that answers at once, follow each other.
const inPlaceSlack = 8

// beginInPlace counts the rounds, so that a run ends which does not converge:
// questions that are put before any of them is settled are one round, and one
// question may be put as often as in replay. It returns an asker of its own,
// because a goroutine that the handler left behind must not look at the pass that
// goes on.
func (r *run) beginInPlace(missing []Question, again int) (*questioner, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.activeFlowLocked()
	if err != nil {
		return nil, err
	}
	if r.ctx.Err() != nil { // waiting need not end with it
		cause := context.Cause(&r.ctx)
		return nil, r.endLocked(&ending{cause, cannotAsk(cause), EndFailed})
	}
	limit := r.funnel.opts.MaxRounds
	if f.rounds == 0 || f.answered {
		f.rounds++
		f.answered = false
	}
	if f.rounds > inPlaceSlack*limit {
		limit *= inPlaceSlack
	} else if again < limit {
		own := r.exchange.questioner
		return &own, nil
	}
	text := gaveUp(limit, questionKeys(missing), r.answeredKeysLocked(), r.lastFaultTextLocked(missing))
	return nil, r.endLocked(&ending{errors.New(text), &refusal{code: protocol.CodeFlowEnded, text: text}, EndRounds})
}

func (r *run) endInPlace() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flow.answered = true
}

// pushInPlace asks all questions at once and records the answers. It reports
// whether any of them could be used. What prepares and records is done by others,
// so that the stack of a call that waits holds nothing of it.
func (r *run) pushInPlace(ctx context.Context, p *questioner, missing []Question, again int) (heard bool, err error) {
	requests, asked, err := r.prepareInPlace(ctx, p, missing, p.funnel.opts.MaxRounds-1-again)
	if err != nil {
		return false, err
	}
	began := time.Now()
	responses, err := p.pushAll(ctx, requests, asked)
	if err != nil {
		return false, err
	}
	return r.acceptInPlace(ctx, p, missing, responses, began), nil
}

// acceptInPlace records answers and tells the observer of them. It reports whether any
// of them could be used.
//
//go:noinline
func (r *run) acceptInPlace(ctx context.Context, p *questioner, missing []Question, responses protocol.InputResponses, began time.Time) (heard bool) {
	heard, dropped := r.recordInPlace(missing, responses)
	if heard && !p.funnel.silent {
		r.reportInPlace(ctx, p, missing, time.Since(began))
	}
	if len(dropped) > 0 {
		p.observe(ctx, AnswersDropped{p.where, dropped})
	}
	return heard
}

// prepareInPlace returns the questions as they are put to the client and the event that
// says so, nil if nobody hears it, or why they cannot be put.
//
//go:noinline
func (r *run) prepareInPlace(
	ctx context.Context, p *questioner, missing []Question, roundsLeft int,
) (requests protocol.InputRequests, asked Event, err error) {
	d, asks := draft{questions: missing}, protocol.InputRequiredResult{}
	d.fillResult(&asks)
	if err := p.checkDraft(&d, &asks); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return nil, nil, r.failLocked(err)
	}
	requests, no := p.checkLegacyClient(ctx, asks.InputRequests)
	if no != nil {
		return nil, nil, r.endWithText(no.code, EndFailed, no.text)
	}
	if !p.funnel.silent {
		asked = InputRequested{
			Where: p.where, Kinds: requestKinds(requests), Questions: askedQuestions(missing), RoundsLeft: roundsLeft,
		}
	}
	return r.explainRepeats(requests), asked, nil
}

// failInPlace decides what a failure to ask means. A handler that withdraws its own
// questions may ask them again, answered ones included, and so may one that can do
// without; anything else ends the run.
func (r *run) failInPlace(ctx context.Context, inquiries []inquiry, missing []Question, err error) error {
	if ctx.Err() != nil && r.ctx.Err() == nil {
		r.freeKeys(inquiries)
		return err
	}
	p, over := r.funnel.pushAsker(ctx, r, r.call)
	if over != nil {
		return over
	}
	optional := allOptional(missing)
	p.failPushed(ctx, r, missing[0].request.Kind(), err, optional)
	if optional {
		r.freeKeys(inquiries)
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flow.end != nil {
		return r.flow.end.err
	}
	return err
}

// recordInPlace puts what the client answered into the journal.
func (r *run) recordInPlace(missing []Question, responses protocol.InputResponses) (heard bool, dropped []Dropped) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false, nil
	}
	for i, q := range missing {
		outcome, content, err := interpret(q.request.Kind(), responses[i].Result)
		if err != nil {
			dropped = append(dropped, Dropped{q.key, DropMalformed})
			continue
		}
		a := &answer{
			key: q.key, kind: q.request.Kind(), outcome: outcome, digest: q.formDigest(), mark: q.mark,
			content: append(json.RawMessage(nil), content...), round: r.number,
		}
		_, a.mark.invalid = r.faultOfLocked(q.key)
		heard = true
		r.recordAnswerLocked(a)
	}
	r.dropped = append(r.dropped, dropped...)
	return heard, dropped
}

// reportInPlace tells the observer what was just recorded. An answer that is
// not announced yet is one of those.
func (r *run) reportInPlace(ctx context.Context, p *questioner, questions []Question, waited time.Duration) {
	for i := range questions {
		r.mu.Lock()
		a := r.findAnswerLocked(questions[i].key)
		due := a != nil && a.round == r.number && !a.announced && !a.unsolicited
		if due {
			a.announced = true
		}
		r.mu.Unlock()
		if due {
			p.reportAnswered(ctx, &pendingQuestion{key: a.key, kind: a.kind, digest: a.digest, mark: a.mark}, a.outcome, waited)
		}
	}
}
