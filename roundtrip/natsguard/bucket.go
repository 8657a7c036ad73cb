package natsguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natskv"

	"github.com/rondo-mcp/rondo/internal/sleep"
)

// bucket is where a guard or a store keeps its entries, for as long as each of
// them must be remembered.
type bucket struct {
	*natskv.Bucket
	js      jetstream.JetStream
	timeout time.Duration // of one operation
}

// openBucket opens the bucket, or creates it if there is none.
func openBucket(ctx context.Context, js jetstream.JetStream, opts Options) (*bucket, error) {
	kv, err := natskv.Open(ctx, js, natskv.Options{
		Bucket:  opts.Bucket,
		Timeout: opts.Timeout,
		Create:  func(ctx context.Context) error { return createBucket(ctx, js, opts) },
		Check:   func(c jetstream.StreamConfig) error { return checkBucket(c, opts.Longest) },
	})
	if err != nil {
		return nil, err
	}
	return &bucket{Bucket: kv, js: js, timeout: opts.Timeout}, nil
}

// createBucket creates a bucket that forgets key by key. Servers before 2.11
// cannot do that; there the whole bucket forgets what is older than
// Options.Longest.
func createBucket(ctx context.Context, js jetstream.JetStream, opts Options) error {
	config := jetstream.KeyValueConfig{
		Bucket:         opts.Bucket,
		Description:    "rondo: what must not happen twice",
		History:        1,
		MaxBytes:       opts.MaxBytes,
		Storage:        jetstream.FileStorage,
		Replicas:       natskv.Replicas(js, opts.Replicas),
		LimitMarkerTTL: natskv.MarkerTTL,
	}
	_, err := js.CreateKeyValue(ctx, config)
	if errors.Is(err, jetstream.ErrLimitMarkerTTLNotSupported) {
		config.LimitMarkerTTL, config.TTL = 0, opts.Longest
		_, err = js.CreateKeyValue(ctx, config)
	}
	return err
}

// checkBucket refuses settings with which an entry could be lost before its time
// or kept for ever.
func checkBucket(c jetstream.StreamConfig, longest time.Duration) error {
	switch {
	case c.Discard != jetstream.DiscardNew:
		return errors.New("its discard policy drops old entries when it is full; it must be new")
	case c.DiscardNewPerSubject:
		return errors.New("discard_new_per_subject refuses outcomes")
	case c.MaxMsgsPerSubject != 1:
		return fmt.Errorf("its history is %d, it must be 1", c.MaxMsgsPerSubject)
	case c.MaxAge > 0 && c.MaxAge < longest:
		return fmt.Errorf("it forgets after %v, entries may have to be kept for %v", c.MaxAge,
			longest)
	case c.MaxAge <= 0 && !c.AllowMsgTTL:
		return errors.New("it has neither a max age nor a time to live for each key, " +
			"so it would grow for ever")
	case c.Retention != jetstream.LimitsPolicy:
		return errors.New("its retention policy drops entries that were read; it must be limits")
	case c.Storage != jetstream.FileStorage:
		return errors.New("it is kept in memory, and a restart forgets it; its storage must be file")
	case c.PersistMode != jetstream.DefaultPersistMode:
		return errors.New("it acknowledges entries before they are stored")
	case c.NoAck:
		return errors.New("it does not acknowledge entries")
	case c.Mirror != nil || len(c.Sources) > 0 || c.SubjectTransform != nil:
		return errors.New("it copies or renames entries, so that a claim is not decided in one " +
			"place")
	}
	return nil
}

// withTimeout limits an operation in time. It drops the cancellation of the
// caller: nobody would know the outcome of an operation that is abandoned half
// way.
func (b *bucket) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), b.timeout)
}

// maxValueSize returns the length of the longest value that the server and the
// bucket accept.
func (b *bucket) maxValueSize() int {
	const envelope = 1 << 10 // for subject and headers, which count, too
	limit := b.js.Conn().MaxPayload()
	if size := int64(b.Config().MaxMsgSize); size > 0 {
		limit = min(limit, size)
	}
	return int(max(limit-envelope, 0))
}

// findEntry is Find with a mark of this package.
func (b *bucket) findEntry(ctx context.Context, key string) (natskv.Entry, error) {
	return b.Find(ctx, key, b.writeMark)
}

// writeMark writes an entry that the server forgets as soon as it can.
func (b *bucket) writeMark(ctx context.Context) (revision uint64, err error) {
	err = b.Retry(ctx, func() (err error) {
		revision, err = b.Put(ctx, "mark", nil, 0)
		return err
	})
	return revision, err
}

// storeEntry stores a value as the successor of the revision previous, 0 for a
// key that is not there, and retries until ctx ends. If another value has the
// key already, it stores nothing and returns that as found.
//
// The value must differ from all others: an attempt whose acknowledgement was
// lost is recognized by it. A key with another value is a conflict only if the
// reader has seen at least the revision previous; a deposed leader may not have.
// To create a key, Get is enough: what the reader misses makes the next attempt
// fail. To replace one, the key must be gone for certain before the claim on it
// is given up.
func (b *bucket) storeEntry(
	ctx context.Context, key string, value []byte, previous uint64, until time.Time,
) (revision uint64, found *natskv.Entry, err error) {
	create, read := previous == 0, b.Get
	if !create {
		read = b.findEntry
	}
	for {
		if err := b.WaitConnected(ctx); err != nil {
			return 0, nil, err
		}
		revision, err := b.PutAfter(ctx, key, value, previous, time.Until(until))
		if err == nil {
			return revision, nil, nil
		}
		if natskv.IsConflict(err) {
			found, readErr := read(ctx, key)
			switch {
			case readErr != nil:
				err = readErr
			case found.Revision == 0 && create:
				previous, err = 0, natskv.ErrBehind
			case found.Revision == 0:
				return 0, &found, nil
			case found.Revision <= previous:
				err = natskv.ErrBehind
			case string(found.Value) == string(value) && !found.Gone:
				return found.Revision, nil, nil
			case create && found.Gone:
				previous = found.Revision // the key can be created after its marker
				continue
			default:
				return 0, &found, nil
			}
		}
		if !natskv.IsTransient(err) || sleep.For(ctx, natskv.RetryInterval) != nil {
			return 0, nil, err
		}
	}
}
