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
	create, look := revision == 0, b.get
	if !create {
		look = b.find // a deposed leader may refuse the successor of what it has not seen
	}
	for {
		if err := b.connected(ctx); err != nil {
			return 0, nil, err
		}
		stored, err := b.put(ctx, key, value, revision, until)
		if err == nil {
			return stored, nil, nil
		}
		if conflict(err) {
			found, read := look(ctx, key)
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

// find reads a key until ctx ends, and says that it is gone only when that is
// certain: a server that does not know yet that it leads no more, or that has
// just begun to, may not have seen what is there, and goes on answering for as
// long as a second. Who acknowledges a write has seen everything, so what is
// gone for a server that has seen that write, too, is gone.
func (b *bucket) find(ctx context.Context, key string) (found *item, err error) {
	err = b.keep(ctx, func() (err error) {
		found, err = b.get(ctx, key)
		return err
	})
	if err != nil || found != nil && !found.gone {
		return found, err
	}
	var mark uint64
	err = b.keep(ctx, func() (err error) {
		mark, err = b.send(ctx, "mark", nil, time.Now())
		return err
	})
	if err != nil {
		return nil, err
	}
	err = b.keep(ctx, func() (err error) {
		found, err = b.getSince(ctx, key, mark)
		return err
	})
	return found, err
}

// keep tries f until it succeeds, ctx ends, or it fails for a reason that will
// not go away.
func (b *bucket) keep(ctx context.Context, f func() error) error {
	for {
		err := b.connected(ctx)
		if err == nil {
			err = f()
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
