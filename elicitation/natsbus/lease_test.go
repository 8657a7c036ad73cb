package natsbus_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

func echo(_ context.Context, _ string, message []byte) []byte { return message }

func listening(t testing.TB, js jetstream.JetStream, opts *natsbus.Options) mortal {
	t.Helper()
	b := open(t, js, opts)
	if err := b.Listen(echo); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLeaseIsRenewed as long as the replica lives.
func TestLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	opts := &natsbus.Options{Lease: natsbus.MinLease}
	a, b := listening(t, natstest.Connect(t, url), opts), listening(t, natstest.Connect(t, url), opts)
	if err := a.Claim(t.Context(), key, time.Hour); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * natsbus.MinLease); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
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
	a, b := listening(t, natstest.Connect(t, "nats://"+wire.Address()), opts), listening(t, natstest.Connect(t, srv.ClientURL()), opts)
	if err := a.Claim(t.Context(), key, time.Hour); err != nil {
		t.Fatal(err)
	}
	wire.Block()
	began := time.Now()
	if _, err := b.Send(t.Context(), key, nil); err == nil || errors.Is(err, elicitation.ErrUnclaimed) || errors.Is(err, elicitation.ErrOwnerGone) {
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
	natstest.Eventually(t, "the replica is back, and knows that the claim is not its own", func() bool {
		got, err := a.Send(t.Context(), key, []byte("yours"))
		return err == nil && string(got) == "yours" && errors.Is(a.Claim(t.Context(), key, time.Hour), elicitation.ErrClaimed)
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
	natstest.Eventually(t, "the lease cannot be renewed", func() bool { return failures.Load() >= 3 })
	if err := a.Claim(t.Context(), "q.3", time.Hour); err == nil {
		t.Error("a claim succeeds without a server")
	}
	if _, err := b.Send(t.Context(), key, nil); err == nil || errors.Is(err, elicitation.ErrUnclaimed) || errors.Is(err, elicitation.ErrOwnerGone) {
		t.Errorf("without a server: %v", err)
	}
	a.Release(released)

	natstest.Start(t, t.TempDir(), port) // on an empty disk
	natstest.Eventually(t, "the claim is there again", func() bool {
		got, err := b.Send(t.Context(), key, []byte("back"))
		return err == nil && string(got) == "back"
	})
	if _, err := b.Send(t.Context(), released, nil); !errors.Is(err, elicitation.ErrUnclaimed) {
		t.Errorf("a claim that was released came back: %v", err)
	}
}

// TestCloseWithoutServer comes to an end.
func TestCloseWithoutServer(t *testing.T) {
	srv := natstest.Start(t, t.TempDir(), 0)
	b := listening(t, natstest.Connect(t, srv.ClientURL()), nil)
	if err := b.Claim(t.Context(), key, time.Hour); err != nil {
		t.Fatal(err)
	}
	natstest.Stop(srv)
	began := time.Now()
	b.Release(key)
	// Whether it knows already that the connection is broken is up to chance.
	if err := b.Close(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("close: %v", err)
	}
	if took := time.Since(began); took > natstest.Patience/2 {
		t.Errorf("closing took %v", took)
	}
	if err := b.Claim(t.Context(), key, time.Hour); !errors.Is(err, elicitation.ErrBusClosed) {
		t.Errorf("claim: %v", err)
	}
	if err := b.Listen(echo); !errors.Is(err, elicitation.ErrBusClosed) {
		t.Errorf("listen: %v", err)
	}
}

// TestCloseEndsWhatWaits on both sides.
func TestCloseEndsWhatWaits(t *testing.T) {
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	a, b := open(t, natstest.Connect(t, url), nil), listening(t, natstest.Connect(t, url), nil)
	got := make(chan struct{}, 1)
	err := a.Listen(func(ctx context.Context, _ string, _ []byte) []byte {
		got <- struct{}{}
		<-ctx.Done() // which Close brings about
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Claim(t.Context(), key, time.Hour); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := b.Send(t.Context(), key, nil)
		failed <- err
	}()
	<-got
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, elicitation.ErrBusClosed) {
		t.Errorf("send: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
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
	natstest.Eventually(t, "the lease is all there is", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == 1
	})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "there is nothing", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Msgs == 0
	})
}

func TestClaimRefuses(t *testing.T) {
	a := listening(t, natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL()), nil)
	for _, k := range []string{"", "Q", "q 1", "q*", "q.>", string(make([]byte, 65)), "ü"} {
		if err := a.Claim(t.Context(), k, time.Hour); err == nil {
			t.Errorf("key %q is claimed", k)
		}
		if _, err := a.Send(t.Context(), k, nil); err == nil || errors.Is(err, elicitation.ErrUnclaimed) {
			t.Errorf("key %q: %v", k, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Claim(gone, key, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
