package natsguard

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip"
)

// The defaults of [Options].
const (
	// DefaultBucket is where a [Guard] keeps its claims.
	DefaultBucket = "rondo_guard"
	// DefaultTimeout bounds one operation. A cluster that loses the leader of
	// a bucket elects another within about this time; a person who waits for
	// an answer waits no longer.
	DefaultTimeout = 5 * time.Second
	// DefaultLongest is how long claims may have to be remembered: as long as
	// a flow of a funnel with the default settings, and an hour more.
	DefaultLongest = roundtrip.DefaultFlowTTL + time.Hour
	// DefaultMaxOutcome is the longest outcome that is recorded. A quarter of
	// what a NATS server takes by default leaves room in every deployment.
	DefaultMaxOutcome = 256 << 10
	// DefaultMaxBytes is how large a bucket grows that New creates: some
	// million claims without outcomes. A full bucket refuses new claims.
	DefaultMaxBytes = 256 << 20
	// MaxHeld is how many claims a guard keeps at hand to commit or release
	// them, a quarter of them of one principal. One beyond the limit cannot be
	// committed: it stays claimed, and its replay is refused.
	MaxHeld = 400_000
)

// Options configure a [Guard] or a [StateStore]. The zero value is good; unless
// its field says so, a negative number is an error.
type Options struct {
	// Bucket is the name of the JetStream key-value bucket, which is created if
	// it does not exist. One that exists is used as it is, or refused if it could
	// forget an entry too early. Empty: [DefaultBucket], of a store
	// [DefaultStateBucket].
	Bucket string
	// Timeout bounds each operation, reconnecting included, and New, which takes up to
	// 400 ms longer on a single server. 0: [DefaultTimeout].
	Timeout time.Duration
	// Replicas is how many servers keep a bucket that is created. 0: three in
	// a cluster, otherwise one.
	Replicas int
	// MaxBytes bounds a bucket that is created. 0: [DefaultMaxBytes].
	MaxBytes int64
	// Longest is how far ahead a claim may expire: a little more than the
	// FlowTTL of the funnel. 0: [DefaultLongest]. A bucket that forgets sooner
	// is refused, and so is a claim that expires later.
	Longest time.Duration
	// MaxOutcome is the longest outcome that is recorded, in bytes. The
	// replay of a state with a longer one is refused. 0: [DefaultMaxOutcome];
	// never more than the server and the bucket take. Only a guard uses it.
	MaxOutcome int
	// Share is how many bytes of the bucket one principal may use, counted over
	// all replicas; see the package comment. 0: a quarter of what the bucket may
	// hold, or of [DefaultMaxBytes] where it has no bound. Negative: there are no
	// shares, and one principal can fill the bucket. 1 to 511, in which not even
	// one claim has room, is an error.
	Share int64
}

// withDefaults fills in what is not set, and refuses what cannot be meant. bucket
// is the default of Bucket.
func (o *Options) withDefaults(bucket string) (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if min(opts.Timeout, opts.Longest) < 0 ||
		min(int64(opts.Replicas), opts.MaxBytes, int64(opts.MaxOutcome)) < 0 {
		return opts, errors.New("options: " +
			"Timeout, Replicas, MaxBytes, Longest and MaxOutcome must not be negative")
	}
	if opts.Share > 0 && opts.Share < unitBytes {
		return opts, fmt.Errorf("options: Share of %d bytes has no room for a claim; the least "+
			"is %d",
			opts.Share, unitBytes)
	}
	opts.Bucket = cmp.Or(opts.Bucket, bucket)
	opts.Timeout = cmp.Or(opts.Timeout, DefaultTimeout)
	opts.MaxBytes = cmp.Or(opts.MaxBytes, DefaultMaxBytes)
	opts.Longest = cmp.Or(opts.Longest, DefaultLongest)
	opts.MaxOutcome = cmp.Or(opts.MaxOutcome, DefaultMaxOutcome)
	return opts, nil
}
