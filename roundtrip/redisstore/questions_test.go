//go:build redis

package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/roundtrip/redisstore"
)

func newQuestionStore(t *testing.T, connect func() *redis.Client) *redisstore.QuestionStore {
	t.Helper()
	s, err := redisstore.NewQuestionStore(connect(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var key = strings.Repeat("0", 64)

func TestRecords(t *testing.T) {
	connect := startRedis(t)
	s, ctx := newQuestionStore(t, connect), t.Context()
	if _, _, err := s.Get(ctx, key); !errors.Is(err, elicitation.ErrNoRecord) {
		t.Errorf("get of nothing: %v", err)
	}
	if _, err := s.End(ctx, key, []byte("ended")); !errors.Is(err, elicitation.ErrNoRecord) {
		t.Errorf("end of nothing: %v", err)
	}
	for range 2 {
		if err := s.Put(ctx, key, []byte("record\x00\xff"), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if record, end, err := s.Get(ctx, key); string(record) != "record\x00\xff" || end != nil ||
		err != nil {
		t.Errorf("got %q, %q, %v", record, end, err)
	}
	for _, end := range []string{"first", "second", "first"} {
		if got, err := s.End(ctx, key, []byte(end)); string(got) != "first" || err != nil {
			t.Errorf("ended %q: %q, %v", end, got, err)
		}
	}
	if record, end, err := s.Get(ctx, key); string(record) != "record\x00\xff" ||
		string(end) != "first" || err != nil {
		t.Errorf("got %q, %q, %v", record, end, err)
	}
	ttl, err := connect().PTTL(ctx, "rondo:question:"+key).Result()
	if err != nil || ttl < 50*time.Minute || ttl > time.Hour {
		t.Errorf("it lasts %v, %v", ttl, err)
	}
}

func TestRecordsExpire(t *testing.T) {
	s, ctx := newQuestionStore(t, startRedis(t)), t.Context()
	if err := s.Put(ctx, key, []byte("x"), 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		_, _, err := s.Get(ctx, key)
		if errors.Is(err, elicitation.ErrNoRecord) {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("it does not expire: %v", err)
		}
	}
}

// TestOneEndDecides, of many at the same time.
func TestOneEndDecides(t *testing.T) {
	connect, ctx := startRedis(t), t.Context()
	var stores [3]*redisstore.QuestionStore
	for i := range stores {
		stores[i] = newQuestionStore(t, connect)
	}
	for n := range 50 {
		key := fmt.Sprintf("%064x", n)
		if err := stores[0].Put(ctx, key, []byte("x"), time.Hour); err != nil {
			t.Fatal(err)
		}
		var decided atomic.Int32
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				mine := fmt.Sprint("end ", i)
				got, err := stores[i%3].End(ctx, key, []byte(mine))
				if err != nil {
					t.Error(err)
				}
				if string(got) == mine {
					decided.Add(1)
				}
			})
		}
		wg.Wait()
		if d := decided.Load(); d != 1 {
			t.Fatalf("%d ends decided, want 1", d)
		}
	}
}

// TestPrefix keeps stores apart that share a server.
func TestPrefix(t *testing.T) {
	connect, ctx := startRedis(t), t.Context()
	s := newQuestionStore(t, connect)
	other, err := redisstore.NewQuestionStore(connect(),
		&redisstore.QuestionOptions{Prefix: "other:"})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Put(ctx, key, []byte("x"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(ctx, key); !errors.Is(err, elicitation.ErrNoRecord) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.End(ctx, key, []byte("ended")); !errors.Is(err, elicitation.ErrNoRecord) {
		t.Errorf("end: %v", err)
	}
	if n, err := connect().Exists(ctx, "other:"+key).Result(); n != 1 || err != nil {
		t.Errorf("%d keys with the prefix, %v", n, err)
	}
}
