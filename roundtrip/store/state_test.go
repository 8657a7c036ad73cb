package store_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// TestMemoryStateStore tests bounds of bytes and times, which storetest does not. States and
// refusals last a minute; a step without an owner waits a minute.
func TestMemoryStateStore(t *testing.T) {
	const quarter = store.MaxStoreBytes / 4
	synctest.Test(t, func(t *testing.T) {
		s := store.NewMemoryStateStore(8)
		for _, step := range []struct {
			owner, id string
			size      int
			limit     string
		}{
			{"greedy", "a", 10, ""}, {"greedy", "b", 10, ""}, {"greedy", "c", 1, "principal"},
			{"modest", "d", 10, ""}, {"1", "e", 10, ""}, {"2", "f", 10, ""}, {"3", "g", 10, ""},
			{"4", "h", 10, ""}, {"5", "i", 10, ""}, {"6", "j", 1, "server"},
			{},
			{"greedy", "c", quarter, ""}, {"greedy", "k", 1, "principal"},
			{"modest", "l", quarter, ""}, {"1", "m", quarter, ""}, {"2", "n", quarter, ""},
			{"3", "o", 1, "server"},
			{},
			{"greedy", "p", quarter, ""},
		} {
			if step.owner == "" {
				time.Sleep(time.Minute)
				if _, err := s.Get(t.Context(), "a"); !errors.Is(err, store.ErrStateGone) {
					t.Errorf("expired: %v", err)
				}
				continue
			}
			err := s.Put(t.Context(), step.id, step.owner, make([]byte, step.size),
				time.Now().Add(time.Minute))
			if full, ok := errors.AsType[*store.QuotaError](err); ok != (step.limit != "") ||
				ok && (full.Limit != step.limit || full.RetryAfter != time.Minute) ||
				!ok && err != nil {
				t.Errorf("%s: %v, want the limit %q", step.id, err, step.limit)
			}
			if data, err := s.Get(t.Context(), step.id); err == nil && len(data) != step.size {
				t.Errorf("%s: got %d bytes", step.id, len(data))
			}
		}
	})
}
