package natsguard

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Errors of the server that say: not now.
const (
	clusterNotAvailable jetstream.ErrorCode = 10008
	clusterNoLeader     jetstream.ErrorCode = 10009
)

// conflict says that the key does not have the revision that was expected.
func conflict(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// errBehind says that a reader has not seen yet what the leader has decided, or
// that a key has gone in between.
var errBehind = errors.New("the bucket is behind its leader")

// transient says that trying again may help: nobody leads the stream just now,
// or a message got lost.
func transient(err error) bool {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.ErrorCode == clusterNotAvailable || e.ErrorCode == clusterNoLeader
	}
	return errors.Is(err, errBehind) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// pause is how long to wait before trying again what may work in a moment.
const pause = 20 * time.Millisecond

// swap stores value as the successor of the revision given, 0 for a key that
// is not there, and tries until ctx ends. Where the key is another's already
// it returns that as found. Value must be unlike any other, so that an attempt
// whose acknowledgement got lost is recognised as one's own.
func (b *bucket) swap(ctx context.Context, key string, value []byte, revision uint64, until time.Time) (stored uint64, found *item, err error) {
	create := revision == 0
	for {
		if err := b.connected(ctx); err != nil {
			return 0, nil, err
		}
		stored, err := b.put(ctx, key, value, revision, until)
		if err == nil {
			return stored, nil, nil
		}
		if conflict(err) {
			found, read := b.get(ctx, key)
			switch {
			case read != nil:
				err = read
			case found == nil && create:
				revision, err = 0, errBehind
			case found == nil:
				return 0, &item{gone: true}, nil
			case found.revision <= revision:
				err = errBehind
			case string(found.value) == string(value) && !found.gone:
				return found.revision, nil, nil
			case create && found.gone:
				revision = found.revision
				continue
			default:
				return 0, found, nil
			}
		}
		if !transient(err) {
			return 0, nil, err
		}
		if wait(ctx, pause) != nil {
			return 0, nil, err
		}
	}
}

// fetch is get that tries until ctx ends.
func (b *bucket) fetch(ctx context.Context, key string) (*item, error) {
	for {
		if err := b.connected(ctx); err != nil {
			return nil, err
		}
		found, err := b.get(ctx, key)
		if err == nil || !transient(err) || wait(ctx, pause) != nil {
			return found, err
		}
	}
}

// mark writes something, for the sake of what is read after it, and tries until
// ctx ends.
func (b *bucket) mark(ctx context.Context) error {
	for {
		err := b.connected(ctx)
		if err == nil {
			_, err = b.send(ctx, "mark", nil, time.Now())
		}
		if err == nil || !transient(err) || wait(ctx, pause) != nil {
			return err
		}
	}
}

// connected waits until there is a connection. Without it nats.go would keep
// the message and send it when everybody has forgotten about it.
func (b *bucket) connected(ctx context.Context) error {
	const poll = 10 * time.Millisecond
	for {
		nc := b.js.Conn()
		if nc.IsConnected() {
			return nil
		}
		if nc.IsClosed() {
			return nats.ErrConnectionClosed
		}
		if wait(ctx, poll) != nil {
			return nats.ErrDisconnected
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
