package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A call is one operation of the caller, with all its rounds.
type call struct {
	original leg             // the request of the first leg
	retry    *protocol.Retry // answers and state for the next leg; nil for the first
	round    int             // number of the next questions' round, from 1
	budget   budget          // the time that the server may still use
}

// A budget is the time that the server may still spend on a call.
type budget struct {
	isLimited bool
	remaining time.Duration
}

// runLimited runs f with a context that ends when the budget is used up, and subtracts the time
// that f took. If the budget, not ctx, ended f, the error is a [context.DeadlineExceeded].
func (b *budget) runLimited(ctx context.Context, c *Client, method string,
	f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if !b.isLimited {
		return preferClosed(ctx, f(ctx))
	}
	// The time in which a legacy server waits for a user, or a transport for a login, does not
	// count. The client has one clock: an open question of any call stops the time of all calls.
	limited := c.humanClock.WithTimeout(ctx, b.remaining)
	defer limited.Release()
	err := f(limited)
	b.remaining -= limited.Used()
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return timeoutError(method, c.opts.Timeout)
	}
	return preferClosed(ctx, err)
}

func (c *Client) newCall(original leg) *call {
	limit := c.opts.Timeout
	return &call{original: original, round: 1, budget: budget{limit > 0, limit}}
}

// driveCall takes a call through its rounds until the server has a result:
//
//	   ┌────────── retry: the original, the answers of this round, ◀─┐
//	   ▼           the exact state, a new id                         │
//	send ──▶ input required? ──▶ within the limit? ──▶ questions ──▶ answer
//	   │ no                         │ no                  │ none
//	   ▼                            ▼                     ▼
//	result                      error                   wait, then retry
//
// The limit on rounds is checked before a handler is called (basic/patterns/mrtr).
func (c *Client) driveCall(ctx context.Context, original leg) (protocol.Result, error) {
	k := c.newCall(original)
	for {
		result, asked, err := c.advanceCall(ctx, k)
		if err != nil || asked == nil {
			return result, err
		}
		origin := QuestionOrigin{Method: original.method, Target: original.target, Round: k.round}
		answers, err := c.questions.answerQuestions(ctx, origin, asked.InputRequests)
		if err != nil {
			return nil, err
		}
		k.recordAnswers(answers, asked.RequestState)
	}
}

// advanceCall sends legs until a result or questions. After state without questions it pauses.
func (c *Client) advanceCall(ctx context.Context,
	k *call) (protocol.Result, *protocol.InputRequiredResult, error) {
	for idle := 0; ; idle++ {
		l := k.original
		l.params = copyParams(k.original.params)
		if k.retry != nil {
			*protocol.RetryOf(l.params) = *k.retry
		}
		result, err := c.sendWithBusyRetry(ctx, k, l)
		if err != nil {
			return nil, nil, err
		}
		asked, more := result.(*protocol.InputRequiredResult)
		switch {
		case !more:
			return result, nil, nil
		case k.round > c.opts.MaxRounds:
			return nil, nil, roundsExceeded(k.round - 1)
		case len(asked.InputRequests) > 0:
			return nil, asked, nil
		}
		err = k.budget.runLimited(ctx, c, l.method, func(ctx context.Context) error {
			return waiting.Sleep(ctx, retryDelay(idle))
		})
		if err != nil {
			return nil, nil, err
		}
		k.recordAnswers(nil, asked.RequestState)
	}
}

func (k *call) recordAnswers(answers protocol.InputResponses, state protocol.RequestState) {
	k.retry = &protocol.Retry{InputResponses: answers, RequestState: state}
	k.round++
}

// retryDelay returns the wait after idle consecutive rounds without questions: a random time
// between half a bound and the bound, which doubles up to maxPause.
func retryDelay(idle int) time.Duration {
	bound := min(minPause<<min(idle+1, 10), maxPause)
	low := bound / 2
	return low + rand.N(bound-low+1)
}

const (
	// minPause and maxPause bound the wait after state without questions. Users do not notice it,
	// but it sheds load.
	minPause       = 50 * time.Millisecond
	maxPause       = 250 * time.Millisecond
	maxBusyRetries = 3                // more would add to the overload
	maxRetryAfter  = 30 * time.Second // if a busy server asks for a longer wait, the call fails
)

// sendWithBusyRetry sends one leg. While the server is busy and says when to retry
// ([protocol.CodeBusy] with retryAfterMs), it retries, within the call's deadline. It assumes that
// a refused request had no effect. If the server refuses only when a handler is about to ask its
// first question, the retry repeats the handler's earlier work.
func (c *Client) sendWithBusyRetry(ctx context.Context, k *call,
	l leg) (result protocol.Result, err error) {
	for retries := 0; ; retries++ {
		err = k.budget.runLimited(ctx, c, l.method, func(ctx context.Context) (err error) {
			result, err = c.sendWithMirroredParams(ctx, l)
			return err
		})
		after, busy := retryAfter(err)
		if !busy || c.opts.NoBusyRetry || retries == maxBusyRetries || !k.hasTimeFor(ctx, after) {
			return result, err
		}
		// Jitter spreads the retries of callers that were refused together.
		wait := after + rand.N(after/4+1)
		if !k.hasTimeFor(ctx, wait) {
			wait = after
		}
		err = k.budget.runLimited(ctx, c, l.method, func(ctx context.Context) error {
			return waiting.Sleep(ctx, wait)
		})
		if err != nil {
			return nil, err
		}
	}
}

func (k *call) hasTimeFor(ctx context.Context, wait time.Duration) bool {
	deadline, limited := ctx.Deadline()
	if limited && time.Until(deadline) <= wait {
		return false
	}
	return !k.budget.isLimited || k.budget.remaining > wait
}

// retryAfter returns the wait that a busy server asks for, and whether maxRetryAfter allows it.
func retryAfter(err error) (after time.Duration, ok bool) {
	if _, ours := errors.AsType[*AnswerError](err); ours {
		return 0, false // a handler's error, not the server's
	}
	said, isError := protocol.AsError(err)
	if !isError || said.Code != protocol.CodeBusy || said.Data == nil ||
		jsonx.Check(said.Data) != nil {
		return 0, false
	}
	var data struct {
		RetryAfterMs int64 `json:"retryAfterMs"`
	}
	if jsonx.Decode(said.Data, &data) != nil || data.RetryAfterMs <= 0 ||
		data.RetryAfterMs > maxRetryAfter.Milliseconds() {
		return 0, false
	}
	return time.Duration(data.RetryAfterMs) * time.Millisecond, true
}

// copyParams returns a shallow copy: the caller's value and a retry's original must not change.
func copyParams(p protocol.Params) protocol.Params {
	original := reflect.ValueOf(p).Elem()
	copied := reflect.New(original.Type())
	copied.Elem().Set(original)
	return copied.Interface().(protocol.Params)
}
