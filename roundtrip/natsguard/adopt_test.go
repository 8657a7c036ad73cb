package natsguard_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// unacknowledged returns two guards on one bucket. The first has stored a claim of the state
// "id" and does not know it.
func unacknowledged(t *testing.T) (near, far *natsguard.Guard) {
	t.Helper()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	relay := &natstest.Relay{}
	near = newGuard(t, relay.Connect(t, url), &natsguard.Options{Timeout: brief})
	far = newGuard(t, natstest.Connect(t, url), nil)
	// The acknowledgement is lost, and whoever answers reads has not seen the claim.
	relay.Unacknowledged.Store(math.MaxInt32)
	relay.Behind.Store(math.MaxInt32)
	unspent(t, near.Claim(t.Context(), "id", "", print1, inAnHour()))
	relay.Unacknowledged.Store(0)
	relay.Behind.Store(0)
	return near, far
}

func isRunning(err error) bool {
	e, ok := errors.AsType[*store.SpentError](err)
	return ok && e.Running
}

// TestUnacknowledgedClaimIsAdopted by the replica that made it, and by nobody else.
func TestUnacknowledgedClaimIsAdopted(t *testing.T) {
	near, far := unacknowledged(t)
	ctx := t.Context()
	if err := far.Claim(ctx, "id", "", print1, inAnHour()); !isRunning(err) {
		t.Errorf("at the other replica: %v, want that it runs", err)
	}
	if got := spent(t, near.Claim(ctx, "id", "", [32]byte{9}, inAnHour())); got != nil {
		t.Errorf("other answers got %q", got)
	}
	if err := near.Claim(ctx, "id", "", print1, inAnHour()); err != nil {
		t.Fatalf("the claim is not adopted: %v", err)
	}
	if err := near.Claim(ctx, "id", "", print1, inAnHour()); !isRunning(err) {
		t.Errorf("adopted again: %v", err)
	}
	if err := near.Commit(ctx, "id", []byte("outcome")); err != nil {
		t.Fatal(err)
	}
	for _, g := range []*natsguard.Guard{near, far} {
		if got := spent(t, g.Claim(ctx, "id", "", print1, inAnHour())); string(got) != "outcome" {
			t.Errorf("outcome %q", got)
		}
	}
}

// TestCopiesDuringAnOutage of a request whose claim is stored and not acknowledged do not
// keep a retry from adopting it.
func TestCopiesDuringAnOutage(t *testing.T) {
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	relay := &natstest.Relay{}
	g := newGuard(t, relay.Connect(t, url), &natsguard.Options{Timeout: brief})
	relay.Unacknowledged.Store(math.MaxInt32)
	relay.Behind.Store(math.MaxInt32)
	const copies = 8
	var wg sync.WaitGroup
	for range copies {
		wg.Go(func() {
			if g.Claim(t.Context(), "id", "", print1, inAnHour()) == nil {
				t.Error("a claim without acknowledgement succeeds")
			}
		})
	}
	wg.Wait()
	relay.Unacknowledged.Store(0)
	relay.Behind.Store(0)
	if err := g.Claim(t.Context(), "id", "", print1, inAnHour()); err != nil {
		t.Errorf("the claim is not adopted: %v", err)
	}
}

// TestUnacknowledgedClaimIsAdoptedOnce, however many retries arrive at the same time.
func TestUnacknowledgedClaimIsAdoptedOnce(t *testing.T) {
	near, far := unacknowledged(t)
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 20 {
		g := near
		if i%4 == 0 {
			g = far
		}
		wg.Go(func() {
			switch err := g.Claim(t.Context(), "id", "", print1, inAnHour()); {
			case err == nil:
				won.Add(1)
			case !isRunning(err):
				t.Errorf("got %v, want that it runs", err)
			}
		})
	}
	wg.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d claims won, want 1", n)
	}
}

// TestLostAcknowledgementsUnderLoad drops acknowledgements at random. Each state is won
// once, and retries at the replicas win it in the end.
func TestLostAcknowledgementsUnderLoad(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	var guards []*natsguard.Guard
	var relays []*natstest.Relay
	for range 3 {
		r := &natstest.Relay{}
		js := r.Connect(t, url)
		opts := &natsguard.Options{Timeout: 500 * time.Millisecond}
		guards = append(guards, newGuard(t, js, opts))
		relays = append(relays, r)
	}
	const flows, troubles = 60, 100
	var wg sync.WaitGroup
	calm := make(chan struct{})
	wg.Go(func() {
		defer close(calm)
		for range troubles {
			r := relays[rand.IntN(3)]
			r.Unacknowledged.Store(20)
			r.Behind.Store(30)
			time.Sleep(20 * time.Millisecond) // of the servers' real time
		}
		for _, r := range relays {
			r.Unacknowledged.Store(0)
			r.Behind.Store(0)
		}
	})
	for n := range flows {
		wg.Go(func() {
			id, wins := fmt.Sprint("state ", n), 0
			for quiet := 0; wins == 0 && quiet < 60; {
				select {
				case <-calm:
					quiet++ // now every replica that may adopt the claim gets its chance
				default:
				}
				if guards[rand.IntN(3)].Claim(t.Context(), id, "", print1, inAnHour()) == nil {
					wins++
				}
			}
			for _, g := range guards {
				if g.Claim(t.Context(), id, "", print1, inAnHour()) == nil {
					wins++
				}
			}
			if wins != 1 {
				t.Errorf("%s was won %d times, want once", id, wins)
			}
		})
	}
	wg.Wait()
}

// TestFullBucketKeepsAnUnacknowledgedClaim: a retry that is refused for want of room does not
// keep the next one from adopting the claim.
func TestFullBucketKeepsAnUnacknowledgedClaim(t *testing.T) {
	ctx := t.Context()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	relay := &natstest.Relay{}
	js := &crampedServer{JetStream: relay.Connect(t, url)}
	g := newGuard(t, js, &natsguard.Options{Timeout: brief})
	relay.Unacknowledged.Store(math.MaxInt32)
	relay.Behind.Store(math.MaxInt32)
	unspent(t, g.Claim(ctx, "id", "", print1, inAnHour()))
	relay.Unacknowledged.Store(0)
	relay.Behind.Store(0)
	js.most = 1
	if err := g.Claim(ctx, "id", "", print1, inAnHour()); !isRunning(err) {
		t.Errorf("without room: %v, want that it runs", err)
	}
	js.most = 0
	if err := g.Claim(ctx, "id", "", print1, inAnHour()); err != nil {
		t.Errorf("the claim is not adopted: %v", err)
	}
}
