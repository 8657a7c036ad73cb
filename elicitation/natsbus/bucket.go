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
	stream  jetstream.Stream
	name    string // of the stream
	subject string // of a key in the stream, without the key
	publish string // the same where it is published
	timeout time.Duration
}

// openBucket tries until Options.Timeout has passed: a replica may be started
// while the cluster elects a leader.
func openBucket(ctx context.Context, js jetstream.JetStream, opts Options) (*bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	subject := "$KV." + opts.Bucket + "."
	b := &bucket{
		js: js, name: "KV_" + opts.Bucket, timeout: opts.Timeout,
		subject: subject, publish: foreignPrefix(js.Options()) + subject,
	}
	if err := b.keep(ctx, func() error { return b.open(ctx, opts) }); err != nil {
		return nil, fmt.Errorf("bucket %q: %w", opts.Bucket, err)
	}
	return b, nil
}

// open makes one attempt.
func (b *bucket) open(ctx context.Context, opts Options) (err error) {
	b.stream, err = b.js.Stream(ctx, b.name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		b.stream, err = createBucket(ctx, b.js, b.name, opts)
	}
	if err == nil {
		err = checkBucket(b.stream.CachedInfo().Config)
	}
	if err == nil {
		b.kv, err = b.js.KeyValue(ctx, opts.Bucket)
	}
	return err
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
	opts = append(opts, jetstream.WithExpectStream(b.name), jetstream.WithMsgTTL(ttl))
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

// getSince reads a key as it was when, or after, something was written that got
// the revision given. From a server that has not seen that yet it is errBehind.
func (b *bucket) getSince(ctx context.Context, key string, revision uint64) (item, error) {
	there, err := b.has(ctx, key, revision)
	if err != nil || !there {
		return item{gone: true}, err
	}
	found, err := b.get(ctx, key)
	if err == nil && found.gone && found.revision == 0 {
		return item{}, errBehind // another server answered, or the marker has gone
	}
	return found, err // a marker is the end of a key, which is not used again
}

// has says whether there is anything at a key, be it a marker. What a read of
// the key does not tell, how far the server that answers has come, is in the
// state of the stream together with the subjects: the one who acknowledged a
// write need not be the one who answers.
func (b *bucket) has(ctx context.Context, key string, revision uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, b.attempt())
	defer cancel()
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(b.subject+key))
	if err != nil {
		return false, err
	}
	if info.State.LastSeq < revision {
		return false, errBehind
	}
	return info.State.Subjects[b.subject+key] > 0, nil
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

var (
	// errMoved says that the directory changed between reading and writing.
	errMoved = errors.New("the directory has changed")
	// errBehind says that a server has not seen yet what its leader has.
	errBehind = errors.New("the directory is behind its leader")
)

// transient says that trying again may help.
func transient(err error) bool {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.ErrorCode == clusterNotAvailable || e.ErrorCode == clusterNoLeader
	}
	return errors.Is(err, errMoved) || errors.Is(err, errBehind) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
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
