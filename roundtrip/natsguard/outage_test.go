package natsguard_test

import (
	"net"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
)

// TestRestart keeps what was claimed, over a server that is started again on
// the same files.
func TestRestart(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	srv := natstest.Start(t, dir, 0)
	opts := &natsguard.Options{Timeout: natstest.Patience}
	g := newGuard(t, natstest.Connect(t, srv.ClientURL()), opts)
	for _, id := range []string{"running", "committed"} {
		if err := g.Claim(ctx, id, "", print1, inAnHour()); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Commit(ctx, "committed", []byte("outcome")); err != nil {
		t.Fatal(err)
	}
	port := srv.Addr().(*net.TCPAddr).Port
	natstest.Stop(srv)
	natstest.Start(t, dir, port)

	// The same guard, on a connection that finds the new server; and a fresh one.
	fresh := newGuard(t, natstest.Connect(t, srv.ClientURL()), nil)
	for name, g := range map[string]*natsguard.Guard{"old": g, "fresh": fresh} {
		spent(t, g.Claim(ctx, "running", "", print1, inAnHour()))
		if got := spent(t, g.Claim(ctx, "committed", "", print1,
			inAnHour())); string(got) != "outcome" {
			t.Errorf("%s: outcome %q", name, got)
		}
	}
	if err := g.Commit(ctx, "running", []byte("late")); err != nil {
		t.Errorf("a claim from before the restart: %v", err)
	}
}

// TestUnreachable fails closed, and soon.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	srv := natstest.Start(t, t.TempDir(), 0)
	js := natstest.Connect(t, srv.ClientURL())
	opts := &natsguard.Options{Timeout: brief}
	g := newGuard(t, js, opts)
	s, err := natsguard.NewStateStore(ctx, js, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Claim(ctx, "before", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	natstest.Stop(srv)
	began := time.Now()
	unspent(t, g.Claim(ctx, "before", "", print1, inAnHour()))
	unspent(t, g.Claim(ctx, "new", "", print1, inAnHour()))
	for what, err := range map[string]error{
		"commit":  g.Commit(ctx, "before", nil),
		"release": g.Release(ctx, "before"),
		"put":     s.Put(ctx, "id", "owner", []byte("state"), inAnHour()),
	} {
		if err == nil {
			t.Errorf("%s succeeds without a server", what)
		}
	}
	if _, err := s.Get(ctx, "id"); err == nil || errorsIsGone(err) {
		t.Errorf("get: %v", err)
	}
	if _, err := natsguard.New(ctx, js, opts); err == nil {
		t.Error("a guard is made without a server")
	}
	if took := time.Since(began); took > natstest.Patience/2 {
		t.Errorf("it took %v", took)
	}
	js.Conn().Close()
	unspent(t, g.Claim(ctx, "new", "", print1, inAnHour()))
}

// TestPartition cuts one replica off without closing its connection, which is
// what a network does that drops packets.
func TestPartition(t *testing.T) {
	ctx := t.Context()
	srv := natstest.Start(t, t.TempDir(), 0)
	wire := natstest.NewWire(t, srv.Addr().String())
	near := newGuard(t, natstest.Connect(t, srv.ClientURL()), nil)
	far := newGuard(t, natstest.Connect(t, "nats://"+wire.Address()),
		&natsguard.Options{Timeout: brief})

	wire.Block()
	began := time.Now()
	unspent(t, far.Claim(ctx, "id", "", print1, inAnHour()))
	if took := time.Since(began); took > natstest.Patience/2 {
		t.Errorf("it took %v", took)
	}
	if err := near.Claim(ctx, "id", "", print1, inAnHour()); err != nil {
		t.Errorf("the other side of the partition: %v", err)
	}
	wire.Mend()
	// What far sent while it was cut off arrives now, and must not win.
	if err := near.Commit(ctx, "id", []byte("of near")); err != nil {
		t.Errorf("the claim was taken over: %v", err)
	}
	err := retry(t, func() error { return far.Claim(ctx, "id", "", print1, inAnHour()) })
	if got := spent(t, err); string(got) != "of near" {
		t.Errorf("outcome %q", got)
	}
}

// retry calls f until its error is about the state and not about the network.
func retry(t *testing.T, f func() error) (err error) {
	t.Helper()
	natstest.Eventually(t, "the network works", func() bool {
		err = f()
		return err == nil || isSpent(err)
	})
	return err
}
