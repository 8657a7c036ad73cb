package natskv

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Put makes one attempt at storing a value for at least ttl, whatever the key
// had, and returns its revision.
func (b *Bucket) Put(
	ctx context.Context, key string, value []byte, ttl time.Duration,
) (revision uint64, err error) {
	return b.publish(ctx, key, value, ttl)
}

// PutAfter makes one attempt at storing a value for at least ttl if the key has
// the revision previous, 0 for a key that is not there. If it has another, the
// error matches [IsConflict].
//
// An attempt that was stored can fail all the same, when its acknowledgement is
// lost; a repeated attempt then ends in a conflict with the value itself. Callers
// recognize their own by random bytes in it.
func (b *Bucket) PutAfter(
	ctx context.Context, key string, value []byte, previous uint64, ttl time.Duration,
) (revision uint64, err error) {
	condition := jetstream.WithExpectLastSequencePerSubject(previous)
	return b.publish(ctx, key, value, ttl, condition)
}

func (b *Bucket) publish(
	ctx context.Context, key string, value []byte, ttl time.Duration, opts ...jetstream.PublishOpt,
) (uint64, error) {
	opts = append(opts, jetstream.WithExpectStream(b.config.Name))
	if b.config.AllowMsgTTL {
		opts = append(opts, jetstream.WithMsgTTL(roundTTL(ttl)))
	}
	ctx, cancel := context.WithTimeout(ctx, b.AttemptTimeout())
	defer cancel()
	m := &nats.Msg{Subject: b.publishSubject + key, Header: nats.Header{}, Data: value}
	ack, err := b.js.PublishMsg(ctx, m, opts...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// maxTTL stands for all longer times to live. Servers add a time to live to the Unix time in
// nanoseconds, which overflows after 2262: the key would be gone at once.
const maxTTL = 100 * 365 * 24 * time.Hour

// roundTTL rounds up to the whole seconds in which servers count.
func roundTTL(ttl time.Duration) time.Duration {
	return max((min(ttl, maxTTL) + time.Second - 1).Truncate(time.Second), time.Second)
}

// Remove makes one attempt at removing a key if it has the revision given, 0 for
// any. If it has another, the error matches [IsConflict]. Only ctx bounds the
// attempt.
func (b *Bucket) Remove(ctx context.Context, key string, revision uint64) error {
	m := &nats.Msg{Subject: b.publishSubject + key, Header: nats.Header{}}
	m.Header.Set(headerOperation, "PURGE")
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	opts := []jetstream.PublishOpt{jetstream.WithExpectStream(b.config.Name)}
	if revision != 0 {
		opts = append(opts, jetstream.WithExpectLastSequencePerSubject(revision))
	}
	if b.config.AllowMsgTTL {
		opts = append(opts, jetstream.WithMsgTTL(MarkerTTL))
	}
	_, err := b.js.PublishMsg(ctx, m, opts...)
	return err
}
