package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rondo-mcp/rondo/elicitation"
)

// DefaultPrefix begins the keys in Redis.
const DefaultPrefix = "rondo:question:"

// Options configure a [Store]. The zero value is good.
type Options struct {
	// Prefix begins the keys. Routers with a common store have the same. Empty:
	// [DefaultPrefix].
	Prefix string
}

// A Store is an [elicitation.Store] on Redis. It may be used concurrently. It starts no
// goroutines and needs no closing; the client stays the caller's.
type Store struct {
	client redis.UniversalClient
	prefix string
}

var _ elicitation.Store = (*Store)(nil)

// New returns a store that uses client, of a server, of a cluster or with sentinels. It does
// not connect. The client should have ContextTimeoutEnabled, so that calls end with the
// deadlines of their contexts, and read from no replicas: see the package comment.
func New(client redis.UniversalClient, opts *Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("redisstore: there is no client")
	}
	if opts == nil {
		opts = &Options{}
	}
	return &Store{client: client, prefix: cmp.Or(opts.Prefix, DefaultPrefix)}, nil
}

// The fields of the hash of a question.
const (
	fieldRecord = "record"
	fieldEnd    = "end"
)

// Put implements [elicitation.Store].
func (s *Store) Put(
	ctx context.Context, key string, record []byte, ttl time.Duration,
) error {
	name := s.prefix + key
	_, err := s.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, name, fieldRecord, record)
		p.PExpire(ctx, name, ttl)
		return nil
	})
	if err != nil {
		return fmt.Errorf("redisstore: put: %w", err)
	}
	return nil
}

// Get implements [elicitation.Store].
func (s *Store) Get(ctx context.Context, key string) (record, end []byte, err error) {
	fields, err := s.client.HMGet(ctx, s.prefix+key, fieldRecord, fieldEnd).Result()
	if err != nil {
		return nil, nil, fmt.Errorf("redisstore: get: %w", err)
	}
	text, ok := fields[0].(string)
	if !ok {
		return nil, nil, elicitation.ErrNoRecord
	}
	if ended, ok := fields[1].(string); ok {
		end = []byte(ended)
	}
	return []byte(text), end, nil
}

// endOnce sets how a record ended, unless it has, and returns how it has.
var endOnce = redis.NewScript(`
local ended = redis.call('HGET', KEYS[1], 'end')
if ended then
	return ended
end
if redis.call('EXISTS', KEYS[1]) == 0 then
	return false
end
redis.call('HSET', KEYS[1], 'end', ARGV[1])
return ARGV[1]
`)

// End implements [elicitation.Store].
func (s *Store) End(ctx context.Context, key string, end []byte) (ended []byte, err error) {
	text, err := endOnce.Run(ctx, s.client, []string{s.prefix + key}, end).Text()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, elicitation.ErrNoRecord
	case err != nil:
		return nil, fmt.Errorf("redisstore: end: %w", err)
	}
	return []byte(text), nil
}
