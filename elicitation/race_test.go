package elicitation_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// Whatever ends a question at the same moment, one wins: one outcome, one
// terminal event, one count, and no slot is left.
func TestOneWinner(t *testing.T) {
	const questions = 16
	for round := range 40 {
		r := newRig(t, elicitation.Options{Timeout: time.Duration(1+round%3) * time.Millisecond})
		s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
		outcomes := make(chan int, 10*questions)
		var got [questions][elicitation.Invalid + 1]atomic.Int32 // how many replies were what
		start := make(chan struct{})
		var wg sync.WaitGroup
		at := func(f func()) { wg.Go(func() { <-start; f() }) }
		ctx, cancel := context.WithCancel(t.Context())
		call := r.beginIn(ctx, elicitation.Origin{Session: s}, elicitation.Via{}, "up")
		for i := range questions {
			upstream, withdraw := context.WithCancel(t.Context())
			defer withdraw()
			offered, err := call.Offer(upstream, form("m"), nil, func(elicitation.Outcome) { outcomes <- i })
			if err != nil {
				t.Fatal(err)
			}
			id := offered.Request().ID
			for _, reply := range []string{yes, yes, yes, yes, `{}`} {
				at(func() {
					d, _ := r.Complete(context.Background(), s.From(), result(id, reply))
					got[i][d].Add(1)
				})
			}
			at(offered.Delivered)
			at(func() { offered.Failed(errors.New("broken pipe")) })
			at(withdraw)
			at(func() { r.Progress(context.Background(), s.From(), progress(id, 1)) })
		}
		switch round % 4 {
		case 0:
			at(cancel)
		case 1:
			at(call.End)
		case 2:
			at(s.Detach)
		case 3:
			at(func() {
				ended, end := context.WithCancel(context.Background())
				end()
				r.Shutdown(ended)
			})
		}
		close(start)
		wg.Wait()
		call.End()
		cancel()
		// A timer that has won may still be about to say so.
		seen := map[int]bool{}
		for range questions {
			i := <-outcomes
			if seen[i] {
				t.Fatalf("question %d has two outcomes", i)
			}
			seen[i] = true
		}
		if len(outcomes) != 0 {
			t.Fatalf("%d outcomes more than questions", len(outcomes))
		}
		for i := range got {
			ended := got[i][elicitation.Accepted].Load() + got[i][elicitation.Invalid].Load()
			late := got[i][elicitation.Duplicate].Load() + got[i][elicitation.Expired].Load()
			if ended > 1 || ended+late != 5 || ended == 1 && got[i][elicitation.Expired].Load() != 0 || ended == 0 && got[i][elicitation.Duplicate].Load() != 0 {
				t.Fatalf("question %d: %d replies ended it, %d are duplicates, %d expired", i, ended,
					got[i][elicitation.Duplicate].Load(), got[i][elicitation.Expired].Load())
			}
		}
		checkEvents(t, r, questions)
		r.settled()
	}
}

// checkEvents wants of each question a creation, at most one delivery after it,
// and then one end.
func checkEvents(t *testing.T, r *rig, questions int) {
	t.Helper()
	seen := map[string]string{}
	for _, e := range r.logs.All() {
		if id := e.ContextMap()["request_id"].(string); id != "" {
			seen[id] += e.Message[len("elicitation."):] + " "
		}
	}
	if len(seen) != questions {
		t.Errorf("events of %d questions, want %d", len(seen), questions)
	}
	ends := map[string]bool{"completed ": true, "timeout ": true, "error ": true, "cancelled ": true}
	for id, events := range seen {
		rest := events
		if len(rest) > len("created ") && rest[:len("created ")] == "created " {
			rest = rest[len("created "):]
		} else {
			t.Errorf("%s: events %q do not begin with created", id, events)
		}
		if len(rest) > len("delivered ") && rest[:len("delivered ")] == "delivered " {
			rest = rest[len("delivered "):]
		}
		if !ends[rest] {
			t.Errorf("%s: events %q", id, events)
		}
	}
}

// An answer that comes in the very moment of the timeout wins or loses, and the
// disposition says which.
func TestAnswerAtTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := map[elicitation.Disposition]int{}
		for range 200 {
			r := newRig(t, elicitation.Options{})
			s, offered, outcome := r.offered()
			offered.Delivered()
			time.Sleep(time.Minute) // the timer fires as this returns
			d, _ := r.Complete(t.Context(), s.From(), result(offered.Request().ID, yes))
			synctest.Wait()
			if (d == elicitation.Accepted) != (outcome.Result != nil) || (d == elicitation.Expired) != errors.Is(outcome.Err, elicitation.ErrTimeout) {
				t.Fatalf("reply is %v, outcome %+v", d, outcome)
			}
			counts[d]++
			r.settled()
		}
		t.Logf("accepted %d, expired %d", counts[elicitation.Accepted], counts[elicitation.Expired])
	})
}

// Sessions that come and go under load leave nothing behind.
func TestConcurrentUse(t *testing.T) {
	hub := elicitation.NewHub()
	bus := hub.Bus()
	defer bus.Close()
	r := newRig(t, elicitation.Options{Bus: bus})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := range 30 {
				s := r.attach(elicitation.SessionInfo{})
				sc := r.answers(s, yes)
				release, err := r.Exclusive(t.Context(), "shared")
				if err != nil {
					t.Error(err)
					return
				}
				call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(sc), "shared")
				if _, err := r.ElicitFrom(t.Context(), "shared", form("m"), nil); err != nil {
					t.Error(err)
				}
				if n%2 == 0 {
					s.Detach()
				}
				call.End()
				release()
				s.Detach()
			}
		})
	}
	wg.Wait()
	r.settled()
	if n := r.value("elicitation_completed_total", "action", string(protocol.ActionAccept)); n != 240 {
		t.Errorf("%v answered, want 240", n)
	}
}
