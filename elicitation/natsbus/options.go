package natsbus

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// The defaults of [Options].
const (
	// DefaultBucket is the bucket of the directory of claims.
	DefaultBucket = "rondo_bus"
	// DefaultPrefix begins the subjects on which replicas send each other messages.
	DefaultPrefix = "rondo.bus"
	// DefaultLease is how long a replica that is silent counts as alive: long
	// enough for its connection to move to another server of the cluster.
	DefaultLease = 10 * time.Second
	// MinLease is the shortest lease: servers count whole seconds, and a lease
	// is renewed three times before it ends.
	MinLease = 2 * time.Second
	// DefaultTimeout bounds reading and writing the directory. A cluster that
	// loses the leader of the directory elects another one in 4 to 20 seconds;
	// calls that cannot wait for that fail.
	DefaultTimeout = 5 * time.Second
	// DefaultOpenTimeout bounds New where no Timeout is set: a cluster that has just been
	// started takes its time until it has enough servers and a leader.
	DefaultOpenTimeout = 30 * time.Second
	// DefaultGrace is for how long messages to a replica are sent again when nobody listens
	// although its server can be reached: the replica may be reconnecting.
	DefaultGrace = 500 * time.Millisecond
	// DefaultMaxBytes bounds the directory: some hundred thousand claims.
	DefaultMaxBytes = 64 << 20
	// MaxAnswering is how many messages one replica answers at the same time.
	// Answers take microseconds; more messages than this are an attack, or the
	// router hangs.
	MaxAnswering = 256
)

// Options configure a [Bus]. The zero value is good; unless its field says so, a
// negative number is an error. Replicas that talk to each other must have the same
// Bucket, Prefix and Lease.
type Options struct {
	// Bucket is the name of the JetStream key-value bucket of the directory,
	// which is created if it does not exist. One that exists is used as it is, or
	// refused if it could lose or hide a claim. Empty: [DefaultBucket].
	Bucket string
	// Timeout bounds each use of the directory: New, Claim, Send before the
	// message leaves, and Close. 0: [DefaultTimeout], and [DefaultOpenTimeout] for New. On a
	// single server New takes up to 400 ms longer.
	Timeout time.Duration
	// Replicas is how many servers keep a bucket that is created. 0: three in
	// a cluster, otherwise one.
	Replicas int
	// MaxBytes bounds a bucket that is created. 0: [DefaultMaxBytes].
	MaxBytes int64
	// Prefix begins the subjects. Empty: [DefaultPrefix].
	Prefix string
	// Lease is how long a replica that has died keeps its claims. 0:
	// [DefaultLease]; at least [MinLease].
	Lease time.Duration
	// Grace is for how long nobody must have listened at the subject of a replica whose
	// server can be reached before it is gone. 0: [DefaultGrace]; negative: no time.
	Grace time.Duration
	// Failed, if not nil, is called for what fails in the background: a lease that
	// cannot be renewed, a claim that cannot be released. No error holds a key
	// or a message. Calls do not overlap; it must return promptly.
	Failed func(err error)

	openTimeout time.Duration // for New
}

// withDefaults fills in what is not set, and refuses what cannot be meant.
func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.Bucket = cmp.Or(opts.Bucket, DefaultBucket)
	opts.Prefix = cmp.Or(opts.Prefix, DefaultPrefix)
	opts.Lease = cmp.Or(opts.Lease, DefaultLease)
	switch {
	case !isSubject(opts.Prefix):
		return opts, fmt.Errorf("options: Prefix %q is not made of words "+
			"with letters, digits, - and _, separated by dots", opts.Prefix)
	case opts.Lease < MinLease:
		return opts, fmt.Errorf("options: Lease %v is shorter than %v", opts.Lease, MinLease)
	case opts.Timeout < 0:
		return opts, errors.New("options: Timeout is negative")
	case opts.Replicas < 0:
		return opts, errors.New("options: Replicas is negative")
	case opts.MaxBytes < 0:
		return opts, errors.New("options: MaxBytes is negative")
	}
	if opts.openTimeout = opts.Timeout; opts.Timeout == 0 {
		opts.Timeout, opts.openTimeout = DefaultTimeout, DefaultOpenTimeout
	}
	opts.Grace = cmp.Or(opts.Grace, DefaultGrace)
	opts.MaxBytes = cmp.Or(opts.MaxBytes, DefaultMaxBytes)
	if opts.Failed == nil {
		opts.Failed = func(error) {}
	}
	return opts, nil
}

// isSubject accepts the words that a subject may be made of without wildcards.
func isSubject(s string) bool {
	word := 0
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			c == '-', c == '_':
			word++
		case c == '.' && word > 0:
			word = 0
		default:
			return false
		}
	}
	return word > 0
}
