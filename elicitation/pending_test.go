package elicitation_test

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A question is refused if its call or session ends while it is being created.
func TestCallEndsWhileItsQuestionBegins(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(*elicitation.Call)
	}{
		{"call", (*elicitation.Call).End},
		{"session", func(c *elicitation.Call) { c.Origin().Session.Detach() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			var call *elicitation.Call
			waits := false
			ctx := roundtrip.WatchWaiting(t.Context(), func(waiting bool) {
				if waits = waiting; waiting {
					test.end(call)
				}
			})
			call = r.beginIn(ctx, elicitation.Origin{
				Session: r.attach(elicitation.SessionInfo{ID: "s1"})}, byHand(), "up")
			_, err := offer(call, t.Context(), form("m"),
				func(outcome) { t.Error("it has an outcome") })
			refused(t, err, elicitation.ReasonNoSession, -32601, "No client session available")
			if waits {
				t.Error("the call goes on waiting")
			}
			r.wantEvents("rejected")
			r.settled()
		})
	}
}

// Of concurrent ends one wins: one outcome, one terminal event, one count, no slot left.
func TestQuestionHasOneOutcome(t *testing.T) {
	const questions = 16
	for round := range 40 {
		timeout := time.Duration(1+round%3) * 100 * time.Millisecond // longer than the offers take
		r := newRig(t, elicitation.Options{Timeout: timeout})
		s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
		outcomes := make(chan int, 10*questions)
		var got [questions][elicitation.Invalid + 1]atomic.Int32 // replies by disposition
		start := make(chan struct{})
		var wg sync.WaitGroup
		at := func(f func()) { wg.Go(func() { <-start; f() }) }
		ctx, cancel := context.WithCancel(t.Context())
		call := r.beginIn(ctx, elicitation.Origin{Session: s}, byHand(), "up")
		for i := range questions {
			upstream, withdraw := context.WithCancel(t.Context())
			defer withdraw()
			offered, err := offer(call, upstream, form("m"),
				func(outcome) { outcomes <- i })
			noError(t, err)
			id := offered.Request().ID
			for _, reply := range []string{yes, yes, yes, yes, `{}`} {
				at(func() {
					got[i][r.HandleReply(s.Sender(), result(id, reply))].Add(1)
				})
			}
			at(offered.ConfirmDelivery)
			at(func() { offered.FailDelivery(errors.New("broken pipe")) })
			at(withdraw)
			at(func() { r.HandleProgress(s.Sender(), progress(id, 1)) })
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
		// A timer that ended a question may not have reported yet.
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
			again, late := got[i][elicitation.Duplicate].Load(), got[i][elicitation.Expired].Load()
			if ended > 1 || ended+again+late != 5 || ended == 1 && late != 0 ||
				ended == 0 && again != 0 {
				t.Fatalf("question %d: %d replies ended it, %d are duplicates, %d expired", i,
					ended, again, late)
			}
		}
		checkEvents(t, r, questions)
		r.settled()
	}
}

// checkEvents checks that each question has a creation, at most one delivery, then one end.
func checkEvents(t *testing.T, r *rig, questions int) {
	t.Helper()
	seen := map[string]string{}
	for _, e := range r.logs.All() {
		if id := e.ContextMap()["request_id"].(string); id != "" {
			seen[id] += e.Message[len("elicitation."):] + " "
		}
	}
	wantEqual(t, "questions with events", len(seen), questions)
	fits := regexp.MustCompile(`^created (delivered )?(completed|timeout|error|cancelled) $`)
	for id, events := range seen {
		if !fits.MatchString(events) {
			t.Errorf("%s: events %q", id, events)
		}
	}
}

// An answer at the very moment of the timeout wins or loses, as its disposition says.
func TestAnswerAtTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := map[elicitation.Disposition]int{}
		for range 200 {
			r := newRig(t, elicitation.Options{})
			s, offered, outcome := r.offered()
			offered.ConfirmDelivery()
			time.Sleep(time.Minute) // the timer fires as this returns
			d := r.HandleReply(s.Sender(), result(offered.Request().ID, yes))
			synctest.Wait()
			if (d == elicitation.Accepted) != (outcome.Result != nil) ||
				(d == elicitation.Expired) != errors.Is(outcome.Err, elicitation.ReasonTimeout) {
				t.Fatalf("reply is %v, outcome %+v", d, outcome)
			}
			counts[d]++
			r.settled()
		}
		t.Logf("accepted %d, expired %d", counts[elicitation.Accepted], counts[elicitation.Expired])
	})
}

func TestConcurrentUse(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := range 30 {
				s := r.attach(elicitation.SessionInfo{})
				call := r.begin(elicitation.Origin{Session: s},
					elicitation.ViaFrames(r.answers(s, yes)), "shared")
				if _, err := r.ElicitFrom(t.Context(), "shared",
					ofCall(call.Origin().CallID, form("m"))); err != nil {
					t.Error(err)
				}
				if n%2 == 0 {
					s.Detach()
				}
				call.End()
				s.Detach()
			}
		})
	}
	wg.Wait()
	r.settled()
	r.wantCounted("completed_total{accept}", 240)
}

func TestProgressExtends(t *testing.T) {
	testProgressExtends(t, 200*time.Second, 600*time.Second)
	testProgressExtends(t, 600*time.Second, 900*time.Second)
}

func testProgressExtends(t *testing.T, timeout, longest time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		r := newSceneVia(t, elicitation.Options{Timeout: timeout}, byHand())
		s, call := r.session, r.call
		var ended outcome
		offered, err := offer(call, t.Context(), form("m"), func(o outcome) { ended = o })
		noError(t, err)
		began, id := time.Now(), offered.Request().ID
		stranger := elicitation.Sender{Session: "s2", Principal: alice()}
		wantEqual(t, "a stranger's progress", r.HandleProgress(stranger, progress(id, 1)),
			elicitation.WrongSession)
		wantEqual(t, "progress of something else",
			r.HandleProgress(s.Sender(), progress(protocol.IntID(1), 1)), elicitation.Unknown)
		for i := range 4 {
			time.Sleep(longest * 5 / 18)
			want := elicitation.Accepted
			if i == 3 {
				want = elicitation.Expired // 20/18 of the longest time
			}
			wantEqual(t, "progress after "+time.Since(began).String(),
				r.HandleProgress(s.Sender(), progress(id, float64(i))), want)
		}
		synctest.Wait()
		wantIs(t, "outcome", ended.Err, elicitation.ReasonTimeout)
		if d := r.logs.All()[2].ContextMap()["duration_ms"]; d != float64(longest.Milliseconds()) {
			t.Errorf("it timed out after %v ms, want %v", d, longest)
		}
	})
}
