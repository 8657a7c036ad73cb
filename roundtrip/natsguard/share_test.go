package natsguard_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// exceeded fails the test unless err says that a bound is reached and when to
// come back.
func exceeded(t testing.TB, err error, resource, limit string) {
	t.Helper()
	full, ok := errors.AsType[*store.QuotaError](err)
	if !ok || full.Resource != resource || full.Limit != limit || full.RetryAfter <= 0 {
		t.Fatalf("got %v, want that the %s has no room for the %s", err, resource, limit)
	}
}

// small is a bucket of 1024 units, of which one principal may use 256.
func small() *natsguard.Options { return &natsguard.Options{MaxBytes: 512 << 10} }

const smallShare = 256

// TestOnePrincipalCannotFillTheBucket, whichever replicas it uses, and however
// often they are started anew.
func TestOnePrincipalCannotFillTheBucket(t *testing.T) {
	ctx := t.Context()
	a, b, js := pair(t, small())
	if err := a.Claim(ctx, "paid", "mallory", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(ctx, "paid", []byte("outcome")); err != nil {
		t.Fatal(err)
	}
	made, err := 0, error(nil)
	for guards := [...]*natsguard.Guard{a, b}; err == nil; made++ {
		err = guards[made%2].Claim(ctx, fmt.Sprint("state", made), "mallory", print1, inAnHour())
	}
	exceeded(t, err, "guard", "principal")
	if made < smallShare*9/10 || made > smallShare {
		t.Errorf("%d claims were made, want about %d", made, smallShare)
	}
	restarted := newGuard(t, js, small())
	err = restarted.Claim(ctx, "after a restart", "mallory", print1, inAnHour())
	exceeded(t, err, "guard", "principal")

	// What others pay at this moment goes through, and what is spent stays so.
	for _, owner := range []string{"alice", ""} {
		if err := b.Claim(ctx, "of "+owner, owner, print1, inAnHour()); err != nil {
			t.Errorf("%q: %v", owner, err)
		}
	}
	if got := spent(t, b.Claim(ctx, "paid", "mallory", print1,
		inAnHour())); string(got) != "outcome" {
		t.Errorf("a replay gets %q", got)
	}
	spent(t, a.Claim(ctx, "state1", "mallory", print1, inAnHour()))

	stored(t, js, natsguard.DefaultBucket, (smallShare+10)*512)
}

// stored fails the test when a bucket holds more bytes than were counted.
func stored(t *testing.T, js jetstream.JetStream, bucket string, most uint64) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	if got := stream.CachedInfo().State.Bytes; got > most {
		t.Errorf("the bucket holds %d bytes, more than the %d that were counted", got, most)
	}
}

// TestShareUnderPressure has many claim at once on all replicas.
func TestShareUnderPressure(t *testing.T) {
	a, b, js := pair(t, small())
	guards := [...]*natsguard.Guard{a, b, newGuard(t, js, small())}
	var made, refused atomic.Int64
	var all sync.WaitGroup
	for worker := range 12 {
		all.Go(func() {
			for i := range 40 {
				id := fmt.Sprint(worker, "-", i)
				err := guards[worker%3].Claim(t.Context(), id, "mallory", print1, inAnHour())
				if err == nil {
					made.Add(1)
				} else if _, full := errors.AsType[*store.QuotaError](err); full {
					refused.Add(1)
				} else {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if made.Load() > smallShare || made.Load() < smallShare*9/10 ||
		made.Load()+refused.Load() != 480 {
		t.Errorf("%d claims were made and %d refused, want about %d of 480",
			made.Load(), refused.Load(), smallShare)
	}
}

// TestOutcomesDoNotTakeTheRoomOfClaims: half of a share is for claims alone.
func TestOutcomesDoNotTakeTheRoomOfClaims(t *testing.T) {
	ctx := t.Context()
	a, b, _ := pair(t, small())
	kept := 0
	for i := range 100 {
		id := fmt.Sprint("state", i)
		if err := a.Claim(ctx, id, "ann", print1, inAnHour()); err != nil {
			t.Fatalf("claim %d: %v", i, err)
		}
		if err := a.Commit(ctx, id, make([]byte, 5000)); err != nil {
			t.Fatal(err)
		}
		if outcome := spent(t, b.Claim(ctx, id, "ann", print1, inAnHour())); outcome != nil {
			kept++
		}
	}
	if kept < 10 || kept > 12 { // of 11 units each
		t.Errorf("%d outcomes were kept", kept)
	}
}

// ledger returns the count of an owner as it is stored, with units reserved until
// a time.
func ledger(owner string, units uint64, until time.Time) (key string, value []byte) {
	sum := sha256.Sum256([]byte("rondo natsguard owner v1\x00" + owner))
	value = append([]byte{1}, make([]byte, 16)...)
	value = binary.AppendUvarint(value, uint64(until.Unix()/300+1))
	return hex.EncodeToString(sum[:]), binary.AppendUvarint(value, units)
}

// TestLedger holds what is made of counts that others have stored.
func TestLedger(t *testing.T) {
	for _, tc := range []struct {
		name  string
		value func() []byte
		free  bool
	}{
		{"used up", func() []byte { _, v := ledger("ann", smallShare, inAnHour()); return v },
			false},
		{"all of it has ended", func() []byte {
			_, v := ledger("ann", smallShare, time.Now().Add(-10*time.Minute))
			return v
		}, true},
		{"too much", func() []byte { _, v := ledger("ann", 1<<60, inAnHour()); return v }, false},
		{"cut", func() []byte { _, v := ledger("ann", 1<<20, inAnHour()); return v[:len(v)-1] },
			false},
		{"empty", func() []byte { return nil }, false},
		{"of another format", func() []byte { return make([]byte, 30) }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, _, js := pair(t, small())
			kv, err := js.KeyValue(t.Context(), natsguard.DefaultBucket)
			if err != nil {
				t.Fatal(err)
			}
			key, _ := ledger("ann", 0, time.Now())
			if _, err := kv.Put(t.Context(), key, tc.value()); err != nil {
				t.Fatal(err)
			}
			err = a.Claim(t.Context(), "id", "ann", print1, inAnHour())
			if tc.free {
				if err != nil {
					t.Error(err)
				}
				return
			}
			unspent(t, err)
			if err := a.Claim(t.Context(), "other", "bob", print1, inAnHour()); err != nil {
				t.Errorf("another principal: %v", err)
			}
		})
	}
}

// TestOnePrincipalCannotFillTheStore with few large states.
func TestOnePrincipalCannotFillTheStore(t *testing.T) {
	ctx := t.Context()
	a, b := stores(t, &natsguard.Options{MaxBytes: 4 << 20})
	put := func(s *natsguard.StateStore, id, owner string) error {
		return s.Put(ctx, id, owner, make([]byte, 100<<10), inAnHour())
	}
	made, err := 0, error(nil)
	for stores := [...]*natsguard.StateStore{a, b}; err == nil; made++ {
		err = put(stores[made%2], fmt.Sprint("state", made), "mallory")
	}
	exceeded(t, err, "store", "principal")
	if made != 11 { // 10 of 100 KiB, and one that is refused
		t.Errorf("%d states, want 10 in a MiB", made-1)
	}
	if err := put(b, "of alice", "alice"); err != nil {
		t.Errorf("alice: %v", err)
	}
	if got, err := b.Get(ctx, "state3"); err != nil || len(got) != 100<<10 {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// TestNoShares where an operator has turned them off.
func TestNoShares(t *testing.T) {
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	opts := &natsguard.Options{MaxBytes: 64 << 10, Share: -1}
	g := newGuard(t, natstest.Connect(t, url), opts)
	made, err := 0, error(nil)
	for ; err == nil; made++ {
		err = g.Claim(t.Context(), fmt.Sprint(made), "mallory", print1, inAnHour())
	}
	exceeded(t, err, "guard", "server")
}

// TestShareThatHoldsNothing is a mistake that New finds, and not the first who pays.
func TestShareThatHoldsNothing(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	constructors := map[string]func(*natsguard.Options) error{
		"guard": func(o *natsguard.Options) error {
			_, err := natsguard.New(t.Context(), js, o)
			return err
		},
		"store": func(o *natsguard.Options) error {
			_, err := natsguard.NewStateStore(t.Context(), js, o)
			return err
		},
	}
	for name, open := range constructors {
		for _, share := range []int64{1, 511} {
			if err := open(&natsguard.Options{Share: share}); err == nil ||
				!strings.Contains(err.Error(), "options: Share") {
				t.Errorf("%s with a share of %d: %v", name, share, err)
			}
		}
		for _, share := range []int64{-1, 0, 512} {
			if err := open(&natsguard.Options{Share: share}); err != nil {
				t.Errorf("%s with a share of %d: %v", name, share, err)
			}
		}
	}
	g := newGuard(t, js, &natsguard.Options{Share: 512})
	if err := g.Claim(t.Context(), "one", "ann", print1, inAnHour()); err != nil {
		t.Errorf("the smallest share: %v", err)
	}
	exceeded(t, g.Claim(t.Context(), "two", "ann", print1, inAnHour()), "guard", "principal")
}

// TestUnitsCountByEveryClock: a replica whose clock is ahead keeps the units that others still
// use.
func TestUnitsCountByEveryClock(t *testing.T) {
	for after, want := range map[time.Duration]bool{
		-time.Minute: true, 0: true, 2 * time.Minute: true, 2*time.Minute + 1: false,
	} {
		if got := natsguard.Counts(after); got != want {
			t.Errorf("%v after the end: counts %t, want %t", after, got, want)
		}
	}
}

// TestAnonymousCallersLeaveRoom for authenticated ones, once there was one.
func TestAnonymousCallersLeaveRoom(t *testing.T) {
	ctx := t.Context()
	a, _, js := pair(t, small())
	kv, err := js.KeyValue(ctx, natsguard.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	key, value := ledger("", 3*smallShare, inAnHour())
	if _, err := kv.Put(ctx, key, value); err != nil {
		t.Fatal(err)
	}
	if err := a.Claim(ctx, "before", "", print1, inAnHour()); err != nil {
		t.Errorf("before: %v", err)
	}
	if err := a.Claim(ctx, "hers", "ann", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	exceeded(t, a.Claim(ctx, "after", "", print1, inAnHour()), "guard", "principal")
}
