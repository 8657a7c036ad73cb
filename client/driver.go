package client

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// drive takes a call through its rounds until the server has a result:
//
//	   ┌────────────── retry: the original, this round's answers, ◀──┐
//	   ▼               the exact state, a new id                     │
//	send ──▶ input required? ──▶ within the cap? ──▶ questions ──▶ fulfil
//	   │ no                         │ no               │ none
//	   ▼                            ▼                  ▼
//	result               RoundsExceededError         pause, then retry
//
// The cap is checked before anybody is asked (basic/patterns/mrtr).
func (c *Client) driveCall(ctx context.Context, original leg) (protocol.Result, error) {
	ctx, done := c.beginCall(ctx)
	defer done()
	entry := c.cache.slotFor(ctx, c.version, original)
	if result := entry.loadFresh(ctx); result != nil {
		return result, nil
	}
	f := c.newCall(original)
	for {
		result, asked, err := c.advanceCall(ctx, f)
		if err != nil {
			return nil, err
		}
		if asked == nil {
			if f.retry == nil {
				entry.storeResult(result)
			}
			return result, nil
		}
		origin := Origin{Method: original.method, Target: original.target, Round: f.round}
		answers, err := c.questions.answerQuestions(ctx, origin, asked.InputRequests)
		if err != nil {
			return nil, preferClosed(ctx, err)
		}
		f.recordAnswers(answers, asked.RequestState)
	}
}

// A flow is a call on its way through its rounds.
type call struct {
	original leg
	retry    *protocol.Retry // nil: the original goes out as it is
	round    int             // of the next questions, from 1
	budget   budget
}

func (c *Client) newCall(original leg) *call {
	return &call{original: original, round: 1, budget: budget{isLimited: c.opts.Timeout > 0, remaining: c.opts.Timeout}}
}

// answer ends a round: the retry carries the answers to its questions and its
// state, nothing of earlier rounds.
func (f *call) recordAnswers(answers protocol.InputResponses, state protocol.RequestState) {
	f.retry = &protocol.Retry{InputResponses: answers, RequestState: state}
	f.round++
}

// advance takes a call to its result or to the next questions. A server that
// asks nothing and only wants to be called again is.
func (c *Client) advanceCall(ctx context.Context, f *call) (protocol.Result, *protocol.InputRequiredResult, error) {
	for idle := 0; ; idle++ {
		l := f.original
		l.params = copyParams(f.original.params)
		if f.retry != nil {
			setRetry(l.params, *f.retry)
		}
		result, err := c.sendWithBusyRetry(ctx, f, l)
		if err != nil {
			return nil, nil, err
		}
		asked, more := result.(*protocol.InputRequiredResult)
		switch {
		case !more:
			return result, nil, nil
		case f.round > c.opts.MaxRounds:
			return nil, nil, &RoundsExceededError{Rounds: f.round - 1, Last: asked}
		case len(asked.InputRequests) > 0:
			return nil, asked, nil
		}
		err = f.budget.runLimited(ctx, c, l.method, func(ctx context.Context) error {
			return sleepContext(ctx, c.retryDelay(idle))
		})
		if err != nil {
			return nil, nil, err
		}
		f.recordAnswers(nil, asked.RequestState)
	}
}

// pause returns how long to wait before the next request after idle rounds
// without a question: a random time between half of a bound and the bound,
// which doubles up to MaxPause.
func (c *Client) retryDelay(idle int) time.Duration {
	bound := c.opts.MinPause
	for range idle + 1 {
		if bound *= 2; bound <= 0 || bound >= c.opts.MaxPause {
			bound = c.opts.MaxPause
			break
		}
	}
	low := max(bound/2, c.opts.MinPause)
	return low + rand.N(bound-low+1)
}

// sleep waits for d or until ctx ends.
func sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// copyParams returns a copy of the parameters of a request, so that neither
// the caller's value nor the original of a retry is ever changed.
func copyParams(p protocol.Params) protocol.Params {
	switch p := p.(type) {
	case *protocol.CallToolParams:
		return shallowCopy(p)
	case *protocol.GetPromptParams:
		return shallowCopy(p)
	case *protocol.ReadResourceParams:
		return shallowCopy(p)
	case *protocol.ListParams:
		return shallowCopy(p)
	case *protocol.DiscoverParams:
		return shallowCopy(p)
	case *protocol.CompleteParams:
		return shallowCopy(p)
	}
	// Only the methods of this package make legs.
	panic("client: internal error: parameters of unknown type")
}

func shallowCopy[T any](p *T) *T {
	c := *p
	return &c
}

// setRetry puts a round's answers and state in the place of whatever p has.
func setRetry(p protocol.Params, retry protocol.Retry) {
	switch p := p.(type) {
	case *protocol.CallToolParams:
		p.Retry = retry
	case *protocol.GetPromptParams:
		p.Retry = retry
	case *protocol.ReadResourceParams:
		p.Retry = retry
	}
}
