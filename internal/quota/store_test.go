package quota_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/quota"
)

func TestStoreForgetsWhatHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		removed := 0
		s := quota.NewStore(quota.StoreOptions[string]{MaxEntries: 8, MaxBytes: 80,
			Removed: func(*quota.Entry[string]) { removed++ }})
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		for i, minutes := range []int{3, 1, 2} {
			if limit := s.Put(fmt.Sprint(i), anonymous, "", 10,
				in(time.Duration(minutes)*time.Minute)); limit != quota.None {
				t.Fatalf("refused by %q", limit)
			}
		}
		if got := s.RetryAfter(); got != time.Minute {
			t.Errorf("there is room in %v, want a minute", got)
		}
		for minute, want := range []int{3, 2, 1, 0} {
			if s.Get("none"); s.Len() != want || s.Bytes() != int64(10*want) || removed != 3-want {
				t.Errorf("after %d minutes: %d entries, %d bytes, %d removed, want %d entries",
					minute, s.Len(), s.Bytes(), removed, want)
			}
			time.Sleep(time.Minute)
		}
		if got := s.RetryAfter(); got != time.Second {
			t.Errorf("an empty store has room in %v", got)
		}
	})
}

func TestStoreBoundsNumberAndSize(t *testing.T) {
	later := time.Now().Add(time.Hour)
	s := quota.NewStore(quota.StoreOptions[int]{MaxEntries: 8, MaxBytes: 80, Local: local})
	put := func(id, owner string,
		size int64) quota.Limit {
		return s.Put(id, owner, 0, size, later)
	}
	if limit := put("large", "alice", 21); limit != quota.Share || s.Len() != 0 || s.Bytes() != 0 {
		t.Errorf("more bytes than a share: refused by %q, %d entries and %d bytes are kept", limit,
			s.Len(), s.Bytes())
	}
	for _, want := range []quota.Limit{quota.None, quota.None, quota.Share} {
		if limit := put(fmt.Sprint(s.Len()), "alice", 1); limit != want {
			t.Errorf("entry %d: refused by %q, want %q", s.Len(), limit, want)
		}
	}
	e := s.Get("0")
	if limit := s.Resize(e, 20); limit != quota.Share || s.Bytes() != 2 {
		t.Errorf("growing past the share: refused by %q, %d bytes", limit, s.Bytes())
	}
	if limit := s.Resize(e, 19); limit != quota.None || s.Bytes() != 20 {
		t.Errorf("growing: refused by %q, %d bytes", limit, s.Bytes())
	}
	if limit := s.Resize(e, 0); limit != quota.None || s.Bytes() != 1 {
		t.Errorf("shrinking: refused by %q, %d bytes", limit, s.Bytes())
	}
	if limit := put("local", local, 79); limit != quota.None {
		t.Errorf("the local client: refused by %q", limit)
	}
	if limit := put("last", "bob", 1); limit != quota.Total {
		t.Errorf("beyond the total: refused by %q", limit)
	}
	s.Remove(s.Get("local"))
	if limit := put("last", "bob", 1); limit != quota.None {
		t.Errorf("after a removal: refused by %q", limit)
	}
}

func TestShareOf(t *testing.T) {
	for total, want := range map[int64]int64{-1: -1, 0: 0, 1: 1, 3: 1, 8: 2, 100: 25} {
		if got := quota.ShareOf(total); got != want {
			t.Errorf("share of %d: got %d, want %d", total, got, want)
		}
	}
}

// TestARefusedAccountIsKnownToAuthenticate: anonymous callers took everything
// before anybody authenticated, and leave room from then on.
func TestARefusedAccountIsKnownToAuthenticate(t *testing.T) {
	p := quota.New(quota.Options[string]{Total: 8, Share: 2})
	fill(p, anonymous)
	if limit := p.Take("alice", 1); limit != quota.Total {
		t.Errorf("alice: refused by %q", limit)
	}
	p.Give(anonymous, 1)
	if limit := p.Take(anonymous, 1); limit != quota.Share {
		t.Errorf("anonymous: refused by %q, want that room is left", limit)
	}
	if limit := p.Take("alice", 1); limit != quota.None {
		t.Errorf("alice, with room: refused by %q", limit)
	}
}
