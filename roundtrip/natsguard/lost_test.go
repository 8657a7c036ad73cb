package natsguard_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
)

// TestLostBucketFailsClosed: while there is no bucket nothing is claimed, and no state is said
// not to exist.
func TestLostBucketFailsClosed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	opts := &natsguard.Options{Timeout: brief}
	g := newGuard(t, js, opts)
	s, err := natsguard.NewStateStore(ctx, js, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Claim(ctx, "before", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ctx, "id", "owner", []byte("state"), inAnHour()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{natsguard.DefaultBucket, natsguard.DefaultStateBucket} {
		if err := js.DeleteKeyValue(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	unspent(t, g.Claim(ctx, "before", "", print1, inAnHour()))
	unspent(t, g.Claim(ctx, "new", "", print1, inAnHour()))
	if err := g.Commit(ctx, "before", []byte("outcome")); err == nil {
		t.Error("an outcome is recorded without a bucket")
	}
	if _, err := s.Get(ctx, "id"); err == nil || errorsIsGone(err) {
		t.Errorf("get: %v", err)
	}
}
