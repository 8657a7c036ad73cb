package natsbus_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// TestLeaseIsRenewed as long as the replica lives.
func TestLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	opts := &natsbus.Options{Lease: natsbus.MinLease}
	a, b := listening(t, natstest.Connect(t, url), opts),
		listening(t, natstest.Connect(t, url), opts)
	if err := a.Claim(t.Context(), key, time.Hour); err != nil {
		t.Fatal(err)
	}
	// The server counts the time to live in real seconds, so no fake clock helps.
	const poll = 50 * time.Millisecond
	for end := time.Now().Add(2 * natsbus.MinLease); time.Now().Before(end); <-time.After(poll) {
		if err := b.Claim(t.Context(), key, time.Hour); !errors.Is(err, elicitation.ErrClaimed) {
			t.Fatalf("a claim of a living replica: %v", err)
		}
	}
}

// TestSilentOwner is one whose packets get lost: nobody knows whether it got
// the message, but nobody waits longer than its lease.
func TestSilentOwner(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, t.TempDir(), 0)
	wire := natstest.NewWire(t, srv.Addr().String())
	opts := &natsbus.Options{Lease: natsbus.MinLease}
	a := listening(t, natstest.Connect(t, "nats://"+wire.Address()), opts)
	b := listening(t, natstest.Connect(t, srv.ClientURL()), opts)
	if err := a.Claim(t.Context(), key, time.Hour); err != nil {
		t.Fatal(err)
	}
	wire.Block()
	began := time.Now()
	if _, err := b.Send(t.Context(), key, nil); !leavesOpen(err) {
		t.Errorf("got %v, want an error that leaves open whether it was handled", err)
	}
	if took := time.Since(began); took > natstest.Patience/2 {
		t.Errorf("it took %v", took)
	}
	if err := b.Claim(t.Context(), key, time.Hour); err != nil {
		t.Errorf("the claim is not free: %v", err)
	}
	wire.Mend()
	if got, err := b.Send(t.Context(), key, []byte("mine")); err != nil || string(got) != "mine" {
		t.Errorf("got %q, %v", got, err)
	}
	natstest.Eventually(t, "the replica is back and knows that the claim is not its own",
		func() bool {
			got, err := a.sendBriefly(t, "yours")
			return err == nil && string(got) == "yours" &&
				errors.Is(a.Claim(t.Context(), key, time.Hour), elicitation.ErrClaimed)
		})
}

// TestDirectoryIsLost with everything in it, and the replicas write it anew.
func TestDirectoryIsLost(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, t.TempDir(), 0)
	opts := &natsbus.Options{Lease: natsbus.MinLease, Timeout: time.Second}
	var failures atomic.Int32
	mine := *opts
	mine.Failed = func(error) { failures.Add(1) }
	a := listening(t, natstest.Connect(t, srv.ClientURL()), &mine)
	b := listening(t, natstest.Connect(t, srv.ClientURL()), opts)
	released := "q.2"
	for _, k := range []string{key, released} {
		if err := a.Claim(t.Context(), k, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	port := srv.Addr().(*net.TCPAddr).Port
	natstest.Stop(srv)
	natstest.Eventually(t, "the lease cannot be renewed",
		func() bool { return failures.Load() >= 3 })
	if err := a.Claim(t.Context(), "q.3", time.Hour); err == nil {
		t.Error("a claim succeeds without a server")
	}
	if _, err := b.Send(t.Context(), key, nil); !leavesOpen(err) {
		t.Errorf("without a server: %v", err)
	}
	a.Release(released)

	natstest.Start(t, t.TempDir(), port) // on an empty disk
	natstest.Eventually(t, "the claim is there again", func() bool {
		got, err := b.sendBriefly(t, "back")
		return err == nil && string(got) == "back"
	})
	if _, err := b.Send(t.Context(), released, nil); !errors.Is(err, elicitation.ErrNoOwner) {
		t.Errorf("a claim that was released came back: %v", err)
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
	r := &natstest.Relay{Unheard: ".c."}
	a := listening(t, r.Connect(t, srv.ClientURL()), &mine)
	b := listening(t, natstest.Connect(t, srv.ClientURL()), opts)
	// The sequence of the lost directory is ahead of that of the new one.
	for range 100 {
		if err := a.Claim(t.Context(), key, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	r.Unacknowledged.Store(1)
	port := srv.Addr().(*net.TCPAddr).Port
	natstest.Stop(srv)
	natstest.Eventually(t, "the lease cannot be renewed",
		func() bool { return failures.Load() >= 3 })
	natstest.Start(t, t.TempDir(), port) // on an empty disk
	natstest.Eventually(t, "the claim is there again", func() bool {
		got, err := b.sendBriefly(t, "back")
		return err == nil && string(got) == "back"
	})
	if unrestored.Load() == 0 {
		t.Error("the first attempt at restoring the claim did not fail")
	}
}

// TestTakenClaimIsNotRestored: when a replica is back after its lease has ended, the claim that
// another one has taken over stays with that one, also when the first releases it.
func TestTakenClaimIsNotRestored(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, t.TempDir(), 0)
	wire := natstest.NewWire(t, srv.Addr().String())
	opts := &natsbus.Options{Lease: natsbus.MinLease}
	failed := make(chan struct{}, 1) // since it was last emptied
	mine := *opts
	mine.Timeout = 2 * time.Second // so that renewals fail soon
	mine.Failed = func(error) {
		select {
		case failed <- struct{}{}:
		default:
		}
	}
	a := open(t, natstest.Connect(t, "nats://"+wire.Address()), &mine)
	b := open(t, natstest.Connect(t, srv.ClientURL()), opts)
	for name, bus := range map[string]mortal{"a": a, "b": b} {
		err := bus.Listen(func(context.Context, string, []byte) []byte { return []byte(name) })
		if err != nil {
			t.Fatal(err)
		}
	}
	const own = "q.2" // which stays a's
	for _, k := range []string{key, own} {
		if err := a.Claim(t.Context(), k, time.Hour); err != nil {
			t.Fatal(err)
		}
	}

	wire.Cut()
	natstest.Eventually(t, "b takes the claim over", func() bool {
		return b.Claim(t.Context(), key, time.Hour) == nil
	})
	// Two attempts to renew the lease fail: the second begins after its end.
	for range 2 {
		select {
		case <-failed:
		default:
		}
		<-failed
	}
	stranger := natstest.Connect(t, srv.ClientURL()).Conn()
	leases, err := stranger.SubscribeSync("$KV." + natsbus.DefaultBucket + ".l." + a.Name())
	if err == nil {
		err = stranger.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	wire.Mend()
	// The first may have waited in a's connection. Claims are restored after the second, before
	// the third.
	for range 3 {
		if _, err := leases.NextMsg(natstest.Patience); err != nil {
			t.Fatal(err)
		}
	}
	wantOwner := func(when, want string) {
		t.Helper()
		for name, bus := range map[string]mortal{"a": a, "b": b} {
			if got, err := bus.Send(t.Context(), key, nil); err != nil || string(got) != want {
				t.Errorf("%s %s reaches %q, %v; want %q", when, name, got, err, want)
			}
		}
	}
	wantOwner("when a is back", "b")
	for _, k := range []string{key, own} { // in this order
		a.Release(k)
	}
	natstest.Eventually(t, "what a has released is removed", func() bool {
		_, err := b.Send(t.Context(), own, nil)
		return errors.Is(err, elicitation.ErrNoOwner)
	})
	wantOwner("when a has released it", "b")
}
