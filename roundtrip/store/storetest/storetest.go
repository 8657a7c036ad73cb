// Package storetest tests implementations of the interfaces of package store:
//
//	func TestGuard(t *testing.T) {
//		storetest.TestGuard(t, &storetest.Options{Open: func(t *testing.T) *storetest.Store {
//			db := createDatabase(t)
//			return &storetest.Store{
//				Guard:        func(t *testing.T) store.Guard { return open(t, db) },
//				ExpireLeases: func(t *testing.T) { moveLeases(t, db) },
//			}
//		}})
//	}
//
// Failures that need an outage, such as of a network, are not tested.
package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// Options configure the tests of an implementation.
type Options struct {
	Open func(t *testing.T) *Store // an empty store for one test; required
	// Bubble runs tests under testing/synctest, without real sleep, for implementations in memory.
	Bubble bool
}

// A Store is shared by the guards, state stores, or task stores of several replicas.
type Store struct {
	// Guard opens the store for another replica, for [TestGuard]. In memory, return the same guard.
	Guard  func(t *testing.T) store.Guard
	States func(t *testing.T) store.StateStore // likewise for [TestStateStore]
	Tasks  func(t *testing.T) store.TaskStore  // likewise for [TestTaskStore]
	// ExpireLeases ends all leases, for [TestGuard]. In a bubble it may sleep for [store.Lease].
	ExpireLeases func(t *testing.T)
	// Entries is the limit for all owners, at least 40; one owner may use a quarter. 0 skips this.
	Entries int
	// TaskBytes is the limit of finished tasks' records, a quarter for one owner. 0 skips this.
	TaskBytes int
	// Skew is how late a caller's clock may be without early expiry of entries. 0 means one clock.
	Skew time.Duration
}

// run runs one test with its own store.
func (o *Options) run(t *testing.T, name string, test func(t *testing.T, s *Store)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		if o.Bubble {
			synctest.Test(t, func(t *testing.T) { test(t, o.Open(t)) })
			return
		}
		test(t, o.Open(t))
	})
}

var answers, others = [32]byte{1}, [32]byte{2}

const alice, bob = "digest of alice", "digest of bob"

// An answer is a guard's response to a claim, for messages and comparisons.
type answer string

const (
	claimed answer = "claimed"
	running answer = "spent, running"
	unknown answer = "spent, outcome unknown"
	forked  answer = "spent, no more"
)

func recorded(outcome string) answer { return answer("spent, outcome " + outcome) }

func answerOf(err error) answer {
	if err == nil {
		return claimed
	}
	spent, ok := errors.AsType[*store.SpentError](err)
	switch {
	case !ok:
		return answer("error: " + err.Error())
	case spent.Outcome != nil:
		return recorded(string(spent.Outcome))
	case spent.Running && !spent.Unknown:
		return running
	case spent.Unknown && !spent.Running:
		return unknown
	case !spent.Running:
		return forked
	}
	return "spent, running and unknown"
}

// A claimant makes claims at one guard.
type claimant struct {
	t     *testing.T
	guard store.Guard
}

func (s *Store) claimant(t *testing.T) claimant { return claimant{t, s.Guard(t)} }

func inAnHour() time.Time { return time.Now().Add(time.Hour) }

// take claims an id that must be free for these answers.
func (c claimant) take(id string) store.Claim {
	c.t.Helper()
	claim, err := c.guard.Claim(c.t.Context(), id, alice, answers, inAnHour())
	if err != nil {
		c.t.Fatalf("claim of %s: %v, want that it is claimed", id, err)
	}
	if claim == nil {
		c.t.Fatalf("claim of %s: no error and no claim", id)
	}
	return claim
}

// expect claims an id that must not be free, with the first answers and with others.
func (c claimant) expect(id string, want answer) {
	c.t.Helper()
	for print, want := range map[[32]byte]answer{answers: want, others: forked} {
		claim, err := c.guard.Claim(c.t.Context(), id, alice, print, inAnHour())
		if got := answerOf(err); got != want {
			c.t.Errorf("claim of %s, other answers %v: got %q, want %q", id, print == others, got, want)
		}
		if err != nil && claim != nil {
			c.t.Errorf("claim of %s: a claim beside an error", id)
		}
	}
}

func (c claimant) commit(claim store.Claim, outcome string) {
	c.t.Helper()
	var data []byte
	if outcome != "" {
		data = []byte(outcome)
	}
	expect(c.t, "commit", claim.Commit(c.t.Context(), data), nil)
}

func (c claimant) release(claim store.Claim) {
	c.t.Helper()
	expect(c.t, "release", claim.Release(c.t.Context()), nil)
}

// atOnce calls do() n times at once, on three stores, and counts successes; check gets the errors.
func atOnce[S any](t *testing.T, n int, open func(*testing.T) S, do func(n int, s S) error,
	check func(n int, err error)) int {
	t.Helper()
	opened := []S{open(t), open(t), open(t)}
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := do(i, opened[i%len(opened)]); err == nil {
				won.Add(1)
			} else {
				check(i, err)
			}
		})
	}
	wg.Wait()
	return int(won.Load())
}

// fill takes entries for an owner until refused, and returns their number and the refusal.
func fill(t *testing.T, most int, take func(n int) error) (int, *store.QuotaError) {
	t.Helper()
	for n := range most + 1 {
		err := take(n)
		if full, ok := errors.AsType[*store.QuotaError](err); ok {
			return n, full
		}
		if err != nil {
			t.Fatalf("entry %d: %v", n, err)
		}
	}
	t.Fatalf("more than %d entries were taken", most)
	return 0, nil
}

// checkBounds checks owners' shares. The function put stores one more entry.
func (s *Store) checkBounds(t *testing.T, resource string, put func(id, owner string) error) {
	t.Helper()
	got, full := fill(t, s.Entries, func(n int) error {
		return put(fmt.Sprint("alice ", n), alice)
	})
	if got != s.Entries/4 || full.Limit != "principal" || full.Resource != resource {
		t.Errorf("one owner got %d entries, then %+v; want %d, a quarter", got, full, s.Entries/4)
	}
	expect(t, "the room of another owner", put("bob", bob), nil)
	got, full = fill(t, s.Entries, func(n int) error {
		return put(fmt.Sprint("others ", n), fmt.Sprint("owner ", n))
	})
	if want := s.Entries - s.Entries/4 - 1; got != want || full.Limit != "server" {
		t.Errorf("others got %d entries, then %+v; want %d", got, full, want)
	}
}
