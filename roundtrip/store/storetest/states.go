package storetest

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// idOf returns an id as the funnel makes them.
func idOf(name string) string { return fmt.Sprintf("%x%s", name, strings.Repeat("0", 64))[:64] }

// TestStateStore checks a [store.StateStore].
func TestStateStore(t *testing.T, o *Options) {
	o.run(t, "states", testStates)
	o.run(t, "one state of many", testOneState)
	o.run(t, "clocks of states", testStateClocks)
	o.run(t, "bounds of states", testStateBounds)
}

func testStates(t *testing.T, s *Store) {
	a, b, ctx := s.States(t), s.States(t), t.Context()
	want := map[string][]byte{
		idOf("small"): []byte("\x00\xff'"),
		idOf("large"): []byte(strings.Repeat("0123456789abcdef", 64<<10)),
	}
	for id, state := range want {
		_, err := b.Get(ctx, id)
		expect(t, "get of nothing", err, store.ErrStateGone)
		given := bytes.Clone(state)
		expect(t, "put", a.Put(ctx, id, alice, given, inAnHour()), nil)
		clear(given) // the store must not retain it
		if err := b.Put(ctx, id, alice, []byte("another"), inAnHour()); err == nil {
			t.Error("an id was put twice")
		}
	}
	for id, state := range want {
		for _, states := range []store.StateStore{a, b, s.States(t)} {
			if got, err := states.Get(ctx, id); err != nil || !bytes.Equal(got, state) {
				t.Errorf("got %d bytes, %v, want the %d that were put", len(got), err, len(state))
			}
		}
	}
}

// testOneState puts many states under one id at once. One succeeds, and stays.
func testOneState(t *testing.T, s *Store) {
	for _, id := range []string{idOf("first"), idOf("second")} {
		var kept atomic.Value
		won := atOnce(t, 24, s.States, func(n int, states store.StateStore) error {
			state := fmt.Sprint("state ", n)
			err := states.Put(t.Context(), id, alice, []byte(state), inAnHour())
			if err == nil {
				kept.Store(state)
			}
			return err
		}, func(int, error) {})
		got, err := s.States(t).Get(t.Context(), id)
		if won != 1 || err != nil || string(got) != kept.Load() {
			t.Errorf("%d of many states were put; got %q, %v, want %q", won, got, err, kept.Load())
		}
	}
}

func testStateClocks(t *testing.T, s *Store) {
	if s.Skew == 0 {
		t.Skip("one clock")
	}
	id := idOf("past")
	err := s.States(t).Put(t.Context(), id, alice, []byte("x"), time.Now().Add(-s.Skew))
	expect(t, "put", err, nil)
	_, err = s.States(t).Get(t.Context(), id)
	expect(t, fmt.Sprintf("a caller whose clock is behind by %v", s.Skew), err, nil)
}

func testStateBounds(t *testing.T, s *Store) {
	if s.Entries == 0 {
		t.Skip("no bounds")
	}
	states, n := []store.StateStore{s.States(t), s.States(t)}, 0
	s.checkBounds(t, "store", func(id, owner string) error {
		n++
		return states[n%2].Put(t.Context(), idOf(id), owner, []byte("x"), inAnHour())
	})
	_, err := s.States(t).Get(t.Context(), idOf("alice 0"))
	expect(t, "get from a full store", err, nil)
}
