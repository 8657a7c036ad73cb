package natsbus_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

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
	if _, err := a.Send(t.Context(), "q.none", nil); !errors.Is(err, elicitation.ErrUnclaimed) {
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
			if _, err := a.Send(t.Context(), "q.none", nil); !errors.Is(err, elicitation.ErrUnclaimed) {
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
