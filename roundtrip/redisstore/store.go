package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/state/sharedguard"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// Options configure a [Store]. The zero value works. A negative number is an error.
type Options struct {
	// Prefix begins all keys: the same for replicas, different for servers that share a Redis. A
	// part in braces makes a cluster keep all keys on one node. Empty means "rondo:{store}:".
	Prefix string
	// MaxEntries limits claims, and states, of all principals; one principal may have a quarter. A
	// claim takes about 600 bytes. 0 means 500,000.
	MaxEntries int64
	// MaxBytes likewise limits recorded outcomes, and states. An outcome over the limit is not
	// recorded: its replay gets the error that the outcome is unknown. 0 means 256 MiB.
	MaxBytes int64
	// Longest is how long a state can last: RoundTTL of the funnel, or the longest AnswerWithin if
	// that is more. Claims of longer states are refused. For this long after Redis was found empty,
	// states that may be older are refused. 0 means 1 h, as for RoundTTL.
	Longest time.Duration
}

const (
	defaultPrefix     = "rondo:{store}:"
	defaultMaxEntries = 500_000
	defaultMaxBytes   = 256 << 20
	// clockSlack is added to Longest: two minutes for the funnel, two for replicas' clocks.
	clockSlack = 4 * time.Minute
)

// A Store is a [store.Guard] and a [store.StateStore] for a fleet. It may be used concurrently. It
// starts no goroutines and needs no closing; the caller closes the client.
type Store struct {
	client  redis.UniversalClient
	opts    Options
	guard   *sharedguard.Guard
	shares  *sharedguard.Shares
	longest time.Duration
}

var (
	_ store.Guard      = (*Store)(nil)
	_ store.StateStore = (*Store)(nil)
)

var errNoClient = errors.New("redisstore: the client is nil")

// New returns a store that uses client, for a server, a cluster or sentinels. It refuses a Redis
// that may evict keys. The client should have ContextTimeoutEnabled and not read from replicas: see
// the package comment. ctx ends the call, not the store.
func New(ctx context.Context, client redis.UniversalClient, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	switch {
	case client == nil:
		return nil, errNoClient
	case o.Longest < 0 || min(o.MaxEntries, o.MaxBytes) < 0:
		return nil, errors.New("redisstore: options: MaxEntries, MaxBytes and Longest must not be " +
			"negative")
	}
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.MaxEntries = cmp.Or(o.MaxEntries, defaultMaxEntries)
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultMaxBytes)
	o.Longest = cmp.Or(o.Longest, time.Hour)
	if open := strings.IndexByte(o.Prefix, '{'); open < 0 ||
		strings.IndexByte(o.Prefix[open:], '}') < 2 {
		return nil, fmt.Errorf("redisstore: options: Prefix %q has no part in braces", o.Prefix)
	}
	s := &Store{client: client, opts: o, longest: o.Longest + clockSlack,
		shares: sharedguard.NewShares(sharedguard.Room{Entries: o.MaxEntries, Bytes: o.MaxBytes})}
	s.guard = sharedguard.New("redisstore", (*claims)(s))
	ctx, cancel := context.WithTimeout(ctx, sharedguard.Timeout)
	defer cancel()
	if err := s.checkPolicy(ctx); err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	if err := birthScript.Run(ctx, client, s.keys(kindGuard, "")).Err(); err != nil {
		return nil, fmt.Errorf("redisstore: write: %w", err)
	}
	return s, nil
}

// checkPolicy refuses a server that evicts keys when its memory is full.
func (s *Store) checkPolicy(ctx context.Context) error {
	check := func(ctx context.Context, c interface {
		Info(ctx context.Context, sections ...string) *redis.StringCmd
	}) error {
		text, err := c.Info(ctx, "memory").Result()
		if err != nil {
			return fmt.Errorf("read the policy: %w", err)
		}
		_, policy, _ := strings.Cut(text, "maxmemory_policy:")
		policy, _, _ = strings.Cut(policy, "\r\n")
		if policy != "noeviction" {
			return fmt.Errorf("the maxmemory-policy is %q: Redis could forget a claim; it must be "+
				"noeviction", policy)
		}
		return nil
	}
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			return check(ctx, c)
		})
	}
	return check(ctx, s.client)
}

// Resources, as named by a QuotaError.
const (
	kindGuard = "guard"
	kindStore = "store"
)

func (s *Store) keys(kind, key string) []string {
	p := s.opts.Prefix + kind + ":"
	return []string{p + key, p + "usage", p + "expiry", s.opts.Prefix + "marker"}
}

func (s *Store) bounds(owner string) []any {
	share, all := s.shares.Of(owner)
	return []any{share.Entries, all.Entries, share.Bytes, all.Bytes}
}

// ReserveForAuthenticated reserves a quarter of the room for authenticated callers. The funnel
// calls it if callers can authenticate; otherwise the first such caller has this effect.
func (s *Store) ReserveForAuthenticated() { s.shares.ReserveForAuthenticated() }

// Claim implements [store.Guard]. It returns within five seconds and, once begun, ignores the end
// of ctx. If Redis does not answer in time, the claim may be stored nevertheless. No handler runs
// then, and a retry with the same answers at this store gets the claim. At other replicas the state
// is spent, because it could be used twice otherwise.
func (s *Store) Claim(ctx context.Context, id, owner string, fingerprint [32]byte,
	until time.Time) (store.Claim, error) {
	if left := time.Until(until); left > s.longest {
		return nil, fmt.Errorf("redisstore: claim: the state lasts for another %v, longer than "+
			"Options.Longest, %v", left.Round(time.Second), s.opts.Longest)
	}
	return s.guard.Claim(ctx, id, owner, fingerprint, until)
}

// Put implements [store.StateStore]. It returns when ctx ends, or after five seconds.
func (s *Store) Put(ctx context.Context, id, owner string, state []byte, until time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, sharedguard.Timeout)
	defer cancel()
	key, owner := sharedguard.KeyOf("state", id), sharedguard.OwnerOf(owner)
	args := append([]any{key, owner, state, time.Until(until).Milliseconds(), until.UnixMilli()},
		s.bounds(owner)...)
	reply, err := putScript.Run(ctx, s.client, s.keys(kindStore, key), args...).StringSlice()
	switch {
	case err != nil:
	case len(reply) == 2 && reply[0] == "full":
		err = s.shares.Refuse(kindStore, owner, quota.Limit(reply[1]))
	case len(reply) != 1 || reply[0] != "put":
		err = errors.New("the id is taken")
	}
	if err != nil {
		return fmt.Errorf("redisstore: put: %w", err)
	}
	return nil
}

// Get implements [store.StateStore]. It ends with ctx, and after five seconds.
func (s *Store) Get(ctx context.Context, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, sharedguard.Timeout)
	defer cancel()
	state, err := s.client.Get(ctx, s.keys(kindStore, sharedguard.KeyOf("state", id))[0]).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, store.ErrStateGone
	}
	if err != nil {
		return nil, fmt.Errorf("redisstore: get: %w", err)
	}
	return state, nil
}
