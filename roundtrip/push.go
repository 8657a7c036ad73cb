package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const defaultHumanTimeout = 10 * time.Minute

// statePause separates rounds of a session that ask nothing; in modern revisions the network does.
const statePause = 250 * time.Millisecond

// pushReturned pushes the handler's questions to the client of a legacy revision, waits for the
// answers, and opens the next run with them, or returns the response if there is none.
//
// Preparation and failures are in functions not inlined: stacks of waiting calls stay small.
func (r responder) pushReturned(
	ctx context.Context, asks *protocol.InputRequiredResult,
) (next *run, refused protocol.Result, err error) {
	if int(r.runs) > r.funnel.opts.Limits.Rounds { // also limits a flow that restarts
		refused, err = r.refuseRounds(ctx, asks)
		return nil, refused, err
	}
	asked := r.wait.requested
	r.wait.requested = nil // not kept while the call waits
	pushed, err := r.pushAll(ctx, asks.InputRequests, asked)
	if err == nil && len(asks.InputRequests) == 0 {
		err = waiting.Sleep(ctx, statePause)
	}
	if err != nil && r.goesElsewhere(ctx, asks, err) {
		pushed, err = &pushedAnswers{}, nil // like a form that was not shown
	}
	if err != nil {
		refused, err = r.refuseUnasked(ctx, asks, err)
		return nil, refused, err
	}
	next, err = r.openLocalState(ctx, r.wait.localState, pushed, asks.RequestState)
	return next, nil, err
}

func (r responder) refuseRounds(
	ctx context.Context, asks *protocol.InputRequiredResult,
) (protocol.Result, error) {
	r.reportFlowEnd(ctx, words.EndRounds)
	text := gaveUp(r.funnel.opts.Limits.Rounds, requestKeys(asks.InputRequests), "", "")
	return r.refuseFlow(protocol.CodeFlowEnded, text)
}

// refuseUnasked ends a call whose questions failed. It is not inlined, to save waiting calls stack.
//
//go:noinline
func (r responder) refuseUnasked(ctx context.Context, asks *protocol.InputRequiredResult,
	err error) (protocol.Result, error) {
	failed := event.PushFailed{Where: r.where, Err: err}
	if len(asks.InputRequests) > 0 {
		failed.Kind = asks.InputRequests[0].Request.Kind()
	}
	r.observe(ctx, failed)
	r.reportFlowEnd(ctx, words.EndFailed)
	return r.answerRefusal(ctx, cannotAsk(err))
}

type pushedAnswers struct {
	responses protocol.InputResponses
	took      []pushTime

	room struct { // usually for one answer
		response [1]protocol.KeyedResponse
		took     [1]pushTime
	}
}

type pushTime struct {
	written time.Time // when the question was sent
	waited  time.Duration
}

// pushAll pushes all questions at once and returns when all are answered, or one has failed. It
// reports asked, if not nil, once the call has room to wait.
func (p *questioner) pushAll(
	ctx context.Context, requests protocol.InputRequests, asked event.Event,
) (*pushedAnswers, error) {
	pushed := &pushedAnswers{responses: protocol.InputResponses{}}
	if len(requests) == 0 {
		p.observeIfAny(ctx, asked)
		return pushed, nil
	}
	w, err := p.beginWaiting(ctx)
	if err != nil {
		return nil, err
	}
	defer w.endWaiting()
	p.observeIfAny(ctx, asked)
	if len(requests) > 1 {
		return pushed, w.awaitResume(&w.Context, p.pushSeveral(&w.Context, requests, pushed))
	}
	answer, err := p.pushQuestion(&w.Context, requests[0], &pushed.room.took[0])
	err = w.awaitResume(&w.Context, err)
	return pushed, pushed.addOne(&w.Context, requests[0].Key, answer, err)
}

// addOne adds the answer to ctx's only question; not inlined, for the stacks of waiting calls.
//
//go:noinline
func (a *pushedAnswers) addOne(ctx context.Context, key string, answer json.RawMessage,
	err error) error {
	if cause := context.Cause(ctx); cause != nil && cause != errHumanTimeout &&
		!errors.Is(err, waiting.ErrClosing) {
		return cause
	}
	if err != nil {
		return fmt.Errorf("question %q: %w", key, err)
	}
	a.room.response[0] = protocol.KeyedResponse{Key: key, Result: answer}
	a.responses, a.took = a.room.response[:], a.room.took[:]
	return nil
}

// pushSeveral pushes each question on its own goroutine. A failure cancels ctx and the others.
func (p *questioner) pushSeveral(ctx *waiting.Context,
	requests protocol.InputRequests, pushed *pushedAnswers) error {
	pushed.responses = make(protocol.InputResponses, len(requests))
	pushed.took = make([]pushTime, len(requests))
	var pushes sync.WaitGroup
	for i, q := range requests {
		pushes.Go(func() {
			one := &waiting.Context{}
			one.Init(ctx)
			defer one.Cancel(nil)
			answer, err := p.pushQuestion(one, q, &pushed.took[i])
			if err != nil {
				ctx.Cancel(fmt.Errorf("question %q: %w", q.Key, err))
				return
			}
			pushed.responses[i] = protocol.KeyedResponse{Key: q.Key, Result: answer}
		})
	}
	pushes.Wait()
	return context.Cause(ctx)
}

var errHumanTimeout = errors.New("nobody answered in time")

// pushQuestion pushes one question and waits for the answer. ctx is the question's own, cancelled
// by its timer. Progress restarts the timer, at most until the flow ends. It sets took.
func (p *questioner) pushQuestion(ctx *waiting.Context,
	question protocol.KeyedRequest, took *pushTime) (answer json.RawMessage, err error) {
	timer := time.AfterFunc(p.questionTimeout(), func() { ctx.Cancel(errHumanTimeout) })
	defer timer.Stop()
	extend := func() { timer.Reset(p.questionTimeout()) }
	took.written = time.Now()
	written := func() { took.written = time.Now() }
	if watched := waiting.PushOf(ctx); watched != nil {
		key := question.Key
		written = func() { took.written = time.Now(); watched.Written(key) }
		if watched.Extended != nil {
			timer.Stop()
			extend = watched.Extended
		}
	}
	if p.funnel.opts.Tracer != nil {
		answer, err = p.pushTraced(ctx, question.Request, extend, written)
	} else {
		answer, err = p.call.Push.Push(ctx, question.Request, extend, written)
	}
	took.waited = time.Since(took.written)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
		if errors.Is(err, waiting.ErrClosing) {
			err = waiting.ErrClosing // with a text for the caller
		}
		return nil, err
	}
	return answer, err
}

// questionTimeout returns HumanTimeout, or the time until the flow ends if shorter.
func (p *questioner) questionTimeout() time.Duration {
	limit := p.funnel.opts.HumanTimeout
	if p.wait == nil || p.wait.until.IsZero() {
		return limit
	}
	return min(limit, time.Until(p.wait.until))
}

// cannotAsk returns the refusal for an unanswered question. Only the client's own error is repeated
// to it; other errors may reveal details of the server.
func cannotAsk(err error) *refusal {
	if errors.Is(err, waiting.ErrClosing) {
		return &refusal{text: waiting.ErrClosing.Error(), wire: waiting.RefuseClosing()}
	}
	if busy, ok := errors.AsType[*waitRefusedError](err); ok {
		return &refusal{wire: busy.wire, always: true}
	}
	if bad, ok := errors.AsType[*urlrule.Refusal](err); ok {
		return &refusal{wire: bad.Wire(), always: true} // the server's mistake
	}
	if cannot, ok := errors.AsType[*PushError](err); ok && cannot.client != "" {
		return &refusal{code: protocol.CodeCannotAsk, text: cannot.client}
	}
	text := "the client could not be asked; start the call again when it can be"
	if e, ok := protocol.AsError(err); ok {
		text = "the client could not answer: " + e.Message + "; start the call again when it can"
	} else if errors.Is(err, errHumanTimeout) {
		text = errHumanTimeout.Error() + "; start the call again when somebody can answer"
	}
	return &refusal{code: protocol.CodeFlowEnded, text: text}
}
