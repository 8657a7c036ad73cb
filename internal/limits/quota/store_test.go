package quota_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
)

func TestStoreForgetsWhatHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quota.NewStore[string](quota.StoreOptions{MaxEntries: 8, MaxBytes: 80})
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		for i, minutes := range []int{3, 1, 2} {
			if limit := s.Put(fmt.Sprint(i), anonymous, "", 10,
				in(time.Duration(minutes)*time.Minute)); limit != quota.None {
				t.Fatalf("refused by %q", limit)
			}
		}
		wantEqual(t, "wait for room", s.RetryAfter(), time.Minute)
		for minute, want := range []int{3, 2, 1, 0} {
			if s.Get("none"); s.Len() != want || s.Bytes() != int64(10*want) {
				t.Errorf("after %d minutes: %d entries, %d bytes, want %d entries",
					minute, s.Len(), s.Bytes(), want)
			}
			time.Sleep(time.Minute)
		}
		wantEqual(t, "wait for room in an empty store", s.RetryAfter(), time.Second)
	})
}

func TestStoreBoundsNumberAndSize(t *testing.T) {
	later := time.Now().Add(time.Hour)
	s := quota.NewStore[int](quota.StoreOptions{MaxEntries: 8, MaxBytes: 80, Local: local})
	put := func(id, owner string, size int64) quota.Limit {
		return s.Put(id, owner, 0, size, later)
	}
	if limit := put("large", "alice", 21); limit != quota.Share || s.Len() != 0 || s.Bytes() != 0 {
		t.Errorf("more bytes than a share: refused by %q, %d entries and %d bytes are kept", limit,
			s.Len(), s.Bytes())
	}
	for _, want := range []quota.Limit{quota.None, quota.None, quota.Share} {
		wantEqual(t, fmt.Sprintf("entry %d is refused by", s.Len()),
			put(fmt.Sprint(s.Len()), "alice", 1), want)
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
	wantEqual(t, "the local client is refused by", put("local", local, 79), quota.None)
	wantEqual(t, "beyond the total, refused by", put("last", "bob", 1), quota.Total)
	s.Remove(s.Get("local"))
	wantEqual(t, "after a removal, refused by", put("last", "bob", 1), quota.None)
}

func TestLimitOr(t *testing.T) {
	for given, want := range map[int]int{0: 7, -1: quota.Unlimited, 1: 1} {
		wantEqual(t, fmt.Sprint("limit for ", given), quota.LimitOr(given, 7), want)
	}
}

func TestShareOf(t *testing.T) {
	for total, want := range map[int64]int64{-1: -1, 0: 0, 1: 1, 3: 1, 8: 2, 100: 25} {
		wantEqual(t, fmt.Sprint("share of ", total), quota.ShareOf(total), want)
	}
}

// Anonymous callers that took everything leave room once a caller authenticates.
func TestARefusedAccountIsKnownToAuthenticate(t *testing.T) {
	p := quota.New(quota.Options[string]{Total: 8, Share: 2})
	fill(p, anonymous)
	wantEqual(t, "alice is refused by", p.Take("alice", 1), quota.Total)
	p.Give(anonymous, 1)
	wantEqual(t, "anonymous, with room for others only, is refused by", p.Take(anonymous, 1),
		quota.Share)
	wantEqual(t, "alice, with room, is refused by", p.Take("alice", 1), quota.None)
}

// TestStoreKeepsWhatItShould compares a store with a map and a list through random changes.
func TestStoreKeepsWhatItShould(t *testing.T) {
	type kept struct {
		value, size int
		owner       string
		until       time.Time
	}
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		s := quota.NewStore[int](quota.StoreOptions{MaxEntries: -1, MaxBytes: -1})
		want := map[string]*kept{}
		var sized []string // ids, the longest sized first
		forget := func(id string) {
			delete(want, id)
			sized = slices.DeleteFunc(sized, func(other string) bool { return other == id })
		}
		oldest := func(owner string) int {
			for _, id := range sized {
				if owner == "" || want[id].owner == owner {
					return want[id].value
				}
			}
			return -1
		}
		for step := range 20_000 {
			for id, k := range want {
				if !time.Now().Before(k.until) {
					forget(id)
				}
			}
			id := fmt.Sprint(random.IntN(300))
			e := s.Get(id)
			k := want[id]
			if (e == nil) != (k == nil) ||
				e != nil && (e.Value != k.value || e.Owner() != k.owner) {
				t.Fatalf("step %d: entry %s: got %+v, want %+v", step, id, e, k)
			}
			size := max(random.IntN(6)-2, 0)
			switch {
			case e == nil:
				k = &kept{step, size, fmt.Sprint("o", random.IntN(3)),
					time.Now().Add(time.Duration(random.IntN(1000)) * time.Millisecond)}
				if !k.until.After(time.Now()) {
					break
				}
				s.Put(id, k.owner, k.value, int64(size), k.until)
				if want[id] = k; size > 0 {
					sized = append(sized, id)
				}
			case random.IntN(2) == 0:
				s.Remove(e)
				forget(id)
			default:
				if s.Resize(e, int64(size)); (size > 0) != (k.size > 0) {
					if sized = slices.DeleteFunc(sized, func(other string) bool {
						return other == id
					}); size > 0 {
						sized = append(sized, id)
					}
				}
				k.size = size
				for limit, owner := range map[quota.Limit]string{quota.Total: "",
					quota.Share: k.owner} {
					got := -1
					if first := s.OldestSized(e, limit); first != nil {
						got = first.Value
					}
					if got != oldest(owner) {
						t.Fatalf("step %d: the oldest of %q: got %d, want %d", step, owner, got,
							oldest(owner))
					}
				}
			}
			bytes := 0
			for _, k := range want {
				bytes += k.size
			}
			if s.Len() != len(want) || s.Bytes() != int64(bytes) {
				t.Fatalf("step %d: %d entries, %d bytes, want %d and %d", step, s.Len(), s.Bytes(),
					len(want), bytes)
			}
			if random.IntN(4) == 0 {
				time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
			}
			if random.IntN(2000) == 0 {
				time.Sleep(time.Minute) // until the store is empty
			}
		}
	})
}

// A time that does not fit into nanoseconds must not remove an entry.
func TestStoreKeepsEntriesOfAllTimes(t *testing.T) {
	s := quota.NewStore[int](quota.StoreOptions{MaxEntries: -1, MaxBytes: -1})
	far := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	s.Put("far", anonymous, 1, 0, far)
	s.Put("soon", anonymous, 2, 0, time.Now().Add(time.Hour))
	s.Put("past", anonymous, 3, 0, time.Time{})
	if s.Get("far") == nil || s.Get("soon") == nil || s.Get("past") != nil {
		t.Errorf("far %v, soon %v, past %v", s.Get("far"), s.Get("soon"), s.Get("past"))
	}
}

// The garbage collector's work does not grow with the number of entries.
func TestStoreCostsTheCollectorLittle(t *testing.T) {
	const entries = 50_000
	later := time.Now().Add(time.Hour)
	s := quota.NewStore[[4]int64](quota.StoreOptions{MaxEntries: -1, MaxBytes: -1})
	before := heap()
	for i := range entries {
		s.Put(fmt.Sprint(i), "ann", [4]int64{}, 1, later)
	}
	after := heap()
	objects := float64(after.HeapObjects-before.HeapObjects) / entries
	bytes := float64(after.HeapAlloc-before.HeapAlloc) / entries
	t.Logf("an entry takes %.0f bytes in %.3f objects", bytes, objects)
	if objects > 0.1 {
		t.Errorf("an entry takes %.2f objects, want no more than one for ten", objects)
	}
	s.Remove(s.Get("0"))
	for i := 1; i < entries; i++ {
		s.Remove(s.Get(fmt.Sprint(i)))
	}
	if empty := heap(); empty.HeapAlloc > before.HeapAlloc+1<<20 {
		t.Errorf("%d bytes are kept when all entries are gone", empty.HeapAlloc-before.HeapAlloc)
	}
	s.Put("last", "ann", [4]int64{}, 1, later)
	if s.Get("last") == nil {
		t.Error("an emptied store keeps nothing")
	}
}

func heap() (stats runtime.MemStats) {
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats
}
