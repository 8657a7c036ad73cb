package natsguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// markerTTL is how long the server keeps the marker of a key that is gone; it
// takes no shorter time.
const markerTTL = time.Second

// bucket is a key-value bucket that remembers what it is told for as long as
// it was told to.
//
// It publishes to the stream behind the bucket itself, because the time to
// live of a key must be given with every revision: an update of the
// key-value interface has none and would keep the key for ever.
type bucket struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	config  jetstream.StreamConfig
	subject string // of a key, without it
	publish string // the same, with the prefix of a JetStream domain
	read    string // where the leader of the stream answers
	timeout time.Duration
}

// openBucket opens the bucket, or creates it if it is not there, and checks
// its settings. It tries until Options.Timeout has passed: a replica may be
// started while the cluster elects a leader.
func openBucket(ctx context.Context, js jetstream.JetStream, opts Options) (*bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	b := &bucket{js: js, timeout: opts.Timeout}
	if err := b.keep(ctx, func() error { return b.open(ctx, opts) }); err != nil {
		return nil, fmt.Errorf("bucket %q: %w", opts.Bucket, err)
	}
	b.subject = "$KV." + opts.Bucket + "."
	prefix := foreignPrefix(js.Options())
	b.publish = prefix + b.subject
	b.read = cmp.Or(prefix, jetstream.DefaultAPIPrefix) + "STREAM.MSG.GET." + b.config.Name
	return b, nil
}

// open makes one attempt.
func (b *bucket) open(ctx context.Context, opts Options) (err error) {
	b.stream, err = b.js.Stream(ctx, "KV_"+opts.Bucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		b.stream, err = createBucket(ctx, b.js, opts)
	}
	if err != nil {
		return err
	}
	b.config = b.stream.CachedInfo().Config
	return checkBucket(b.config, opts.Longest)
}

func createBucket(ctx context.Context, js jetstream.JetStream, opts Options) (jetstream.Stream, error) {
	replicas := opts.Replicas
	if replicas <= 0 {
		replicas = 1
		if js.Conn().ConnectedClusterName() != "" {
			replicas = 3
		}
	}
	config := jetstream.KeyValueConfig{
		Bucket:         opts.Bucket,
		Description:    "rondo: what must not happen twice",
		History:        1,
		MaxBytes:       opts.MaxBytes,
		Storage:        jetstream.FileStorage,
		Replicas:       replicas,
		LimitMarkerTTL: markerTTL,
	}
	_, err := js.CreateKeyValue(ctx, config)
	if errors.Is(err, jetstream.ErrLimitMarkerTTLNotSupported) {
		config.LimitMarkerTTL, config.TTL = 0, opts.Longest
		_, err = js.CreateKeyValue(ctx, config)
	}
	// Another replica may have been faster; what it made is checked like any.
	if err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
		return nil, err
	}
	return js.Stream(ctx, "KV_"+opts.Bucket)
}

// checkBucket refuses settings under which a key could be gone before its
// time, or could be kept for ever.
func checkBucket(c jetstream.StreamConfig, longest time.Duration) error {
	switch {
	case c.Discard != jetstream.DiscardNew:
		return errors.New("its discard policy drops old entries when it is full; it must be new")
	case c.DiscardNewPerSubject:
		return errors.New("discard_new_per_subject refuses outcomes")
	case c.MaxMsgsPerSubject != 1:
		return fmt.Errorf("its history is %d, it must be 1", c.MaxMsgsPerSubject)
	case c.MaxAge > 0 && c.MaxAge < longest:
		return fmt.Errorf("it forgets after %v, entries may have to be kept for %v", c.MaxAge, longest)
	case c.MaxAge <= 0 && !c.AllowMsgTTL:
		return errors.New("it has neither a max age nor a time to live for each key, so it would grow for ever")
	case c.Retention != jetstream.LimitsPolicy:
		return errors.New("its retention policy drops entries that were read; it must be limits")
	case c.Storage != jetstream.FileStorage:
		return errors.New("it is kept in memory, and a restart forgets it; its storage must be file")
	case c.PersistMode != jetstream.DefaultPersistMode:
		return errors.New("it acknowledges entries before they are stored")
	case c.NoAck:
		return errors.New("it does not acknowledge entries")
	case c.Mirror != nil || len(c.Sources) > 0 || c.SubjectTransform != nil:
		return errors.New("it copies or renames entries, so that a claim is not decided in one place")
	}
	return nil
}

// foreignPrefix is what the key-value interface puts before the subject of a
// key where JetStream is in another domain.
func foreignPrefix(o jetstream.JetStreamOptions) string {
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "" && strings.TrimSuffix(o.APIPrefix, ".") != "$JS.API":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return ""
}

// bound limits an operation in time. The caller's cancellation does not reach
// it: an operation that is abandoned half way has an outcome nobody knows.
func (b *bucket) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), b.timeout)
}

// ttlOf is the time to live of a key that must be there until the time given,
// by the server's clock, which counts from when it stores the key.
func ttlOf(until time.Time) time.Duration {
	left := time.Until(until)
	return max(left.Truncate(time.Second)+time.Second, time.Second)
}

// room is how long a value may be.
func (b *bucket) room() int {
	// Subject and headers count, too.
	const envelope = 1 << 10
	limit := b.js.Conn().MaxPayload()
	if size := int64(b.config.MaxMsgSize); size > 0 {
		limit = min(limit, size)
	}
	return int(max(limit-envelope, 0))
}

// attempt is how long to wait for one answer: one lost message must not use up
// all the time there is.
func (b *bucket) attempt() time.Duration { return min(b.timeout/3, 2*time.Second) }

// put stores value as the successor of the revision given, 0 for none.
func (b *bucket) put(ctx context.Context, key string, value []byte, revision uint64, until time.Time) (uint64, error) {
	return b.send(ctx, key, value, until, jetstream.WithExpectLastSequencePerSubject(revision))
}

func (b *bucket) send(ctx context.Context, key string, value []byte, until time.Time, opts ...jetstream.PublishOpt) (uint64, error) {
	opts = append(opts, jetstream.WithExpectStream(b.config.Name))
	if b.config.AllowMsgTTL {
		opts = append(opts, jetstream.WithMsgTTL(ttlOf(until)))
	}
	ctx, cancel := context.WithTimeout(ctx, b.attempt())
	defer cancel()
	ack, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.publish + key, Header: nats.Header{}, Data: value}, opts...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// remove takes a key away if it still has the revision given.
func (b *bucket) remove(ctx context.Context, key string, revision uint64) error {
	m := &nats.Msg{Subject: b.publish + key, Header: nats.Header{}}
	m.Header.Set("KV-Operation", "PURGE")
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	opts := []jetstream.PublishOpt{
		jetstream.WithExpectStream(b.config.Name),
		jetstream.WithExpectLastSequencePerSubject(revision),
	}
	if b.config.AllowMsgTTL {
		opts = append(opts, jetstream.WithMsgTTL(markerTTL))
	}
	_, err := b.js.PublishMsg(ctx, m, opts...)
	return err
}
