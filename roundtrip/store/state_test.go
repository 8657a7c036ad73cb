package store_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/store"
)

func TestMemoryStateStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := store.NewMemoryStateStore(2)
		put := func(id string, size int, d time.Duration) error {
			return s.Put(ctx, id, "owner of "+id, make([]byte, size), time.Now().Add(d))
		}
		for _, id := range []string{"a", "b"} {
			if err := put(id, 10, time.Minute); err != nil {
				t.Error(err)
			}
		}
		if put("a", 1, time.Minute) == nil {
			t.Error("an id was put twice")
		}
		if err := put("c", 1, time.Minute); !refusedFor(err, "server") {
			t.Errorf("full: %v", err)
		}
		if data, err := s.Get(ctx, "a"); err != nil || len(data) != 10 {
			t.Errorf("got %d bytes, %v", len(data), err)
		}
		if _, err := s.Get(ctx, "c"); !errors.Is(err, store.ErrStateGone) {
			t.Errorf("unknown: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := s.Get(ctx, "a"); !errors.Is(err, store.ErrStateGone) {
			t.Errorf("expired: %v", err)
		}
		if err := put("c", 1, time.Minute); err != nil {
			t.Errorf("after expiry: %v", err)
		}
		s = store.NewMemoryStateStore(0)
		for range 2 { // the second time shows that room comes back
			for _, id := range []string{"a", "b", "c", "d"} {
				if err := put(id, store.MaxStoreBytes/4, time.Minute); err != nil {
					t.Error(err)
				}
			}
			if put("e", 1, time.Minute) == nil {
				t.Error("more bytes than are allowed")
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestMemoryStateStoreShares: one principal cannot take all the room.
func TestMemoryStateStoreShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.NewMemoryStateStore(8)
		put := func(owner, id string, size int) error {
			return s.Put(t.Context(), id, owner, make([]byte, size), time.Now().Add(time.Minute))
		}
		for _, id := range []string{"a", "b"} {
			if err := put("greedy", id, 10); err != nil {
				t.Error(err)
			}
		}
		if err := put("greedy", "c", 1); !refusedFor(err, "principal") {
			t.Errorf("a third state: %v", err)
		}
		if err := put("modest", "d", 10); err != nil {
			t.Errorf("another principal: %v", err)
		}
		time.Sleep(time.Minute)
		if err := put("greedy", "c", store.MaxStoreBytes/4); err != nil {
			t.Errorf("after expiry: %v", err)
		}
		if err := put("greedy", "e", 1); !refusedFor(err, "principal") {
			t.Error("more bytes than its share")
		}
	})
}

// refusedFor reports whether err tells that a bound is reached and when to come
// back.
func refusedFor(err error, limit string) bool {
	full, ok := errors.AsType[*store.QuotaError](err)
	return ok && full.Limit == limit && full.RetryAfter == time.Minute
}
