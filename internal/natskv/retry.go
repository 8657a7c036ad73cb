package natskv

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rondo-mcp/rondo/internal/sleep"
)

// RetryInterval is how long to wait between two attempts.
const RetryInterval = 20 * time.Millisecond

// AttemptTimeout is how long to wait for one answer. It is shorter than the
// timeout of the bucket, so that one lost message does not use up all of it.
func (b *Bucket) AttemptTimeout() time.Duration { return min(b.timeout/3, 2*time.Second) }

// Retry calls attempt, when there is a connection, until it succeeds, fails with
// an error that is not transient, or ctx ends. It returns the error of the last
// attempt.
func (b *Bucket) Retry(ctx context.Context, attempt func() error) error {
	for {
		err := b.WaitConnected(ctx)
		if err == nil {
			err = attempt()
		}
		if err == nil || !IsTransient(err) || sleep.For(ctx, RetryInterval) != nil {
			return err
		}
	}
}

// WaitConnected waits until the connection stands. Without one nats.go would
// keep a message and send it after reconnecting, when its sender has long given
// up.
func (b *Bucket) WaitConnected(ctx context.Context) error {
	const poll = 10 * time.Millisecond // nats.go has no event for it that can be shared
	for nc := b.js.Conn(); !nc.IsConnected(); {
		if nc.IsClosed() {
			return nats.ErrConnectionClosed
		}
		if sleep.For(ctx, poll) != nil {
			return nats.ErrDisconnected
		}
	}
	return nil
}
