package redisstore_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/roundtrip/redisstore"
)

// TestSilentRedis is one that accepts connections and answers nothing: calls end with their
// deadlines, and none means that there is no record.
func TestSilentRedis(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const never = time.Hour
	client := redis.NewClient(&redis.Options{
		Addr: l.Addr().String(), ContextTimeoutEnabled: true,
		ReadTimeout: never, WriteTimeout: never, DialTimeout: never,
	})
	defer client.Close()
	s, err := redisstore.NewQuestionStore(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(context.Context) error{
		"put": func(ctx context.Context) error { return s.Put(ctx, "k", nil, never) },
		"get": func(ctx context.Context) error { _, _, err := s.Get(ctx, "k"); return err },
		"end": func(ctx context.Context) error { _, err := s.End(ctx, "k", nil); return err },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := call(ctx); err == nil || errors.Is(err, elicitation.ErrNoRecord) {
				t.Errorf("got %v, want an error that leaves open whether there is a record", err)
			}
		})
	}
}
