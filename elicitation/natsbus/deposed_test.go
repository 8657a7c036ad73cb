package natsbus_test

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// TestDeposedLeader answers reads after a partition, when the writes reach the
// new leader already. A key that it has not seen is not one that nobody owns.
func TestDeposedLeader(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	owner := listening(t, natstest.Connect(t, url), nil)
	if err := owner.Claim(t.Context(), key, time.Hour); err != nil {
		t.Fatal(err)
	}
	claims := &relay{hidden: ".c."}
	b := listening(t, relayed(t, url, claims), &natsbus.Options{Timeout: 2 * time.Second})
	for answers := range int32(5) {
		claims.behind.Store(answers)
		if got, err := b.Send(t.Context(), key, []byte("hello")); err != nil || string(got) != "hello" {
			t.Errorf("stepping down after %d answers: got %q, %v", answers, got, err)
		}
	}
	claims.behind.Store(math.MaxInt32)
	if _, err := b.Send(t.Context(), key, nil); err == nil || errors.Is(err, elicitation.ErrUnclaimed) || errors.Is(err, elicitation.ErrOwnerGone) {
		t.Errorf("not stepping down: got %v, want an error that leaves open who owns the key", err)
	}
	claims.behind.Store(2)
	if _, err := b.Send(t.Context(), "q.none", nil); !errors.Is(err, elicitation.ErrUnclaimed) {
		t.Errorf("a key that nobody owns: %v", err)
	}

	leases := &relay{hidden: ".l."}
	c := listening(t, relayed(t, url, leases), &natsbus.Options{Timeout: 2 * time.Second})
	for _, answers := range []int32{2, math.MaxInt32} {
		leases.behind.Store(answers)
		if err := c.Claim(t.Context(), key, time.Hour); err == nil {
			t.Fatal("the claim of a living replica is taken over")
		}
	}
	leases.behind.Store(0)
	if err := c.Claim(t.Context(), key, time.Hour); !errors.Is(err, elicitation.ErrClaimed) {
		t.Errorf("the claim of a living replica: %v", err)
	}
}

// TestStartWithoutLeader waits until there is one.
func TestStartWithoutLeader(t *testing.T) {
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	for refusals := range int32(4) {
		r := &relay{}
		r.leaderless.Store(refusals)
		listening(t, relayed(t, url, r), nil)
	}
}

// TestClaimOfUnknownRevision was made again by its owner, who was not told. It is
// the owner's all the same.
func TestClaimOfUnknownRevision(t *testing.T) {
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	ctx, cancel := context.WithCancel(t.Context())
	r := &relay{lost: cancel}
	a, b := listening(t, relayed(t, url, r), nil), listening(t, natstest.Connect(t, url), nil)
	if err := a.Claim(t.Context(), key, time.Hour); err != nil {
		t.Fatal(err)
	}
	r.unacknowledged.Store(1)
	if err := a.Claim(ctx, key, time.Hour); !errors.Is(err, context.Canceled) {
		t.Fatalf("a claim without an acknowledgement: %v", err)
	}
	if got, err := b.Send(t.Context(), key, []byte("mine")); err != nil || string(got) != "mine" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestRestoringTakesTwoAttempts, because the first one is stored and not
// acknowledged.
func TestRestoringTakesTwoAttempts(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, t.TempDir(), 0)
	opts := &natsbus.Options{Lease: natsbus.MinLease, Timeout: time.Second}
	var failures, unrestored atomic.Int32
	mine := *opts
	mine.Failed = func(err error) {
		failures.Add(1)
		if strings.Contains(err.Error(), "restoring") {
			unrestored.Add(1)
		}
	}
	r := &relay{}
	a, b := listening(t, relayed(t, srv.ClientURL(), r), &mine), listening(t, natstest.Connect(t, srv.ClientURL()), opts)
	// The sequence of the lost directory is ahead of that of the new one.
	for range 100 {
		if err := a.Claim(t.Context(), key, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	r.unacknowledged.Store(1)
	port := srv.Addr().(*net.TCPAddr).Port
	natstest.Stop(srv)
	natstest.Eventually(t, "the lease cannot be renewed", func() bool { return failures.Load() >= 3 })
	natstest.Start(t, t.TempDir(), port) // on an empty disk
	natstest.Eventually(t, "the claim is there again", func() bool {
		got, err := b.Send(t.Context(), key, []byte("back"))
		return err == nil && string(got) == "back"
	})
	if unrestored.Load() == 0 {
		t.Error("the first attempt at restoring the claim did not fail")
	}
}
