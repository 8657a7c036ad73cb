package natskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/sleep"
)

// MarkerTTL is how long the server keeps the marker of a key that was removed or
// has expired. It is the shortest time that servers accept.
const MarkerTTL = time.Second

// Options say which bucket [Open] opens. All fields but OpenTimeout are required.
type Options struct {
	// Bucket is the name of the bucket.
	Bucket string
	// Timeout bounds uses of the bucket. A third of it, at most two seconds, bounds each
	// attempt to read or write a key.
	Timeout time.Duration
	// OpenTimeout bounds Open, which takes up to 400 ms longer to look for a second stream.
	// 0: Timeout.
	OpenTimeout time.Duration
	// Create creates the bucket where there is none. Its error is ignored if it
	// says that the bucket exists: another replica was faster.
	Create func(ctx context.Context) error
	// Check refuses a bucket, whoever created it, for its settings.
	Check func(jetstream.StreamConfig) error
}

// A Bucket is an open key-value bucket. It may be used concurrently. It starts
// no goroutines and needs no closing; the connection stays the caller's.
type Bucket struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	config  jetstream.StreamConfig
	timeout time.Duration
	created time.Time

	subject        string // of a key in the stream, without the key
	publishSubject string // the same, with the prefix of a foreign JetStream domain
	readSubject    string // where the leader of the stream answers reads
}

// Open opens a bucket, creates it if there is none, and checks its settings. It
// retries until Options.OpenTimeout has passed, because a replica may start while the
// cluster forms or elects a leader. On a single server it looks for a second stream of the
// name and returns [ErrTwin] if there is one.
func Open(ctx context.Context, js jetstream.JetStream, opts Options) (*Bucket, error) {
	limit := cmp.Or(opts.OpenTimeout, opts.Timeout) + settleTime + twinTime
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stream, prefix := "KV_"+opts.Bucket, foreignPrefix(js.Options())
	b := &Bucket{js: js, timeout: opts.Timeout, subject: "$KV." + opts.Bucket + "."}
	b.publishSubject = prefix + b.subject
	b.readSubject = cmp.Or(prefix, jetstream.DefaultAPIPrefix) + "STREAM.MSG.GET." + stream
	err := checkName(opts.Bucket)
	if err == nil {
		err = b.Retry(ctx, func() error { return b.openStream(ctx, stream, opts) })
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %q: %w", opts.Bucket, err)
	}
	return b, nil
}

// createSpread is in which time replicas that start together create the bucket of a single server.
// Two requests that it handles at the same moment may fail, or make two streams of one name, both
// of which acknowledge writes: see [ErrTwin]. A cluster handles one after the other.
const createSpread = 100 * time.Millisecond

// openStream makes one attempt at opening, or creating, the stream.
func (b *Bucket) openStream(ctx context.Context, name string, opts Options) (err error) {
	b.stream, err = b.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) && b.js.Conn().ConnectedClusterName() == "" {
		if err := sleep.For(ctx, rand.N(createSpread)); err != nil {
			return err
		}
		b.stream, err = b.js.Stream(ctx, name)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = opts.Create(ctx)
		if err == nil || errors.Is(err, jetstream.ErrBucketExists) ||
			errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			b.stream, err = b.js.Stream(ctx, name)
		}
	}
	if err == nil {
		err = b.awaitSettled(ctx, name)
	}
	if err != nil {
		return err
	}
	b.config, b.created = b.stream.CachedInfo().Config, b.stream.CachedInfo().Created
	if err := opts.Check(b.config); err != nil {
		return err
	}
	if isClustered(b.stream.CachedInfo()) {
		return nil
	}
	return b.checkTwin(ctx)
}

// checkName accepts the names that nats.go accepts for a bucket. None of their
// characters needs escaping in a subject or in JSON.
func checkName(name string) error {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' &&
			c != '_' {
			return jetstream.ErrInvalidBucketName
		}
	}
	if name == "" {
		return jetstream.ErrInvalidBucketName
	}
	return nil
}

// foreignPrefix returns what precedes the subject of a key if JetStream is in
// another domain or account, and "" if it is not.
func foreignPrefix(o jetstream.JetStreamOptions) string {
	own := strings.TrimSuffix(jetstream.DefaultAPIPrefix, ".")
	switch prefix := strings.TrimSuffix(o.APIPrefix, "."); {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case prefix != "" && prefix != own:
		return prefix + "."
	}
	return ""
}

// Config returns the settings of the stream as they were when the bucket was
// opened.
func (b *Bucket) Config() jetstream.StreamConfig { return b.config }

// Created returns when the bucket was created that was opened.
func (b *Bucket) Created() time.Time { return b.created }

// Replicas returns how many servers keep a bucket that is created: want if it is
// positive, otherwise three in a cluster and one elsewhere.
func Replicas(js jetstream.JetStream, want int) int {
	switch {
	case want > 0:
		return want
	case js.Conn().ConnectedClusterName() != "":
		return 3
	}
	return 1
}
