package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// MaxBusyRetries is how often one request is sent again to a server that is
	// busy: a server that is still full after that will not be less full for one
	// more.
	MaxBusyRetries = 3
	// MaxRetryAfter is the longest wait that a busy server may ask for. Servers
	// ask for seconds; one that asks for more would park the caller, who is told
	// at once instead.
	MaxRetryAfter = 30 * time.Second
)

// sendPatiently sends one leg, and again while the server says that it is busy
// and when to come back ([protocol.CodeBusy] with retryAfterMs): such a request
// was refused before anything was done. It does not wait longer than the call
// may still take, since the answer would come too late to be used.
func (c *Client) sendWithBusyRetry(ctx context.Context, f *call, l leg) (result protocol.Result, err error) {
	for retries := 0; ; retries++ {
		err = f.budget.runLimited(ctx, c, l.method, func(ctx context.Context) (err error) {
			result, err = c.sendWithMirroredParams(ctx, l)
			return err
		})
		after, busy := retryAfter(err)
		if !busy || c.opts.NoBusyRetry || retries == MaxBusyRetries || !f.hasTimeFor(ctx, after) {
			return result, err
		}
		// The random part keeps callers that were refused together from coming
		// back together.
		wait := after + rand.N(after/4+1)
		if !f.hasTimeFor(ctx, wait) {
			wait = after
		}
		if stopped := f.budget.runLimited(ctx, c, l.method, func(ctx context.Context) error { return sleepContext(ctx, wait) }); stopped != nil {
			return nil, stopped
		}
	}
}

// canWait reports whether there is time left of a call after a wait.
func (f *call) hasTimeFor(ctx context.Context, wait time.Duration) bool {
	deadline, limited := ctx.Deadline()
	return (!limited || time.Until(deadline) > wait) && (!f.budget.isLimited || f.budget.remaining > wait)
}

// retryAfter returns when a busy server wants to be asked again. It reports
// false when err is no such answer, does not say when, or asks for more than
// [MaxRetryAfter].
func retryAfter(err error) (after time.Duration, ok bool) {
	if _, ours := errors.AsType[*AnswerError](err); ours {
		return 0, false // a handler of this side was busy
	}
	said, isError := protocol.AsError(err)
	if !isError || said.Code != protocol.CodeBusy || said.Data == nil || jsonx.Check(said.Data) != nil {
		return 0, false
	}
	var data struct {
		RetryAfterMs int64 `json:"retryAfterMs"`
	}
	if jsonx.Decode(said.Data, &data) != nil || data.RetryAfterMs <= 0 || data.RetryAfterMs > MaxRetryAfter.Milliseconds() {
		return 0, false
	}
	return time.Duration(data.RetryAfterMs) * time.Millisecond, true
}
