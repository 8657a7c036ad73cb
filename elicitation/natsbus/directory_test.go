package natsbus_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

func TestClaimRefuses(t *testing.T) {
	a := listening(t, natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL()), nil)
	for _, k := range []string{"", "Q", "q 1", "q*", "q.>", string(make([]byte, 65)), "ü"} {
		if err := a.Claim(t.Context(), k, time.Hour); err == nil {
			t.Errorf("key %q is claimed", k)
		}
		if _, err := a.Send(t.Context(), k, nil); err == nil ||
			errors.Is(err, elicitation.ErrNoOwner) {
			t.Errorf("key %q: %v", k, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Claim(gone, key, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestClaimsLeaveNothingBehind once they are released.
func TestClaimsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	js := natstest.Connect(t, url)
	a := listening(t, js, nil)
	for _, k := range []string{"q.1", "q.2", "v.1"} {
		for range 2 { // again is longer
			if err := a.Claim(t.Context(), k, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		a.Release(k)
		a.Release(k)
	}
	if err := a.Claim(t.Context(), "short", time.Millisecond); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "KV_"+natsbus.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the lease and the name of the server are all there is", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == 2
	})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "there is nothing", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == 0
	})
}

// TestClaimOfUnknownRevision was made again by its owner, who was not told. It is
// the owner's all the same.
func TestClaimOfUnknownRevision(t *testing.T) {
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	ctx, cancel := context.WithCancel(t.Context())
	r := &natstest.Relay{Unheard: ".c.", OnUnacknowledged: cancel}
	a, b := listening(t, r.Connect(t, url), nil), listening(t, natstest.Connect(t, url), nil)
	if err := a.Claim(t.Context(), key, time.Hour); err != nil {
		t.Fatal(err)
	}
	r.Unacknowledged.Store(1)
	if err := a.Claim(ctx, key, time.Hour); !errors.Is(err, context.Canceled) {
		t.Fatalf("a claim without an acknowledgement: %v", err)
	}
	if got, err := b.Send(t.Context(), key, []byte("mine")); err != nil || string(got) != "mine" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestUnknownKeysShareAWrite, so that replies to nothing, which any client can
// send, do not keep the directory busy.
func TestUnknownKeysShareAWrite(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	a := listening(t, js, nil)
	last := func() uint64 {
		stream, err := js.Stream(t.Context(), "KV_"+natsbus.DefaultBucket)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.LastSeq
	}
	before := last()
	if _, err := a.Send(t.Context(), "q.none", nil); !errors.Is(err, elicitation.ErrNoOwner) {
		t.Errorf("got %v", err)
	}
	if n := last() - before; n == 0 {
		t.Error("nothing was written before a key was called unknown")
	}
	before = last()
	const sends = 500
	var wg sync.WaitGroup
	for range sends {
		wg.Go(func() {
			if _, err := a.Send(t.Context(), "q.none", nil); !errors.Is(err,
				elicitation.ErrNoOwner) {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	if n := last() - before; n == 0 || n > sends/2 {
		t.Errorf("%d writes for %d unknown keys at once", n, sends)
	} else {
		t.Logf("%d writes for %d unknown keys at once", n, sends)
	}
}

// TestDeposedLeaderHidesNoOwner answers reads after a partition, when the writes reach the
// new leader already. A key that it has not seen is not one that nobody owns.
func TestDeposedLeaderHidesNoOwner(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	owner := listening(t, natstest.Connect(t, url), nil)
	if err := owner.Claim(t.Context(), key, time.Hour); err != nil {
		t.Fatal(err)
	}
	claims := &natstest.Relay{Hidden: ".c."}
	b := listening(t, claims.Connect(t, url), &natsbus.Options{Timeout: 2 * time.Second})
	for answers := range int32(5) {
		claims.Behind.Store(answers)
		if got, err := b.Send(t.Context(), key, []byte("hello")); err != nil ||
			string(got) != "hello" {
			t.Errorf("stepping down after %d answers: got %q, %v", answers, got, err)
		}
	}
	claims.Behind.Store(math.MaxInt32)
	if _, err := b.Send(t.Context(), key, nil); !leavesOpen(err) {
		t.Errorf("not stepping down: got %v, want an error that leaves open who owns the key", err)
	}
	claims.Behind.Store(2)
	if _, err := b.Send(t.Context(), "q.none", nil); !errors.Is(err, elicitation.ErrNoOwner) {
		t.Errorf("a key that nobody owns: %v", err)
	}

	leases := &natstest.Relay{Hidden: ".l."}
	c := listening(t, leases.Connect(t, url), &natsbus.Options{Timeout: 2 * time.Second})
	for _, answers := range []int32{2, math.MaxInt32} {
		leases.Behind.Store(answers)
		if err := c.Claim(t.Context(), key, time.Hour); err == nil {
			t.Fatal("the claim of a living replica is taken over")
		}
	}
	leases.Behind.Store(0)
	if err := c.Claim(t.Context(), key, time.Hour); !errors.Is(err, elicitation.ErrClaimed) {
		t.Errorf("the claim of a living replica: %v", err)
	}
}

// TestForgedClaims makes errors of claims that are malformed, not answers.
func TestForgedClaims(t *testing.T) {
	s := newScene(t)
	js := natstest.Connect(t, s.stranger.ConnectedUrl())
	kv, err := js.KeyValue(t.Context(), natsbus.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if strings.Contains(k, key) {
			t.Errorf("the directory shows key %q", k)
		}
		if !strings.HasPrefix(k, "c.") {
			continue
		}
		for _, value := range [][]byte{
			nil, []byte("x"), bytes.Repeat([]byte{2}, 33), bytes.Repeat([]byte{1}, 34),
		} {
			if _, err := kv.Put(t.Context(), k, value); err != nil {
				t.Fatal(err)
			}
			_, err := s.b.Send(t.Context(), key, nil)
			if err == nil || errors.Is(err, elicitation.ErrNoOwner) {
				t.Errorf("claim %x: %v", value, err)
			}
			if err := s.b.Claim(t.Context(), key, time.Hour); err == nil {
				t.Errorf("claim %x is taken over", value)
			}
		}
	}
}

// TestCloseFreesClaims at once, and not when the lease would have ended.
func TestCloseFreesClaims(t *testing.T) {
	s := newScene(t)
	if err := s.a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.b.Claim(t.Context(), key, time.Hour); err != nil {
		t.Errorf("a claim of a replica that has left: %v", err)
	}
}

// TestCloseFreesClaimsDespiteLostAcknowledgement of one removal: the other one takes place all
// the same.
func TestCloseFreesClaimsDespiteLostAcknowledgement(t *testing.T) {
	t.Parallel()
	for _, unheard := range []string{".h.", ".l."} {
		t.Run(unheard, func(t *testing.T) {
			t.Parallel()
			url := natstest.Start(t, t.TempDir(), 0).ClientURL()
			r := &natstest.Relay{Unheard: unheard}
			opts := natsbus.Options{Lease: time.Hour}
			b := listening(t, natstest.Connect(t, url), &opts)
			opts.Timeout = 2 * time.Second // all of which Close takes
			a := listening(t, r.Connect(t, url), &opts)
			if err := a.Claim(t.Context(), key, time.Hour); err != nil {
				t.Fatal(err)
			}
			r.Unacknowledged.Store(math.MaxInt32)
			if err := a.Close(); err == nil {
				t.Error("Close succeeds without the acknowledgement")
			}
			if err := b.Claim(t.Context(), key, time.Hour); err != nil {
				t.Errorf("a claim of a replica that has left: %v", err)
			}
		})
	}
}

// TestCloseRetries when an acknowledgement is lost.
func TestCloseRetries(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	r := &natstest.Relay{Unheard: ".l."}
	a := listening(t, r.Connect(t, url), &natsbus.Options{Lease: time.Hour})
	r.Unacknowledged.Store(1)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if n := r.Unacknowledged.Load(); n != 0 {
		t.Errorf("%d acknowledgements were not lost", n)
	}
}
