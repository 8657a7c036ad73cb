package store_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/store"
)

func TestMemoryGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		g := store.NewMemoryGuard(2)
		later := time.Now().Add(time.Minute)
		claim := func(id string) error { return g.Claim(ctx, id, "", [32]byte{1}, later) }
		for _, id := range []string{"a", "b"} {
			if err := claim(id); err != nil {
				t.Fatal(err)
			}
		}
		var spent *store.SpentError
		var full *store.QuotaError
		if err := claim("c"); !errors.As(err, &full) || full.Limit != "server" ||
			full.RetryAfter != time.Minute {
			t.Errorf("a full guard says %v, want that there is room in a minute", err)
		}
		if err := claim("a"); !errors.As(err, &spent) || spent.Outcome != nil || !spent.Running {
			t.Errorf("a claim that runs: %v", err)
		}
		if err := g.Claim(ctx, "a", "", [32]byte{2}, later); !errors.As(err, &spent) ||
			spent.Running {
			t.Errorf("a fork of a claim that runs: %v", err)
		}
		if err := g.Commit(ctx, "a", []byte("outcome")); err != nil {
			t.Error(err)
		}
		if err := claim("a"); !errors.As(err, &spent) || string(spent.Outcome) != "outcome" ||
			spent.Running {
			t.Errorf("a spent one: %v", err)
		}
		if err := g.Claim(ctx, "a", "", [32]byte{2}, later); !errors.As(err, &spent) ||
			spent.Outcome != nil {
			t.Errorf("a fork: %v, outcome %q", err, spent.Outcome)
		}
		if err := g.Release(ctx, "a"); err != nil {
			t.Error(err)
		}
		if err := claim("a"); !errors.As(err, &spent) {
			t.Error("a committed claim was released")
		}
		if err := g.Release(ctx, "b"); err != nil {
			t.Error(err)
		}
		if err := g.Claim(ctx, "b", "", [32]byte{2}, later); !errors.As(err, &spent) ||
			spent.Running || spent.Unknown {
			t.Errorf("other answers claim what was released: %v", err)
		}
		if err := claim("b"); err != nil {
			t.Errorf("the same answers cannot claim what was released: %v", err)
		}
		if err := claim("b"); !errors.As(err, &spent) || !spent.Running {
			t.Errorf("what was released is claimed twice: %v", err)
		}
		if err := g.Commit(ctx, "b", nil); err != nil {
			t.Error(err)
		}
		if err := claim("b"); !errors.As(err, &spent) || !spent.Unknown || spent.Running {
			t.Errorf("ended without an outcome: %+v", err)
		}
		if err := g.Commit(ctx, "nobody", nil); err == nil {
			t.Error("Commit without a claim succeeds")
		}

		time.Sleep(time.Minute + time.Second)
		later = time.Now().Add(time.Minute)
		for _, id := range []string{"d", "a"} {
			if err := claim(id); err != nil {
				t.Errorf("%s: expired claims leave no room: %v", id, err)
			}
		}
		if n := g.Bytes(); n != 0 {
			t.Errorf("%d bytes are kept for outcomes that are forgotten", n)
		}
	})
}

// TestMemoryGuardForgetsTheOldestOutcomes keeps the claims whose outcomes there
// is no room for any more.
func TestMemoryGuardForgetsTheOldestOutcomes(t *testing.T) {
	for _, tc := range []struct {
		name, owner string
		size        int
	}{
		{"anonymous callers, all there is", "", store.MaxGuardBytes / 2},
		{"one principal, its share", "ann", store.MaxGuardBytes / 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := store.NewMemoryGuard(0)
			later := time.Now().Add(time.Hour)
			claim := func(id, owner string) error {
				return g.Claim(t.Context(), id, owner,
					[32]byte{}, later)
			}
			kept := func(id, owner string) bool {
				spent, ok := errors.AsType[*store.SpentError](claim(id, owner))
				if !ok {
					t.Errorf("%s can be claimed again", id)
				}
				return ok && spent.Outcome != nil
			}
			commit := func(id, owner string, size int) {
				if err := claim(id, owner); err != nil {
					t.Fatal(err)
				}
				for range 2 { // a second commit replaces the first
					if err := g.Commit(t.Context(), id, make([]byte, size)); err != nil {
						t.Fatal(err)
					}
				}
			}
			commit("other", "bob", 10)
			for i := range 3 {
				commit(fmt.Sprint(i), tc.owner, tc.size)
			}
			if got, want := [...]bool{kept("0", tc.owner), kept("2", tc.owner)}, [...]bool{false,
				true}; got != want {
				t.Errorf("outcomes kept, the first and the last: %v, want %v", got, want)
			}
			if tc.owner != "" && !kept("other", "bob") {
				t.Error("the outcome of somebody else was forgotten")
			}
			commit("huge", tc.owner, store.MaxGuardBytes+1)
			if kept("huge", tc.owner) {
				t.Error("an outcome is kept that is larger than all the room")
			}
		})
	}
}

// TestMemoryGuardShares: one principal cannot lock others out, at the defaults.
func TestMemoryGuardShares(t *testing.T) {
	g := store.NewMemoryGuard(0)
	later := time.Now().Add(time.Hour)
	fill := func(owner string) (n int, limit string) {
		for {
			err := g.Claim(t.Context(), owner+"/"+fmt.Sprint(n), owner, [32]byte{}, later)
			if full, ok := errors.AsType[*store.QuotaError](err); ok {
				return n, full.Limit
			} else if err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	// What is spent in an hour at 28 a second, by one principal, is not refused.
	const honest = 28 * 62 * 60
	for i := range honest {
		if err := g.Claim(t.Context(), "honest/"+fmt.Sprint(i), "ann", [32]byte{},
			later); err != nil {
			t.Fatalf("claim %d: %v", i, err)
		}
	}
	for _, tc := range []struct {
		name, owner string
		want        int
	}{
		{"principal", "ann", store.MaxGuardEntries/4 - honest},
		{"nobody", "", store.MaxGuardEntries * 3 / 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if n, limit := fill(tc.owner); n != tc.want || limit != "principal" {
				t.Errorf("%q got %d claims more, refused by %q, want %d, its share", tc.owner, n, limit,
					tc.want)
			}
		})
	}
}

// TestMemoryGuardEndsWithoutOutcome: a leg that has failed does not run, and one
// of which nothing is heard does not run for ever.
func TestMemoryGuardEndsWithoutOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, g, later := t.Context(), store.NewMemoryGuard(0), time.Now().Add(time.Hour)
		var spent *store.SpentError
		for _, id := range []string{"failed", "silent"} {
			if err := g.Claim(ctx, id, "", [32]byte{}, later); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Commit(ctx, "failed", nil); err != nil {
			t.Fatal(err)
		}
		if err := g.Claim(ctx, "failed", "", [32]byte{}, later); !errors.As(err, &spent) ||
			spent.Running || spent.Outcome != nil {
			t.Errorf("failed: %+v", spent)
		}
		time.Sleep(2*time.Minute - time.Nanosecond)
		if err := g.Claim(ctx, "silent", "", [32]byte{}, later); !errors.As(err, &spent) ||
			!spent.Running {
			t.Errorf("silent: %+v", spent)
		}
		time.Sleep(time.Nanosecond)
		if err := g.Claim(ctx, "silent", "", [32]byte{}, later); !errors.As(err, &spent) ||
			spent.Running {
			t.Errorf("silent for long: %+v", spent)
		}
	})
}

// TestOutcomesOfAnonymousCallersKeepNobodyOut: they may hold more bytes than their
// share when the first principal comes, but a claim takes none.
func TestOutcomesOfAnonymousCallersKeepNobodyOut(t *testing.T) {
	guard, later := store.NewMemoryGuard(0), time.Now().Add(time.Hour)
	claim := func(id, owner string) {
		t.Helper()
		if err := guard.Claim(t.Context(), id, owner, [32]byte{}, later); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
	commit := func(id string, size int) {
		t.Helper()
		if err := guard.Commit(t.Context(), id, make([]byte, size)); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
	for i := range 4 {
		claim(fmt.Sprint(i), "")
		commit(fmt.Sprint(i), store.MaxGuardBytes/4)
	}
	claim("of ann", "ann")
	claim("next", "")
	commit("next", 1000)
	for id, want := range map[string]bool{"0": false, "1": false, "2": true, "3": true,
		"next": true} {
		err := guard.Claim(t.Context(), id, "", [32]byte{}, later)
		if spent, ok := errors.AsType[*store.SpentError](err); !ok ||
			(spent.Outcome != nil) != want {
			t.Errorf("a replay of %s: got %v, recorded: want %v", id, err, want)
		}
	}
}

// TestOutcomeThatCannotBeKept leaves those alone that are.
func TestOutcomeThatCannotBeKept(t *testing.T) {
	guard, later := store.NewMemoryGuard(0), time.Now().Add(time.Hour)
	for _, owner := range []string{"", "ann"} {
		for _, c := range []struct {
			id   string
			size int
		}{{"small", 1000}, {"huge", store.MaxGuardBytes + 1}} {
			if err := guard.Claim(t.Context(), owner+c.id, owner, [32]byte{}, later); err != nil {
				t.Fatal(err)
			}
			if err := guard.Commit(t.Context(), owner+c.id, make([]byte, c.size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for id, want := range map[string]int{"small": 1000, "huge": 0, "annsmall": 1000, "annhuge": 0} {
		err := guard.Claim(t.Context(), id, "", [32]byte{}, later)
		if spent, ok := errors.AsType[*store.SpentError](err); !ok ||
			len(spent.Outcome) != want {
			t.Errorf("a replay of %s: got %v, want %d recorded bytes", id, err, want)
		}
	}
}
