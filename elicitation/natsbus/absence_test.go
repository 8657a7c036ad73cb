package natsbus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// TestReconnectingReplicaIsNotGone lets a replica come back before Grace has passed. Nobody
// listens at its subject meanwhile, and its server can be reached: those are the signs of a
// replica that has died.
func TestReconnectingReplicaIsNotGone(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, t.TempDir(), 0)
	wire := natstest.NewWire(t, srv.Addr().String())
	// No lease is renewed during the test: all that b publishes belongs to its message.
	opts := &natsbus.Options{Lease: time.Hour, Grace: time.Hour}
	a := listening(t, natstest.Connect(t, "nats://"+wire.Address()), opts)
	b := listening(t, natstest.Connect(t, srv.ClientURL()), opts)
	stranger := natstest.Connect(t, srv.ClientURL()).Conn()
	if err := a.Claim(t.Context(), key, time.Hour); err != nil {
		t.Fatal(err)
	}
	message := []byte("hello")
	for name, send := range map[string]func(context.Context) ([]byte, error){
		"by name": func(ctx context.Context) ([]byte, error) {
			return b.SendTo(ctx, a.Name(), key, message)
		},
		"by key": func(ctx context.Context) ([]byte, error) { return b.Send(ctx, key, message) },
	} {
		t.Run(name, func(t *testing.T) {
			wire.Cut()
			natstest.Eventually(t, "the server knows that nobody listens", func() bool {
				subject := natsbus.DefaultPrefix + ".q." + a.Name()
				_, err := stranger.Request(subject, nil, 100*time.Millisecond)
				return errors.Is(err, nats.ErrNoResponders)
			})
			ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
			defer cancel()
			type result struct {
				answer []byte
				err    error
			}
			sent := make(chan result, 1)
			before := b.nc.Stats().OutMsgs
			go func() {
				answer, err := send(ctx)
				sent <- result{answer, err}
			}()
			// One look at the server takes three messages; after it b sends the request again.
			const looked = 20
			natstest.Eventually(t, "b sends the message again and again", func() bool {
				return len(sent) > 0 || b.nc.Stats().OutMsgs-before >= looked
			})
			wire.Mend()
			if r := <-sent; r.err != nil || string(r.answer) != string(message) {
				t.Errorf("got %q, %v", r.answer, r.err)
			}
		})
	}
}

// TestTroubleDelaysTheVerdict on a replica at whose subject nobody listens: when the directory
// could not be reached, servers may not have restored all connections to each other yet.
func TestTroubleDelaysTheVerdict(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	opts := &natsbus.Options{Lease: time.Hour, Grace: -1}
	a := listening(t, natstest.Connect(t, url), opts)
	r := &natstest.Relay{}
	b := listening(t, r.Connect(t, url), opts)
	a.Kill()
	r.Leaderless.Store(1) // for the first look at the server of a
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	began := time.Now()
	if _, err := b.SendTo(ctx, a.Name(), key, nil); !errors.Is(err, elicitation.ErrOwnerDead) {
		t.Errorf("got %v, want that the replica is gone", err)
	}
	if n := r.Leaderless.Load(); n != 0 {
		t.Errorf("b has not met with %d refusals", n)
	}
	if took := time.Since(began); took < natsbus.DoubtTime {
		t.Errorf("b trusts the servers after %v, want at least %v", took, natsbus.DoubtTime)
	}
}

// TestDoubtsAreAboutServers that could not be reached lately; those about the directory are
// about all.
func TestDoubtsAreAboutServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d natsbus.Doubts
		check := func(when string, one, other bool) {
			t.Helper()
			if got := d.IsRecent("one"); got != one {
				t.Errorf("%s: the doubt about one is recent: %v, want %v", when, got, one)
			}
			if got := d.IsRecent("other"); got != other {
				t.Errorf("%s: the doubt about the other is recent: %v, want %v", when, got, other)
			}
		}
		check("at first", false, false)
		d.Add("one")
		check("when one could not be reached", true, false)
		time.Sleep(natsbus.DoubtTime - time.Nanosecond)
		check("a moment before it is forgotten", true, false)
		d.Add("other")
		time.Sleep(time.Nanosecond)
		check("when it is forgotten", false, true)
		d.Add("one")
		time.Sleep(natsbus.DoubtTime)
		check("when both are forgotten", false, false)
		d.Add(natsbus.TheDirectory)
		check("when the directory could not be reached", true, true)
		time.Sleep(natsbus.DoubtTime)
		check("when that is forgotten", false, false)
	})
}
