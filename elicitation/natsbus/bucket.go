package natsbus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natskv"
)

// openBucket opens the bucket of the directory, or creates it if there is none.
func openBucket(
	ctx context.Context, js jetstream.JetStream, opts Options,
) (*natskv.Bucket, error) {
	return natskv.Open(ctx, js, natskv.Options{
		Bucket:  opts.Bucket,
		Timeout: opts.Timeout, OpenTimeout: opts.openTimeout,
		Create: func(ctx context.Context) error { return createBucket(ctx, js, opts) },
		Check:  checkBucket,
	})
}

// createBucket creates the stream of a key-value bucket without the key-value
// interface, which would let any server that has a copy answer reads.
func createBucket(ctx context.Context, js jetstream.JetStream, opts Options) error {
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name:                   "KV_" + opts.Bucket,
		Description:            "rondo: which replica waits for which answer",
		Subjects:               []string{"$KV." + opts.Bucket + ".>"},
		MaxMsgsPerSubject:      1,
		MaxBytes:               opts.MaxBytes,
		Discard:                jetstream.DiscardNew,
		Storage:                jetstream.FileStorage,
		Replicas:               natskv.Replicas(js, opts.Replicas),
		AllowRollup:            true,
		DenyDelete:             true,
		AllowMsgTTL:            true,
		SubjectDeleteMarkerTTL: natskv.MarkerTTL,
	})
	return err
}

// checkBucket refuses settings with which a claim could be missed, or lost before
// its time.
func checkBucket(c jetstream.StreamConfig) error {
	switch {
	case c.AllowDirect:
		return errors.New("it lets replicas that lag answer reads (allow_direct)")
	case !c.AllowMsgTTL:
		return errors.New("it has no time to live for each key (allow_msg_ttl); " +
			"servers have it from 2.11 on")
	case c.MaxMsgsPerSubject != 1:
		return fmt.Errorf("its history is %d, it must be 1", c.MaxMsgsPerSubject)
	case c.Discard != jetstream.DiscardNew:
		return errors.New("its discard policy drops claims when it is full; it must be new")
	case c.DiscardNewPerSubject:
		return errors.New("discard_new_per_subject refuses to renew leases")
	case c.Retention != jetstream.LimitsPolicy:
		return errors.New("its retention policy drops claims that were read; it must be limits")
	case c.PersistMode != jetstream.DefaultPersistMode:
		return errors.New("it acknowledges claims before they are stored")
	case c.NoAck:
		return errors.New("it does not acknowledge claims")
	case c.MaxAge > 0:
		return errors.New("it has a max age, which may end claims too early")
	case c.Mirror != nil || len(c.Sources) > 0 || c.SubjectTransform != nil:
		return errors.New("it copies or renames entries, so that a claim is not decided in one " +
			"place")
	}
	return nil
}
