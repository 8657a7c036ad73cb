package store_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestMemoryGuardIsBounded tests bounds beyond the contract, which storetest tests.
func TestMemoryGuardIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		g := store.NewMemoryGuard(2)
		later := time.Now().Add(time.Minute)
		claim := func(id string) (store.Claim, error) {
			return g.Claim(ctx, id, "", [32]byte{1}, later)
		}
		for _, id := range []string{"a", "b"} {
			c, err := claim(id)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Commit(ctx, []byte("outcome")); err != nil {
				t.Error(err)
			}
		}
		var spent *store.SpentError
		var full *store.QuotaError
		if _, err := claim("c"); !errors.As(err, &full) || full.Limit != "server" ||
			full.RetryAfter != time.Minute {
			t.Errorf("a full guard says %v, want that there is room in a minute", err)
		}
		if _, err := claim("a"); !errors.As(err, &spent) || string(spent.Outcome) != "outcome" {
			t.Errorf("a spent one: %v", err)
		}
		time.Sleep(time.Minute + time.Second)
		later = time.Now().Add(time.Minute)
		for _, id := range []string{"d", "a"} {
			if _, err := claim(id); err != nil {
				t.Errorf("%s: expired claims leave no room: %v", id, err)
			}
		}
		if n := g.Bytes(); n != 0 {
			t.Errorf("%d bytes are kept for outcomes that are forgotten", n)
		}
	})
}

// TestMemoryGuardForgetsTheOldestOutcomes, but not their claims.
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
			claim := func(id, owner string) (store.Claim, error) {
				return g.Claim(t.Context(), id, owner,
					[32]byte{}, later)
			}
			kept := func(id, owner string) bool {
				_, err := claim(id, owner)
				spent, ok := errors.AsType[*store.SpentError](err)
				if !ok {
					t.Errorf("%s can be claimed again", id)
				}
				return ok && spent.Outcome != nil
			}
			commit := func(id, owner string, size int) {
				c, err := claim(id, owner)
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // a second commit has no effect
					if err := c.Commit(t.Context(), make([]byte, size)); err != nil {
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
			if kept("huge", tc.owner) || !kept("2", tc.owner) {
				t.Error("an outcome that is larger than all the room is kept, or displaces others")
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
			_, err := g.Claim(t.Context(), owner+"/"+fmt.Sprint(n), owner, [32]byte{}, later)
			if full, ok := errors.AsType[*store.QuotaError](err); ok {
				return n, full.Limit
			} else if err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	// An hour of 28 claims a second by one principal is not refused.
	const honest = 28 * 62 * 60
	for i := range honest {
		if _, err := g.Claim(t.Context(), "honest/"+fmt.Sprint(i), "ann", [32]byte{},
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

// TestOutcomesOfAnonymousCallersKeepNobodyOut: anonymous callers may exceed their share of bytes,
// but claims need no bytes.
func TestOutcomesOfAnonymousCallersKeepNobodyOut(t *testing.T) {
	guard, later := store.NewMemoryGuard(0), time.Now().Add(time.Hour)
	claim := func(id, owner string, size int) {
		t.Helper()
		c, err := guard.Claim(t.Context(), id, owner, [32]byte{}, later)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if err := c.Commit(t.Context(), make([]byte, size)); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
	for i := range 4 {
		claim(fmt.Sprint(i), "", store.MaxGuardBytes/4)
	}
	claim("of ann", "ann", 0)
	claim("next", "", 1000)
	for id, want := range map[string]bool{"0": false, "1": false, "2": true, "3": true,
		"next": true} {
		_, err := guard.Claim(t.Context(), id, "", [32]byte{}, later)
		if spent, ok := errors.AsType[*store.SpentError](err); !ok ||
			(spent.Outcome != nil) != want {
			t.Errorf("a replay of %s: got %v, recorded: want %v", id, err, want)
		}
	}
}
