package natsbus

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

// bucket is the key-value bucket of the directory. It publishes to the stream
// behind it itself, because the key-value interface cannot renew the time to
// live of a key.
type bucket struct {
	js      jetstream.JetStream
	kv      jetstream.KeyValue
	stream  string
	publish string // subject of a key, without the key
	timeout time.Duration
}

func openBucket(ctx context.Context, js jetstream.JetStream, opts Options) (*bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	name := "KV_" + opts.Bucket
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = createBucket(ctx, js, name, opts)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %q: %w", opts.Bucket, err)
	}
	if err := checkBucket(stream.CachedInfo().Config); err != nil {
		return nil, fmt.Errorf("bucket %q: %w", opts.Bucket, err)
	}
	kv, err := js.KeyValue(ctx, opts.Bucket)
	if err != nil {
		return nil, fmt.Errorf("bucket %q: %w", opts.Bucket, err)
	}
	return &bucket{js, kv, name, foreignPrefix(js.Options()) + "$KV." + opts.Bucket + ".", opts.Timeout}, nil
}

// createBucket makes the stream of a key-value bucket by hand: the key-value
// interface would let any replica of it answer reads, and a claim must be
// found as soon as it is made.
func createBucket(ctx context.Context, js jetstream.JetStream, name string, opts Options) (jetstream.Stream, error) {
	replicas := opts.Replicas
	if replicas <= 0 {
		replicas = 1
		if js.Conn().ConnectedClusterName() != "" {
			replicas = 3
		}
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name:                   name,
		Description:            "rondo: which replica waits for which answer",
		Subjects:               []string{"$KV." + opts.Bucket + ".>"},
		MaxMsgsPerSubject:      1,
		MaxBytes:               opts.MaxBytes,
		Discard:                jetstream.DiscardNew,
		Storage:                jetstream.FileStorage,
		Replicas:               replicas,
		AllowRollup:            true,
		DenyDelete:             true,
		AllowMsgTTL:            true,
		SubjectDeleteMarkerTTL: markerTTL,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return js.Stream(ctx, name) // another replica was faster
	}
	return stream, err
}

func checkBucket(c jetstream.StreamConfig) error {
	switch {
	case c.AllowDirect:
		return errors.New("it lets replicas that lag answer reads (allow_direct)")
	case !c.AllowMsgTTL:
		return errors.New("it has no time to live for each key (allow_msg_ttl); servers have it from 2.11 on")
	case c.MaxMsgsPerSubject != 1:
		return fmt.Errorf("its history is %d, it must be 1", c.MaxMsgsPerSubject)
	case c.Discard != jetstream.DiscardNew:
		return errors.New("its discard policy drops claims when it is full; it must be new")
	case c.MaxAge > 0:
		return errors.New("it has a max age, which may end claims too early")
	case c.Mirror != nil || len(c.Sources) > 0 || c.SubjectTransform != nil:
		return errors.New("it copies or renames entries, so that a claim is not decided in one place")
	}
	return nil
}

// foreignPrefix is what comes before the subject of a key where JetStream is
// in another domain.
func foreignPrefix(o jetstream.JetStreamOptions) string {
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "" && strings.TrimSuffix(o.APIPrefix, ".") != strings.TrimSuffix(jetstream.DefaultAPIPrefix, "."):
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return ""
}

// attempt is how long to wait for one answer: one lost message must not use up
// all the time there is.
func (b *bucket) attempt() time.Duration { return min(b.timeout/3, 2*time.Second) }

// put stores value for at least ttl, whatever was there.
func (b *bucket) put(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	return b.send(ctx, key, value, ttl)
}

// swap stores value for at least ttl if the key has the revision given, 0 for
// none.
func (b *bucket) swap(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	return b.send(ctx, key, value, ttl, jetstream.WithExpectLastSequencePerSubject(revision))
}

func (b *bucket) send(ctx context.Context, key string, value []byte, ttl time.Duration, opts ...jetstream.PublishOpt) (uint64, error) {
	ttl = max((ttl + time.Second - 1).Truncate(time.Second), time.Second)
	opts = append(opts, jetstream.WithExpectStream(b.stream), jetstream.WithMsgTTL(ttl))
	ctx, cancel := context.WithTimeout(ctx, b.attempt())
	defer cancel()
	ack, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.publish + key, Header: nats.Header{}, Data: value}, opts...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// item is a key as the leader of the bucket has it.
type item struct {
	value    []byte
	revision uint64
	gone     bool // deleted or expired: only a marker is left
}

// get reads a key. One that was never there has revision 0.
func (b *bucket) get(ctx context.Context, key string) (item, error) {
	ctx, cancel := context.WithTimeout(ctx, b.attempt())
	defer cancel()
	e, err := b.kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyDeleted):
		return item{revision: revisionOf(e), gone: true}, nil
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return item{gone: true}, nil
	case err != nil:
		return item{}, err
	}
	return item{value: e.Value(), revision: e.Revision()}, nil
}

func revisionOf(e jetstream.KeyValueEntry) uint64 {
	if e == nil {
		return 0
	}
	return e.Revision()
}

// remove takes a key away if it has the revision given.
func (b *bucket) remove(ctx context.Context, key string, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, b.attempt())
	defer cancel()
	err := b.kv.Purge(ctx, key, jetstream.LastRevision(revision), jetstream.PurgeTTL(markerTTL))
	if conflict(err) {
		return nil // it is another's by now
	}
	return err
}

// keep tries f until it succeeds, ctx ends, or it fails for a reason that will
// not go away.
func (b *bucket) keep(ctx context.Context, f func() error) error {
	const pause = 20 * time.Millisecond
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

// connected waits until there is a connection: nats.go would keep the message
// and send it when everybody has forgotten about it.
func (b *bucket) connected(ctx context.Context) error {
	const poll = 10 * time.Millisecond
	for nc := b.js.Conn(); !nc.IsConnected(); {
		if nc.IsClosed() {
			return nats.ErrConnectionClosed
		}
		if wait(ctx, poll) != nil {
			return nats.ErrDisconnected
		}
	}
	return nil
}

// Errors of the server that say: not now.
const (
	clusterNotAvailable jetstream.ErrorCode = 10008
	clusterNoLeader     jetstream.ErrorCode = 10009
)

// errMoved says that the directory changed between reading and writing.
var errMoved = errors.New("the directory has changed")

// transient says that trying again may help.
func transient(err error) bool {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.ErrorCode == clusterNotAvailable || e.ErrorCode == clusterNoLeader
	}
	return errors.Is(err, errMoved) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// conflict says that a key does not have the revision that was expected.
func conflict(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), ctx.Err())
	case <-t.C:
		return nil
	}
}
