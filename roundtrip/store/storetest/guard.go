package storetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// TestGuard checks a [store.Guard].
func TestGuard(t *testing.T, o *Options) {
	o.run(t, "claims", testClaims)
	o.run(t, "releases", testReleases)
	o.run(t, "leases", testLeases)
	o.run(t, "a holder that dies", testDeadHolder)
	o.run(t, "one winner", testOneWinner)
	o.run(t, "contexts that have ended", testEndedContexts)
	o.run(t, "outcomes", testOutcomes)
	o.run(t, "clocks", testClocks)
	o.run(t, "bounds", testGuardBounds)
}

// testClaims follows two claims between replicas, with and without an outcome.
func testClaims(t *testing.T, s *Store) {
	a, b := s.claimant(t), s.claimant(t)
	first := a.take("id")
	a.expect("id", running)
	b.expect("id", running)
	a.commit(first, "outcome")
	a.expect("id", recorded("outcome"))
	b.expect("id", recorded("outcome"))
	a.commit(first, "another outcome")
	a.release(first)
	b.expect("id", recorded("outcome"))
	if err := first.Renew(t.Context()); err == nil {
		t.Error("a committed claim is renewed")
	}

	failed := b.take("failed")
	b.commit(failed, "")
	a.expect("failed", unknown)
	b.release(failed)
	b.expect("failed", unknown)
}

// testReleases: any replica can reclaim a released state for the same answers, for good.
func testReleases(t *testing.T, s *Store) {
	a, b := s.claimant(t), s.claimant(t)
	first := a.take("id")
	a.release(first)
	a.release(first)
	if _, err := b.guard.Claim(t.Context(), "id", alice, others, inAnHour()); answerOf(
		err) != forked {
		t.Errorf("other answers claim a released state: %v", err)
	}
	if first.Renew(t.Context()) == nil || first.Commit(t.Context(), []byte("late")) == nil {
		t.Error("a released claim is renewed or committed")
	}
	second := b.take("id")
	a.release(first)
	a.expect("id", running)
	if first.Renew(t.Context()) == nil || first.Commit(t.Context(), []byte("late")) == nil {
		t.Error("a former holder renews or commits the claim of another")
	}
	a.expect("id", running)
	b.commit(second, "outcome")
	a.expect("id", recorded("outcome"))
	for range 3 {
		a.release(b.take("again and again"))
	}
	b.take("again and again")
	a.expect("again and again", running)
}

// testLeases: the end of a lease only changes the answer to others.
func testLeases(t *testing.T, s *Store) {
	a, b := s.claimant(t), s.claimant(t)
	renewed, committed, released := a.take("renewed"), a.take("committed"), a.take("released")
	s.ExpireLeases(t)
	for _, id := range []string{"renewed", "committed", "released"} {
		a.expect(id, unknown)
		b.expect(id, unknown)
	}
	expect(t, "renewal after the end of the lease", renewed.Renew(t.Context()), nil)
	b.expect("renewed", running)
	a.commit(committed, "late outcome")
	b.expect("committed", recorded("late outcome"))
	a.release(released)
	b.take("released")
	a.expect("released", running)
	s.ExpireLeases(t)
	b.expect("renewed", unknown)
	b.expect("committed", recorded("late outcome"))
}

// testDeadHolder abandons a claim and its guard. The state stays spent.
func testDeadHolder(t *testing.T, s *Store) {
	s.claimant(t).take("id")
	s.claimant(t).expect("id", running)
	for range 2 {
		s.ExpireLeases(t)
		for range 2 {
			s.claimant(t).expect("id", unknown)
		}
	}
}

func testOneWinner(t *testing.T, s *Store) {
	race := func(id string) {
		won := atOnce(t, 48, s.Guard, func(_ int, g store.Guard) error {
			_, err := g.Claim(t.Context(), id, alice, answers, inAnHour())
			return err
		}, func(n int, err error) {
			if got := answerOf(err); got != running {
				t.Errorf("claim %d of %s: got %q, want %q or %q", n, id, got, claimed, running)
			}
		})
		if won != 1 {
			t.Errorf("%d claims of %s succeeded, want 1", won, id)
		}
	}
	c := s.claimant(t)
	for _, id := range []string{"first", "second", "third"} {
		race(id)
		c.release(c.take(id + " released"))
		race(id + " released")
	}
}

// testEndedContexts: no claim is left without a holder, who can end it after the request.
func testEndedContexts(t *testing.T, s *Store) {
	c := s.claimant(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	claim, err := c.guard.Claim(gone, "id", alice, answers, inAnHour())
	if err != nil {
		if answerOf(err) == running || answerOf(err) == unknown {
			t.Fatalf("a free state: %v", err)
		}
		claim = c.take("id")
	}
	expect(t, "renew", claim.Renew(gone), nil)
	expect(t, "commit", claim.Commit(gone, []byte("outcome")), nil)
	c.expect("id", recorded("outcome"))
	released := c.take("released")
	expect(t, "release", released.Release(gone), nil)
	c.take("released")
}

// testOutcomes: outcomes come back unchanged, and a state has only one.
func testOutcomes(t *testing.T, s *Store) {
	a, b := s.claimant(t), s.claimant(t)
	outcomes := map[string]string{
		"binary": "\x00\xff\n'\"\\",
		"long":   strings.Repeat("long ", 10_000),
	}
	for id, outcome := range outcomes {
		a.commit(a.take(id), outcome)
	}
	for id, outcome := range outcomes {
		b.expect(id, recorded(outcome))
	}
}

// testClocks claims with a late clock: by the store's clock the state has expired.
func testClocks(t *testing.T, s *Store) {
	if s.Skew == 0 {
		t.Skip("one clock")
	}
	for _, until := range []time.Time{time.Now().Add(-s.Skew), time.Now().Add(s.Skew)} {
		c, id := s.claimant(t), until.String()
		claim, err := c.guard.Claim(t.Context(), id, alice, answers, until)
		if err != nil {
			t.Fatal(err)
		}
		s.claimant(t).expect(id, running)
		c.commit(claim, "outcome")
		s.claimant(t).expect(id, recorded("outcome"))
	}
}

// testGuardBounds fills a guard. Claimed states stay spent, with or without room.
func testGuardBounds(t *testing.T, s *Store) {
	if s.Entries == 0 {
		t.Skip("no bounds")
	}
	c := s.claimant(t)
	guards, n := []store.Guard{c.guard, s.Guard(t)}, 0
	s.checkBounds(t, "guard", func(id, owner string) error {
		n++
		_, err := guards[n%2].Claim(t.Context(), id, owner, answers, inAnHour())
		return err
	})
	c.expect("alice 0", running)
}
