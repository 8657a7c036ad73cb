package natsguard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

var print1, print2 = [32]byte{1}, [32]byte{2}

// brief is the Timeout of guards whose calls are to fail. Others of their calls are to succeed,
// on a busy machine, too.
const brief = time.Second

func newGuard(t testing.TB, js jetstream.JetStream, opts *natsguard.Options) *natsguard.Guard {
	t.Helper()
	g, err := natsguard.New(t.Context(), js, opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// pair is two replicas on connections of their own.
func pair(t testing.TB, opts *natsguard.Options) (a, b *natsguard.Guard, js jetstream.JetStream) {
	t.Helper()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	js = natstest.Connect(t, url)
	return newGuard(t, js, opts), newGuard(t, natstest.Connect(t, url), opts), js
}

// spent returns the outcome that comes with a SpentError, and fails the test
// for any other error.
func spent(t testing.TB, err error) []byte {
	t.Helper()
	e, ok := errors.AsType[*store.SpentError](err)
	if !ok {
		t.Fatalf("got %v, want a SpentError", err)
	}
	return e.Outcome
}

func unspent(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if _, ok := errors.AsType[*store.SpentError](err); ok {
		t.Fatalf("got a SpentError, want a refusal for another reason")
	}
}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }

func TestGuard(t *testing.T) {
	ctx := t.Context()
	a, b, _ := pair(t, nil)
	if err := a.Claim(ctx, "id", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*natsguard.Guard{"the same replica": a, "another": b} {
		if got := spent(t, g.Claim(ctx, "id", "", print1, inAnHour())); got != nil {
			t.Errorf("%s gets outcome %q of a claim that runs", name, got)
		}
	}
	if err := b.Commit(ctx, "id", []byte("forged")); err == nil {
		t.Error("a replica commits the claim of another")
	}
	if err := b.Release(ctx, "id"); err != nil {
		t.Error(err)
	}
	spent(t, b.Claim(ctx, "id", "", print1, inAnHour()))
	if err := a.Commit(ctx, "id", []byte("outcome")); err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*natsguard.Guard{"the same replica": a, "another": b} {
		if got := spent(t, g.Claim(ctx, "id", "", print1, inAnHour())); string(got) != "outcome" {
			t.Errorf("%s gets outcome %q", name, got)
		}
		if got := spent(t, g.Claim(ctx, "id", "", print2, inAnHour())); got != nil {
			t.Errorf("%s gets outcome %q for other answers", name, got)
		}
		if err := g.Release(ctx, "id"); err != nil {
			t.Error(err)
		}
	}
	spent(t, b.Claim(ctx, "id", "", print1, inAnHour()))
	if err := a.Commit(ctx, "id", nil); err == nil {
		t.Error("a claim is committed twice")
	}
}

// TestRelease leaves a key that can be claimed again, by anybody, once.
func TestRelease(t *testing.T) {
	ctx := t.Context()
	a, b, _ := pair(t, nil)
	for range 3 {
		for _, g := range []*natsguard.Guard{a, b} {
			if err := g.Claim(ctx, "id", "", print1, inAnHour()); err != nil {
				t.Fatal(err)
			}
			spent(t, b.Claim(ctx, "id", "", print1, inAnHour()))
			if err := g.Release(ctx, "id"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.Commit(ctx, "id", nil); err == nil {
		t.Error("a released claim is committed")
	}
}

// TestOvertakenReplicaChangesNothing: another has the claim, here because somebody
// deleted the first.
func TestOvertakenReplicaChangesNothing(t *testing.T) {
	ctx := t.Context()
	a, b, js := pair(t, nil)
	if err := a.Claim(ctx, "id", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(ctx, natsguard.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.Keys(ctx)
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	if err := kv.Purge(ctx, keys[0]); err != nil {
		t.Fatal(err)
	}
	if err := b.Claim(ctx, "id", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	if err := a.Release(ctx, "id"); err != nil {
		t.Error(err)
	}
	if err := b.Commit(ctx, "id", []byte("of b")); err != nil {
		t.Fatalf("the claim of b was released by a: %v", err)
	}
	if got := spent(t, a.Claim(ctx, "id", "", print1, inAnHour())); string(got) != "of b" {
		t.Errorf("outcome %q", got)
	}
}

func TestDeletedClaimIsNotCommitted(t *testing.T) {
	ctx := t.Context()
	a, b, js := pair(t, nil)
	if err := a.Claim(ctx, "id", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(ctx, natsguard.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	keys, _ := kv.Keys(ctx)
	if err := kv.Purge(ctx, keys[0]); err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(ctx, "id", []byte("late")); err == nil {
		t.Error("a claim that is gone is committed")
	}
	if err := b.Claim(ctx, "id", "", print1, inAnHour()); err != nil {
		t.Errorf("the late commit took effect: %v", err)
	}
}

// TestOneWinner has two replicas claim one state a hundred times at once.
func TestOneWinner(t *testing.T) {
	a, b, _ := pair(t, nil)
	for round := range 5 {
		if won := race(t, fmt.Sprint("id", round), a, b); won != 1 {
			t.Errorf("round %d: %d claims of 100 succeeded, want 1", round, won)
		}
	}
}

func race(t *testing.T, id string, guards ...*natsguard.Guard) int32 {
	t.Helper()
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			err := guards[i%len(guards)].Claim(t.Context(), id, "", print1, inAnHour())
			if err == nil {
				won.Add(1)
			} else if _, ok := errors.AsType[*store.SpentError](err); !ok {
				t.Errorf("claim %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	return won.Load()
}

// TestOutcomeIsBounded refuses the replay of what is too long to be kept.
func TestOutcomeIsBounded(t *testing.T) {
	ctx := t.Context()
	a, b, _ := pair(t, &natsguard.Options{MaxOutcome: 100})
	for n, kept := range map[int]bool{0: true, 100: true, 101: false, 3 << 20: false} {
		id := fmt.Sprint("id", n)
		if err := a.Claim(ctx, id, "", print1, inAnHour()); err != nil {
			t.Fatal(err)
		}
		outcome := bytes.Repeat([]byte("x"), n)
		if err := a.Commit(ctx, id, outcome); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		got := spent(t, b.Claim(ctx, id, "", print1, inAnHour()))
		if kept && (got == nil || !bytes.Equal(got, outcome)) || !kept && got != nil {
			t.Errorf("%d bytes: %d come back, nil %v; want kept %v", n, len(got), got == nil, kept)
		}
	}

	// Whatever the options say, the server takes no more than its payload.
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	c := newGuard(t, natstest.Connect(t, url), &natsguard.Options{MaxOutcome: 64 << 20})
	for _, n := range []int{900 << 10, 2 << 20} {
		id := fmt.Sprint("id", n)
		if err := c.Claim(ctx, id, "", print1, inAnHour()); err != nil {
			t.Fatal(err)
		}
		if err := c.Commit(ctx, id, make([]byte, n)); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		if got := spent(t, c.Claim(ctx, id, "", print1, inAnHour())); (got != nil) != (n < 1<<20) {
			t.Errorf("%d bytes: %d come back", n, len(got))
		}
	}
}

// TestExpiry forgets a claim, committed or not, when its time has come and not
// before.
func TestExpiry(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, b, js := pair(t, nil)
	until := time.Now().Add(1500 * time.Millisecond)
	for _, id := range []string{"running", "committed"} {
		if err := a.Claim(ctx, id, "", print1, until); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Commit(ctx, "committed", []byte("outcome")); err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(ctx, natsguard.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the claims expire", func() bool {
		keys, err := kv.Keys(ctx)
		if left := time.Until(until); len(keys) != 2 && left > 0 {
			t.Fatalf("%d claims are remembered %v before their time", len(keys), left)
		}
		return errors.Is(err, jetstream.ErrNoKeysFound)
	})
	for _, id := range []string{"running", "committed"} {
		if err := b.Claim(ctx, id, "", print1, inAnHour()); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestBucketHidesSecrets looks for ids, answers and outcomes in what is stored.
func TestBucketHidesSecrets(t *testing.T) {
	ctx := t.Context()
	a, _, js := pair(t, nil)
	const id, secret = "3f1c9a0277d84c0cb4f5a9e2d6071b88", "the outcome is confidential"
	answers := [32]byte(bytes.Repeat([]byte("f"), 32))
	if err := a.Claim(ctx, id, "", answers, inAnHour()); err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(ctx, id, []byte(secret)); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, "KV_"+natsguard.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetMsg(ctx, info.State.LastSeq)
	if err != nil {
		t.Fatal(err)
	}
	all := m.Subject + " " + string(m.Data) + fmt.Sprint(m.Header)
	for _, hidden := range []string{id, id[:8], secret, "confidential", string(answers[:])} {
		if strings.Contains(all, hidden) {
			t.Errorf("%q shows in %q", hidden, all)
		}
	}
}

// TestEqualAnswersLookDifferent where they are stored for two states.
func TestEqualAnswersLookDifferent(t *testing.T) {
	ctx := t.Context()
	a, _, js := pair(t, &natsguard.Options{Share: -1})
	kv, err := js.KeyValue(ctx, natsguard.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"one", "two"} {
		if err := a.Claim(ctx, id, "", print1, inAnHour()); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := kv.Keys(ctx)
	if err != nil || len(keys) != 2 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	var prints []string
	for _, key := range keys {
		e, err := kv.Get(ctx, key)
		if err != nil || len(e.Value()) != 50 {
			t.Fatalf("%x, %v", e.Value(), err)
		}
		prints = append(prints, string(e.Value()[18:]))
	}
	if prints[0] == prints[1] {
		t.Errorf("both are %x", prints[0])
	}
}

// TestForgedEntries never make a state usable again, and none yields a forged
// outcome.
func TestForgedEntries(t *testing.T) {
	ctx := t.Context()
	a, b, js := pair(t, nil)
	kv, err := js.KeyValue(ctx, natsguard.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Claim(ctx, "id", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(ctx, "id", []byte("outcome")); err != nil {
		t.Fatal(err)
	}
	keys, _ := kv.Keys(ctx)
	good, err := kv.Get(ctx, keys[0])
	if err != nil {
		t.Fatal(err)
	}
	flip := func(i int) []byte {
		v := bytes.Clone(good.Value())
		v[(i+len(v))%len(v)] ^= 1
		return v
	}
	for name, value := range map[string][]byte{
		"empty": {}, "one byte": {1}, "cut": good.Value()[:49], "format": flip(0), "kind": flip(1),
		"no outcome": good.Value()[:50], "nonce": flip(2), "outcome": flip(-1),
		"cut outcome": good.Value()[:60],
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := kv.Put(ctx, keys[0], value); err != nil {
				t.Fatal(err)
			}
			err := b.Claim(ctx, "id", "", print1, inAnHour())
			if err == nil {
				t.Errorf("%s: the claim succeeds", name)
			}
			if e, ok := errors.AsType[*store.SpentError](err); ok {
				t.Errorf("%s: it counts as spent, with the outcome %q", name, e.Outcome)
			}
		})
	}
}

func TestClaimRefuses(t *testing.T) {
	a, _, _ := pair(t, &natsguard.Options{Longest: time.Hour})
	unspent(t, a.Claim(t.Context(), "id", "", print1, time.Now().Add(time.Hour+time.Minute)))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	unspent(t, a.Claim(gone, "id", "", print1, inAnHour()))
	if err := a.Claim(t.Context(), "id", "", print1, inAnHour()); err != nil {
		t.Errorf("a refused claim took effect: %v", err)
	}
	// What is decided is recorded, whether the client is still there or not.
	if err := a.Commit(gone, "id", []byte("outcome")); err != nil {
		t.Error(err)
	}
	if err := a.Claim(t.Context(), "past", "", print1, time.Now().Add(-time.Minute)); err != nil {
		t.Error(err)
	}
	spent(t, a.Claim(t.Context(), "past", "", print1, time.Now().Add(-time.Minute)))
}

// TestRunningClaims: every replica tells a claim whose leg still runs from one
// whose leg has ended without an outcome, for the same answers only.
func TestRunningClaims(t *testing.T) {
	ctx := t.Context()
	a, b, _ := pair(t, nil)
	if err := a.Claim(ctx, "id", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	running := func(g *natsguard.Guard, print [32]byte) bool {
		t.Helper()
		e, ok := errors.AsType[*store.SpentError](g.Claim(ctx, "id", "", print, inAnHour()))
		if !ok {
			t.Fatal("the state is not spent")
		}
		return e.Running
	}
	for name, g := range map[string]*natsguard.Guard{"the same replica": a, "another": b} {
		if !running(g, print1) || running(g, print2) {
			t.Errorf("%s takes the claim for one that does not run, or other answers for a copy",
				name)
		}
	}
	if err := a.Commit(ctx, "id", nil); err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*natsguard.Guard{"the same replica": a, "another": b} {
		if running(g, print1) {
			t.Errorf("%s takes a leg for running that has ended without an outcome", name)
		}
		if got := spent(t, g.Claim(ctx, "id", "", print1, inAnHour())); got != nil {
			t.Errorf("%s gets outcome %q", name, got)
		}
	}
}
