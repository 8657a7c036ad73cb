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
func (c *Client) drive(ctx context.Context, original leg) (protocol.Result, error) {
	ctx, done := c.begin(ctx)
	defer done()
	server := &budget{limited: c.opts.Timeout > 0, left: c.opts.Timeout}
	retry, retried := protocol.Retry{}, false
	idle := 0 // rounds in a row in which the server asked nothing
	for round := 1; ; round++ {
		l := original
		l.params = copyParams(original.params)
		if retried {
			setRetry(l.params, retry)
		}
		var result protocol.Result
		err := server.spend(ctx, c, l.method, func(ctx context.Context) (err error) {
			result, err = c.sendMirrored(ctx, l)
			return err
		})
		if err != nil {
			return nil, err
		}
		asked, more := result.(*protocol.InputRequiredResult)
		if !more {
			return result, nil
		}
		if round > c.opts.MaxRounds {
			return nil, &RoundsExceededError{Rounds: round - 1, Last: asked}
		}
		if retry, err = c.answer(ctx, l, round, idle, server, asked); err != nil {
			return nil, endedBy(ctx, err)
		}
		if idle++; len(asked.InputRequests) > 0 {
			idle = 0
		}
		retried = true
	}
}

// answer does what one round requires and returns what the retry carries: the
// answers to this round's questions and its state, nothing of earlier rounds.
func (c *Client) answer(ctx context.Context, l leg, round, idle int, server *budget, asked *protocol.InputRequiredResult) (protocol.Retry, error) {
	retry := protocol.Retry{RequestState: asked.RequestState}
	if len(asked.InputRequests) == 0 {
		err := server.spend(ctx, c, l.method, func(ctx context.Context) error {
			return sleep(ctx, c.pause(idle))
		})
		return retry, err
	}
	var err error
	retry.InputResponses, err = c.fulfil(ctx, Origin{Method: l.method, Target: l.target, Round: round}, asked.InputRequests)
	return retry, err
}

// pause returns how long to wait before the next request after idle rounds
// without a question: a random time between half of a bound and the bound,
// which doubles up to MaxPause.
func (c *Client) pause(idle int) time.Duration {
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
func sleep(ctx context.Context, d time.Duration) error {
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
		return clone(p)
	case *protocol.GetPromptParams:
		return clone(p)
	case *protocol.ReadResourceParams:
		return clone(p)
	case *protocol.ListParams:
		return clone(p)
	case *protocol.DiscoverParams:
		return clone(p)
	case *protocol.CompleteParams:
		return clone(p)
	}
	// Only the methods of this package make legs.
	panic("client: internal error: parameters of unknown type")
}

func clone[T any](p *T) *T {
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
