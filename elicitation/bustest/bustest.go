// Package bustest checks that an [elicitation.Bus] keeps its contract. It is for
// the tests of implementations:
//
//	func TestBus(t *testing.T) {
//		bustest.RunBus(t, func(t *testing.T) (a, b elicitation.Bus) {
//			return connect(t), connect(t)
//		})
//	}
//
// The tests use the real clock, so that they also serve where a network is involved.
// Where the contract says "at once" they allow [AtOnce].
package bustest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
)

const (
	// AtOnce is how long what the contract calls "at once" may take: time enough
	// for a loaded machine, and less than any lease or deadline.
	AtOnce = 2 * time.Second
	// Lease is how long a dead replica may be taken for a living one.
	Lease = 30 * time.Second

	longTTL = time.Hour
)

// A Killer is a Bus that can be cut off as by the death of its process: it releases
// nothing and notifies nobody. Implementations that have Kill get the tests of that, too.
type Killer interface {
	elicitation.Bus
	// Kill cuts the bus off at once and for good.
	Kill()
}

// RunBus runs the tests. open returns the ends of two replicas on a bus of their own; it
// is called once for each test and cleans up with t.Cleanup. The test may have closed a
// Bus by then or not.
func RunBus(t *testing.T, open func(t *testing.T) (a, b elicitation.Bus)) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, a, b *replica)
	}{
		{"names", namesDiffer},
		{"send by name", sendByName},
		{"names of nobody", sendToNobody},
		{"claim and send", claimAndSend},
		{"send to oneself", sendToOneself},
		{"nobody owns it", nobodyOwnsIt},
		{"released", releaseFreesTheKey},
		{"claimed twice", claimedTwice},
		{"ttl", claimEndsWithItsTTL},
		{"closed owner", claimsOfAClosedOwner},
		{"closed", methodsAfterClose},
		{"large messages", largeMessages},
		{"concurrent", concurrentUse},
		{"cancelled send", cancelledSend},
		{"killed owner", killedOwner},
	} {
		t.Run(test.name, func(t *testing.T) {
			first, second := open(t)
			a, b := newReplica(t, "a", first), newReplica(t, "b", second)
			test.run(t, a, b)
		})
	}
}

// A replica answers each message with its name, the key and the message.
type replica struct {
	elicitation.Bus
	name string
	slow chan struct{} // messages that begin with "slow" wait for it to close
}

func newReplica(t *testing.T, name string, bus elicitation.Bus) *replica {
	t.Helper()
	r := &replica{Bus: bus, name: name, slow: make(chan struct{})}
	err := bus.Listen(func(ctx context.Context, key string, message []byte) []byte {
		if bytes.HasPrefix(message, []byte("slow")) {
			select {
			case <-r.slow:
			case <-ctx.Done():
			}
		}
		return []byte(r.answerTo(key, message))
	})
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	if err := bus.Listen(func(context.Context, string, []byte) []byte { return nil }); err == nil {
		t.Error("a second Listen did not fail")
	}
	t.Cleanup(func() { bus.Close() })
	return r
}

func (r *replica) answerTo(key string, message []byte) string {
	return r.name + " " + key + " " + string(message)
}

func leaseContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Lease)
	t.Cleanup(cancel)
	return ctx
}

func (r *replica) mustClaim(t *testing.T, key string, ttl time.Duration) {
	t.Helper()
	if err := r.Claim(leaseContext(t), key, ttl); err != nil {
		t.Fatalf("%s: Claim(%q): %v", r.name, key, err)
	}
}

// wantAnswer sends a message and fails the test unless the owner answers it.
func (r *replica) wantAnswer(t *testing.T, owner *replica, key, message string) {
	t.Helper()
	got, err := r.Send(leaseContext(t), key, []byte(message))
	if err != nil {
		t.Fatalf("%s: Send(%q): %v", r.name, key, err)
	}
	if want := owner.answerTo(key, []byte(message)); string(got) != want {
		t.Fatalf("%s: Send(%q) returned %.100q, want %.100q", r.name, key, got, want)
	}
}

// wantSendError sends a message and fails the test unless that returns one of some errors
// at once.
func (r *replica) wantSendError(t *testing.T, key string, want ...error) {
	t.Helper()
	began := time.Now()
	got, err := r.Send(leaseContext(t), key, []byte("anybody there?"))
	if took := time.Since(began); took > AtOnce {
		t.Errorf("%s: Send(%q) took %v to fail, want at most %v", r.name, key, took, AtOnce)
	}
	for _, w := range want {
		if errors.Is(err, w) {
			return
		}
	}
	t.Errorf("%s: Send(%q) returned %q, %v; want an error that is one of %q",
		r.name, key, got, err, want)
}

// waitUntil fails the test unless check succeeds before limit has passed.
func waitUntil(t *testing.T, limit time.Duration, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !check(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func namesDiffer(t *testing.T, a, b *replica) {
	for _, r := range []*replica{a, b} {
		name := r.Name()
		strange := func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'z') }
		if name == "" || len(name) > 32 || strings.ContainsFunc(name, strange) {
			t.Errorf("the name of %s is %q, want 1 to 32 lower-case letters and digits", r.name, name)
		}
		if name != r.Name() {
			t.Errorf("the name of %s changes", r.name)
		}
	}
	if a.Name() == b.Name() {
		t.Errorf("both ends are named %q", a.Name())
	}
}

// wantAnswerTo sends a message by name and fails the test unless that replica answers it.
func (r *replica) wantAnswerTo(t *testing.T, owner *replica, key, message string) {
	t.Helper()
	got, err := r.SendTo(leaseContext(t), owner.Name(), key, []byte(message))
	if err != nil {
		t.Fatalf("%s: SendTo(%s, %q): %v", r.name, owner.name, key, err)
	}
	if want := owner.answerTo(key, []byte(message)); string(got) != want {
		t.Fatalf("%s: SendTo(%s, %q) returned %.100q, want %.100q", r.name, owner.name, key, got, want)
	}
}

// wantGone sends a message by name and fails the test unless that replica is gone.
func (r *replica) wantGone(t *testing.T, name string) {
	t.Helper()
	began := time.Now()
	got, err := r.SendTo(leaseContext(t), name, "q", []byte("anybody there?"))
	if took := time.Since(began); took > AtOnce {
		t.Errorf("%s: SendTo took %v to fail, want at most %v", r.name, took, AtOnce)
	}
	if !errors.Is(err, elicitation.ErrOwnerDead) {
		t.Errorf("%s: SendTo(%q) returned %q, %v; want ErrOwnerDead", r.name, name, got, err)
	}
}

func sendByName(t *testing.T, a, b *replica) {
	b.wantAnswerTo(t, a, "q", "hello")
	a.wantAnswerTo(t, b, "q", "")
	a.wantAnswerTo(t, a, "p.1", "to oneself")
	b.wantAnswerTo(t, a, "q", strings.Repeat("x", elicitation.MaxBusMessage-len("a q ")))
	_, err := b.SendTo(leaseContext(t), a.Name(), "q", make([]byte, elicitation.MaxBusMessage+1))
	if isDefinite(err) {
		t.Errorf("SendTo of more than MaxBusMessage: %v, want an error of its own", err)
	}
	defer close(a.slow)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := b.SendTo(ctx, a.Name(), "q", []byte("slow")); isDefinite(err) {
		const want = "an error that leaves open whether it was handled"
		t.Errorf("SendTo whose context ended: %v, want %s", err, want)
	}
}

func sendToNobody(t *testing.T, a, b *replica) {
	b.wantGone(t, strings.Repeat("0", len(a.Name())))
	name := a.Name()
	if err := a.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	b.wantGone(t, name)
	_, err := a.SendTo(leaseContext(t), b.Name(), "q", nil)
	if !errors.Is(err, elicitation.ErrBusClosed) {
		t.Errorf("SendTo after Close: %v, want ErrBusClosed", err)
	}
}

func claimAndSend(t *testing.T, a, b *replica) {
	a.mustClaim(t, "q.1", longTTL)
	b.mustClaim(t, "q.2", longTTL)
	b.wantAnswer(t, a, "q.1", "hello")
	a.wantAnswer(t, b, "q.2", "")
	b.wantAnswer(t, a, "q.1", "{\"again\":\x00}")
	long := "v." + strings.Repeat("f", 62) // the longest key
	a.mustClaim(t, long, longTTL)
	b.wantAnswer(t, a, long, "long")
}

func sendToOneself(t *testing.T, a, _ *replica) {
	a.mustClaim(t, "q.1", longTTL)
	a.wantAnswer(t, a, "q.1", "me")
}

func nobodyOwnsIt(t *testing.T, a, b *replica) {
	b.wantSendError(t, "q.never", elicitation.ErrNoOwner)
	a.Release("q.never") // ignored
}

func releaseFreesTheKey(t *testing.T, a, b *replica) {
	a.mustClaim(t, "q.1", longTTL)
	b.Release("q.1") // not b's
	b.wantAnswer(t, a, "q.1", "still here")
	a.Release("q.1")
	waitUntil(t, AtOnce, "the key is free after Release", func() bool {
		_, err := b.Send(leaseContext(t), "q.1", nil)
		return errors.Is(err, elicitation.ErrNoOwner)
	})
}

func claimedTwice(t *testing.T, a, b *replica) {
	a.mustClaim(t, "q.1", longTTL)
	if err := b.Claim(leaseContext(t), "q.1", longTTL); !errors.Is(err, elicitation.ErrClaimed) {
		t.Errorf("Claim of another's key: %v, want ErrClaimed", err)
	}
	b.wantAnswer(t, a, "q.1", "mine")
}

func claimEndsWithItsTTL(t *testing.T, a, b *replica) {
	a.mustClaim(t, "q.1", time.Second)
	b.wantAnswer(t, a, "q.1", "in time")
	waitUntil(t, Lease, "the claim ends with its ttl", func() bool {
		_, err := b.Send(leaseContext(t), "q.1", nil)
		return errors.Is(err, elicitation.ErrNoOwner)
	})
}

func claimsOfAClosedOwner(t *testing.T, a, b *replica) {
	a.mustClaim(t, "q.1", longTTL)
	b.wantAnswer(t, a, "q.1", "before")
	if err := a.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	b.wantSendError(t, "q.1", elicitation.ErrOwnerDead, elicitation.ErrNoOwner)
	waitUntil(t, Lease, "the claims of a closed replica are free", func() bool {
		return b.Claim(leaseContext(t), "q.1", longTTL) == nil
	})
	b.wantAnswer(t, b, "q.1", "mine now")
}

func methodsAfterClose(t *testing.T, a, b *replica) {
	b.mustClaim(t, "q.1", longTTL)
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	if err := a.Claim(leaseContext(t), "q.2", longTTL); !errors.Is(err, elicitation.ErrBusClosed) {
		t.Errorf("Claim after Close: %v, want ErrBusClosed", err)
	}
	a.wantSendError(t, "q.1", elicitation.ErrBusClosed)
	a.Release("q.1")
	b.wantAnswer(t, b, "q.1", "unharmed")
}

func largeMessages(t *testing.T, a, b *replica) {
	a.mustClaim(t, "q.1", longTTL)
	// The answer repeats the message after a name and a key.
	b.wantAnswer(t, a, "q.1", strings.Repeat("x", elicitation.MaxBusMessage-len("a q.1 ")))
	_, err := b.Send(leaseContext(t), "q.1", make([]byte, elicitation.MaxBusMessage+1))
	if isDefinite(err) {
		t.Errorf("Send of more than MaxBusMessage: %v, want an error of its own", err)
	}
}

func concurrentUse(t *testing.T, a, b *replica) {
	ends := []*replica{a, b}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			owner, other := ends[i%2], ends[1-i%2]
			key := fmt.Sprintf("q.%d", i)
			if err := owner.Claim(leaseContext(t), key, longTTL); err != nil {
				t.Errorf("Claim(%q): %v", key, err)
				return
			}
			for n := range 5 {
				message := fmt.Sprintf("message %d", n)
				got, err := other.Send(leaseContext(t), key, []byte(message))
				if want := owner.answerTo(key, []byte(message)); err != nil || string(got) != want {
					t.Errorf("Send(%q): %q, %v; want %q", key, got, err, want)
				}
			}
			owner.Release(key)
		})
	}
	wg.Wait()
}

// isDefinite reports whether Send returned no error, or one that says that the message
// was not handled.
func isDefinite(err error) bool {
	return err == nil || errors.Is(err, elicitation.ErrNoOwner) ||
		errors.Is(err, elicitation.ErrOwnerDead)
}

func cancelledSend(t *testing.T, a, b *replica) {
	defer close(a.slow)
	a.mustClaim(t, "q.1", longTTL)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := b.Send(ctx, "q.1", []byte("slow"))
	if isDefinite(err) {
		const want = "an error that leaves open whether it was handled"
		t.Errorf("Send whose context ended: %v, want %s", err, want)
	}
	if took := time.Since(began); took > AtOnce {
		t.Errorf("Send took %v to notice that its context had ended", took)
	}
}

func killedOwner(t *testing.T, a, b *replica) {
	killer, ok := a.Bus.(Killer)
	if !ok {
		t.Skipf("%T has no Kill", a.Bus)
	}
	a.mustClaim(t, "q.1", longTTL)
	b.wantAnswer(t, a, "q.1", "before")
	killer.Kill()
	b.wantGone(t, a.Name())
	b.wantSendError(t, "q.1", elicitation.ErrOwnerDead, elicitation.ErrNoOwner)
	waitUntil(t, Lease, "the claims of a dead replica are free", func() bool {
		return b.Claim(leaseContext(t), "q.1", longTTL) == nil
	})
}
