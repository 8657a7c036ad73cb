package elicitation_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// Whoever withdraws a question, the client is told once, with a reason, and the
// upstream gets one error.
func TestCancellation(t *testing.T) {
	type scene struct {
		*rig
		session *elicitation.Session
		call    *elicitation.Call
		server  context.CancelFunc
	}
	for _, test := range []struct {
		name    string
		cancel  func(s *scene)
		by      string
		code    int64
		message string
		reason  string // what the client is told
		kind    error
	}{
		{"upstream's context", func(s *scene) { s.server() }, "upstream", protocol.CodeFlowEnded,
			"Elicitation cancelled", "the server withdrew the question",
			elicitation.ReasonCancelled},
		{"end of the call", func(s *scene) { s.call.End() }, "call", protocol.CodeFlowEnded,
			"Elicitation cancelled: the request that caused it has ended",
			"the request that asked has ended", elicitation.ReasonCancelled},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{rig: newRig(t, elicitation.Options{})}
				s.session = s.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
				sc := &screen{t: t}
				var server context.Context
				server, s.server = context.WithCancel(t.Context())
				defer s.server()
				s.call = s.begin(elicitation.Origin{Session: s.session},
					elicitation.ViaFrames(sc), "up")
				defer s.call.End()
				done := make(chan error)
				go func() {
					_, err := s.call.Elicit(server, form("m"), nil)
					done <- err
				}()
				synctest.Wait()
				go test.cancel(s)
				err := <-done
				refused(t, err, test.kind, test.code, test.message)
				if e, _ := errors.AsType[*elicitation.Error](err); string(e.By) != test.by ||
					e.RequestID == "" {
					t.Errorf("cancelled by %s, want %s", e.By, test.by)
				}
				time.Sleep(time.Second)
				told := sc.notifications("notifications/cancelled")
				if len(told) != 1 {
					t.Fatalf("the client was told %d times", len(told))
				}
				var c protocol.Cancelled
				if err := jsonx.Decode(told[0].Params, &c); err != nil ||
					c.RequestID != sc.requests()[0].ID || c.Reason != test.reason {
					t.Errorf("the client was told %s", told[0].Params)
				}
				s.complete(s.session.Sender(), result(sc.requests()[0].ID, yes),
					elicitation.Expired)
				s.wantEvents("created delivered cancelled")
				if n := s.value("elicitation_cancelled_total", "by", test.by); n != 1 {
					t.Errorf("cancelled{%s} is %v", test.by, n)
				}
				s.settled()
			})
		})
	}
}

// A call or session that ends while a question is being made ready takes the
// question with it before it exists.
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
			s := r.attach(elicitation.SessionInfo{ID: "s1"})
			var call *elicitation.Call
			running := true
			pause := func() func() {
				running = false
				test.end(call)
				return func() { running = true }
			}
			call = r.begin(elicitation.Origin{Session: s, PauseTimeout: pause}, byHand(),
				"up")
			defer call.End()
			_, err := offer(call, t.Context(), form("m"), nil,
				func(outcome) { t.Error("it has an outcome") })
			refused(t, err, elicitation.ReasonNoSession, -32601, "No client session available")
			if !running {
				t.Error("the host's clock stands still")
			}
			r.wantEvents("rejected")
			r.settled()
		})
	}
}

// Whatever ends a question at the same moment, one wins: one outcome, one
// terminal event, one count, and no slot is left.
func TestQuestionHasOneOutcome(t *testing.T) {
	const questions = 16
	for round := range 40 {
		timeout := time.Duration(1+round%3) * 20 * time.Millisecond
		r := newRig(t, elicitation.Options{Timeout: timeout})
		s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
		outcomes := make(chan int, 10*questions)
		var got [questions][elicitation.Invalid + 1]atomic.Int32 // how many replies were what
		start := make(chan struct{})
		var wg sync.WaitGroup
		at := func(f func()) { wg.Go(func() { <-start; f() }) }
		ctx, cancel := context.WithCancel(t.Context())
		call := r.beginIn(ctx, elicitation.Origin{Session: s}, byHand(), "up")
		for i := range questions {
			upstream, withdraw := context.WithCancel(t.Context())
			defer withdraw()
			offered, err := offer(call, upstream, form("m"), nil,
				func(outcome) { outcomes <- i })
			if err != nil {
				t.Fatal(err)
			}
			id := offered.Request().ID
			for _, reply := range []string{yes, yes, yes, yes, `{}`} {
				at(func() {
					d := r.HandleReply(s.Sender(), result(id, reply))
					got[i][d].Add(1)
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
			if ended > 1 || ended+late != 5 || ended == 1 &&
				got[i][elicitation.Expired].Load() != 0 || ended == 0 &&
				got[i][elicitation.Duplicate].Load() != 0 {
				t.Fatalf("question %d: %d replies ended it, %d are duplicates, %d expired", i,
					ended,
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
	ends := map[string]bool{"completed ": true, "timeout ": true, "error ": true,
		"cancelled ": true}
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

// Sessions that come and go under load leave nothing behind.
func TestConcurrentUse(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := range 30 {
				s := r.attach(elicitation.SessionInfo{})
				sc := r.answers(s, yes)
				call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "shared")
				if _, err := r.ElicitFrom(t.Context(), "shared", form("m"),
					&elicitation.ElicitOptions{CallID: call.Origin().CallID}); err != nil {
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
	if n := r.value("elicitation_completed_total", "action",
		string(protocol.ActionAccept)); n != 240 {
		t.Errorf("%v answered, want 240", n)
	}
}

func TestTimeouts(t *testing.T) {
	for _, test := range []struct {
		name    string
		options elicitation.Options
		want    time.Duration
	}{
		{"default", elicitation.Options{}, time.Minute},
		{"configured", elicitation.Options{Timeout: 20 * time.Minute}, 20 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, test.options)
				s := r.attach(elicitation.SessionInfo{ID: "s1"})
				sc := &screen{t: t}
				call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
				defer call.End()
				began := time.Now()
				_, err := call.Elicit(t.Context(), form("m"), nil)
				refused(t, err, elicitation.ReasonTimeout, protocol.CodeTimeout,
					"Elicitation timed out")
				if took := time.Since(began); took != test.want {
					t.Errorf("it took %v, want %v", took, test.want)
				}
				synctest.Wait()
				if n := sc.notifications("notifications/cancelled"); len(n) != 1 {
					t.Errorf("the client was told %d times that nobody waits", len(n))
				}
				r.wantEvents("created delivered timeout")
				r.settled()
			})
		})
	}
}

// Progress starts the timeout anew, within the absolute maximum.
func TestProgressExtends(t *testing.T) {
	testProgressExtends(t, 200*time.Second, 600*time.Second)
	testProgressExtends(t, 600*time.Second, 900*time.Second)
}

func testProgressExtends(t *testing.T, timeout, longest time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{Timeout: timeout})
		s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
		call := r.begin(elicitation.Origin{Session: s}, byHand(), "up")
		defer call.End()
		var heard []string
		var ended outcome
		params := []byte(`{"message":"m","requestedSchema":{"type":"object","properties":{}},"_meta":{"progressToken":"up-7"}}`)
		offered, err := offer(call, t.Context(), params,
			&elicitation.ElicitOptions{Progress: func(p *protocol.Progress) {
				heard = append(heard, fmt.Sprint(p.Token, " ", p.Progress))
			}}, func(o outcome) { ended = o })
		if err != nil {
			t.Fatal(err)
		}
		began, id := time.Now(), offered.Request().ID
		if d := r.HandleProgress(elicitation.Sender{Session: "s2", Principal: alice()},
			progress(id, 1)); d != elicitation.WrongSession {
			t.Errorf("a stranger's progress is %v", d)
		}
		if d := r.HandleProgress(s.Sender(),
			progress(protocol.IntID(1), 1)); d != elicitation.Unknown {
			t.Errorf("progress of something else is %v", d)
		}
		for i := range 4 {
			time.Sleep(longest * 5 / 18)
			want := elicitation.Accepted
			if i == 3 {
				want = elicitation.Expired // 20/18 of the longest time
			}
			d := r.HandleProgress(s.Sender(), progress(id, float64(i)))
			if d != want {
				t.Errorf("after %v progress is %v, want %v", time.Since(began), d, want)
			}
		}
		synctest.Wait()
		if fmt.Sprint(heard) != `["up-7" 0 "up-7" 1 "up-7" 2]` {
			t.Errorf("the upstream heard %v", heard)
		}
		if !errors.Is(ended.Err, elicitation.ReasonTimeout) {
			t.Errorf("outcome is %+v", ended)
		}
		if d := r.logs.All()[2].ContextMap()["duration_ms"]; d != float64(longest.Milliseconds()) {
			t.Errorf("it timed out after %v ms, want %v", d, longest)
		}
	})
}
