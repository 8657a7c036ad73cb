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

// QuestionOptions configure a [QuestionStore]. The zero value is good.
type QuestionOptions struct {
	// Prefix begins the keys. Routers with a common store have the same. Empty:
	// "rondo:question:".
	Prefix string
}

const defaultQuestionPrefix = "rondo:question:"

// A QuestionStore is an [elicitation.QuestionStore] on Redis. It may be used concurrently. It
// starts no goroutines and needs no closing; the client stays the caller's.
type QuestionStore struct {
	client redis.UniversalClient
	prefix string
}

var _ elicitation.QuestionStore = (*QuestionStore)(nil)

// NewQuestionStore returns a store that uses client, of a server, of a cluster or with sentinels.
// It does not connect. The client should have ContextTimeoutEnabled, so that calls end with the
// deadlines of their contexts, and read from no replicas: see the package comment.
func NewQuestionStore(
	client redis.UniversalClient, opts *QuestionOptions,
) (*QuestionStore, error) {
	if client == nil {
		return nil, errNoClient
	}
	if opts == nil {
		opts = &QuestionOptions{}
	}
	return &QuestionStore{client: client, prefix: cmp.Or(opts.Prefix, defaultQuestionPrefix)}, nil
}

// The fields of the hash of a question.
const (
	fieldRecord = "record"
	fieldEnd    = "end"
)

// Put implements [elicitation.QuestionStore].
func (s *QuestionStore) Put(
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

// Get implements [elicitation.QuestionStore].
func (s *QuestionStore) Get(ctx context.Context, key string) (record, end []byte, err error) {
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

// End implements [elicitation.QuestionStore].
func (s *QuestionStore) End(ctx context.Context, key string, end []byte) (ended []byte, err error) {
	text, err := endOnce.Run(ctx, s.client, []string{s.prefix + key}, end).Text()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, elicitation.ErrNoRecord
	case err != nil:
		return nil, fmt.Errorf("redisstore: end: %w", err)
	}
	return []byte(text), nil
}
