package natsbus

import (
	"errors"
	"fmt"
	"time"
)

// The defaults of [Options].
const (
	// DefaultBucket is where the directory of claims is kept.
	DefaultBucket = "rondo_bus"
	// DefaultPrefix begins the subjects on which replicas talk.
	DefaultPrefix = "rondo.bus"
	// DefaultLease is how long a replica that is silent counts as alive: long
	// enough for its connection to move to another server of the cluster.
	DefaultLease = 10 * time.Second
	// MinLease is the shortest lease: servers count whole seconds, and a lease
	// is renewed three times before it ends.
	MinLease = 2 * time.Second
	// DefaultTimeout bounds the reading and writing of the directory. A cluster
	// that loses the leader of the directory elects another one in 4 to 20
	// seconds; what cannot wait for that fails.
	DefaultTimeout = 5 * time.Second
	// DefaultGrace is how long Send goes on looking for an owner whose lease
	// stands and who is not to be found: it may just be reconnecting.
	DefaultGrace = 500 * time.Millisecond
	// DefaultMaxBytes bounds the directory: some hundred thousand claims.
	DefaultMaxBytes = 64 << 20
	// MaxAnswering is how many messages one replica answers at the same time.
	// Answers take microseconds; more than this is not traffic but an attack
	// or a router that hangs.
	MaxAnswering = 256
)

// Options configure a [Bus]. The zero value is good. Replicas that talk to each
// other must have the same Bucket, Prefix and Lease.
type Options struct {
	// Bucket is the JetStream key-value bucket of the directory. It is created
	// if it does not exist. Empty: [DefaultBucket].
	Bucket string
	// Prefix begins the subjects. Empty: [DefaultPrefix].
	Prefix string
	// Lease is how long a replica that has died keeps its claims. 0:
	// [DefaultLease]; at least [MinLease].
	Lease time.Duration
	// Timeout bounds each use of the directory, in Claim, in Send before the
	// message leaves, and in Close. 0: [DefaultTimeout].
	Timeout time.Duration
	// Grace is how long Send looks for an owner who is not there although its
	// lease stands. 0: [DefaultGrace]; negative: not at all.
	Grace time.Duration
	// Replicas is how many servers keep a bucket that is created. 0: three in
	// a cluster, otherwise one.
	Replicas int
	// MaxBytes bounds a bucket that is created. 0: [DefaultMaxBytes].
	MaxBytes int64
	// Failed, if not nil, is told what fails in the background: a lease that
	// cannot be renewed, a claim that cannot be released. No error holds a key
	// or a message. Calls do not overlap; it must return promptly.
	Failed func(err error)
}

func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Bucket == "" {
		opts.Bucket = DefaultBucket
	}
	if opts.Prefix == "" {
		opts.Prefix = DefaultPrefix
	}
	if !isSubject(opts.Prefix) {
		return opts, fmt.Errorf("options: Prefix %q is not made of words with letters, digits, - and _, separated by dots", opts.Prefix)
	}
	if opts.Lease == 0 {
		opts.Lease = DefaultLease
	}
	if opts.Lease < MinLease {
		return opts, fmt.Errorf("options: Lease %v is shorter than %v", opts.Lease, MinLease)
	}
	if opts.Timeout < 0 || opts.MaxBytes < 0 {
		return opts, errors.New("options: Timeout and MaxBytes must not be negative")
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.Grace == 0 {
		opts.Grace = DefaultGrace
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
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
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			word++
		case c == '.' && word > 0:
			word = 0
		default:
			return false
		}
	}
	return word > 0
}
