package natsbus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/bustest"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// mortal is a bus that can be killed: its connection closes, and nothing else
// is done.
type mortal struct {
	*natsbus.Bus
	nc *nats.Conn
}

func (m mortal) Kill() { m.nc.Close() }

const key = "q.1"

func open(t testing.TB, js jetstream.JetStream, opts *natsbus.Options) mortal {
	t.Helper()
	b, err := natsbus.New(t.Context(), js, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return mortal{b, js.Conn()}
}

func echo(_ context.Context, _ string, message []byte) []byte { return message }

func listening(t testing.TB, js jetstream.JetStream, opts *natsbus.Options) mortal {
	t.Helper()
	b := open(t, js, opts)
	if err := b.Listen(echo); err != nil {
		t.Fatal(err)
	}
	return b
}

// sendBriefly makes one of several attempts to send a message to the owner of key.
func (m mortal) sendBriefly(t testing.TB, message string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.Context(), attemptTime)
	defer cancel()
	return m.Send(ctx, key, []byte(message))
}

// leavesOpen reports whether err leaves open whether the key has an owner, and
// whether the owner has handled the message.
func leavesOpen(err error) bool {
	return err != nil && !errors.Is(err, elicitation.ErrNoOwner) &&
		!errors.Is(err, elicitation.ErrOwnerDead)
}

func TestBus(t *testing.T) {
	bustest.RunBus(t, func(t *testing.T) (a, b elicitation.Bus) {
		url := natstest.Start(t, t.TempDir(), 0).ClientURL()
		opts := &natsbus.Options{Lease: natsbus.MinLease}
		return open(t, natstest.Connect(t, url), opts), open(t, natstest.Connect(t, url), opts)
	})
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
	err := b.Close()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, nats.ErrNoResponders) {
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
