package roundtrip_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

const visitURL = "https://id.example/login"

// The function guards returns this module's guards, and nil.
func guards() map[string]store.Guard {
	return map[string]store.Guard{"no guard": nil, "memory": store.NewMemoryGuard(0)}
}

// sendCutOff makes the next call under a timeout.
func (c *client) sendCutOff(after time.Duration) (protocol.Result, error) {
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	defer time.AfterFunc(after, cancel).Stop()
	return c.funnel.Do(ctx, c.call, c.handler)
}

// TestWaitThatIsCutOffIsNoOutcome: the request can be sent again, but only with the same answers.
func TestWaitThatIsCutOffIsNoOutcome(t *testing.T) {
	for name, guard := range guards() {
		for _, swallow := range []bool{false, true} {
			bubble(t, fmt.Sprint(name, ", the handler goes on ", swallow), func(t *testing.T) {
				testCutOffWait(t, guard, swallow)
			})
		}
	}
}

func testCutOffWait(t *testing.T, guard store.Guard, swallow bool) {
	if guard != nil {
		guard = store.NewMemoryGuard(0)
	}
	finished, effects := false, 0
	c := newClient(t, roundtrip.Options{Guard: guard},
		func(ctx context.Context) (protocol.Result, error) {
			err := roundtrip.AskURL(ctx, "login", "Please sign in.", visitURL)
			if err != nil {
				return nil, err
			}
			err = roundtrip.Await(ctx, "login", func(ctx context.Context) (bool, error) {
				return finished, ctx.Err()
			})
			if err != nil && !swallow {
				return nil, err
			}
			if err == nil {
				effects++
			} else {
				wantEndedRun(ctx, t, &effects)
			}
			return say("done")
		})
	c.ask("login")
	retry := c.call
	for range 3 {
		c.call = retry
		c.answer("login", agreed)
		result, err := c.sendCutOff(2500 * time.Millisecond)
		if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeBusy ||
			strings.Contains(e.Message, "canceled") {
			t.Fatalf("cut off: %v, %v", show(result), err)
		}
	}
	for _, e := range all[event.CutOff](c.events) {
		if !e.Retriable {
			t.Error("cannot be sent again")
		}
	}
	if guard != nil {
		c.call = retry
		frozen(t, c.answer("login", declined), words.ReasonReplayed)
	}
	finished = true
	c.call = retry
	if got := c.answer("login", agreed).done(); got != "done" || effects != 1 {
		t.Errorf("got %q, %d effects", got, effects)
	}
	if guard != nil {
		if got := c.done(); got != "done" || effects != 1 { // a replay
			t.Errorf("replayed: %q, %d effects", got, effects)
		}
	}
}

// wantEndedRun checks that a run can no longer keep, ask or commit anything.
func wantEndedRun(ctx context.Context, t *testing.T, effects *int) {
	_, kept := roundtrip.Memo(ctx, "late",
		func(context.Context) (int, error) { *effects += 100; return 1, nil })
	_, asked := roundtrip.Ask[Confirmation](ctx, "late", "Sure?")
	visit := roundtrip.AskURL(ctx, "late visit", "Please.", visitURL)
	await := roundtrip.Await(ctx, "login", func(context.Context) (bool, error) { return true, nil })
	commit := roundtrip.OnCommit(ctx, func(context.Context) { *effects += 100 })
	for name, err := range map[string]error{"Memo": kept, "Ask": asked, "AskURL": visit,
		"Await": await, "OnCommit": commit} {
		if err == nil {
			t.Errorf("%s succeeds after the run has ended", name)
		}
	}
}

// TestCutOffAfterMoreThanWaiting: the state stays spent, and a retry learns that the outcome is
// unknown, without the text "context canceled".
func TestCutOffAfterMoreThanWaiting(t *testing.T) {
	never := func(context.Context) (bool, error) { return false, nil }
	for name, act := range map[string]func(context.Context) error{
		"a memo": func(ctx context.Context) error {
			_, err := roundtrip.Memo(ctx, "m", func(context.Context) (int, error) { return 1, nil })
			return err
		},
		"a memo that fails": func(ctx context.Context) error {
			_, _ = roundtrip.Memo(ctx, "m",
				func(context.Context) (int, error) { return 1, errors.New("half done") })
			return nil
		},
		"a commit function": func(ctx context.Context) error {
			return roundtrip.OnCommit(ctx, func(context.Context) { t.Error("committed") })
		},
		"another visit": func(ctx context.Context) error {
			return roundtrip.Await(ctx, "login",
				func(context.Context) (bool, error) { return true, nil })
		},
		"a handler that fails": func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("paying: %w", ctx.Err())
		},
		"a handler that panics": func(ctx context.Context) error {
			_ = roundtrip.Await(ctx, "login", never)
			panic("half done")
		},
	} {
		bubble(t, name, func(t *testing.T) {
			c := guarded(t, func(ctx context.Context) (protocol.Result, error) {
				err := roundtrip.AskURL(ctx, "login", "Please sign in.", visitURL)
				if err != nil {
					return nil, err
				}
				if err := act(ctx); err != nil {
					return nil, err
				}
				return nil, roundtrip.Await(ctx, "other", never)
			})
			c.ask("login").answer("login", agreed)
			if name != "a handler that fails" && name != "a handler that panics" {
				c.handler = waitingFor(act, never)
			}
			result, err := c.sendCutOff(2500 * time.Millisecond)
			if text := show(result) + fmt.Sprint(err); strings.Contains(text, "canceled") ||
				!strings.Contains(text, "the outcome is not known") {
				t.Errorf("cut off: %s", text)
			}
			contains(t, c.done(), "the outcome is not known")
			if e := one[event.CutOff](t, c.events); e.Retriable {
				t.Error("reported as retriable")
			}
		})
	}
}

// waitingFor is a handler that acts, then waits for its visit.
func waitingFor(act func(context.Context) error,
	done func(context.Context) (bool, error)) roundtrip.Handler {
	return func(ctx context.Context) (protocol.Result, error) {
		if err := roundtrip.AskURL(ctx, "login", "Please sign in.", visitURL); err != nil {
			return nil, err
		}
		if err := act(ctx); err != nil {
			return nil, err
		}
		// In a run that finished a visit, the same key would be finished too.
		return nil, errors.Join(roundtrip.Await(ctx, "login", func(ctx context.Context) (bool,
			error) {
			return done(ctx)
		}), waitFor(ctx))
	}
}

// waitFor waits for the end of the context like a handler's own code.
func waitFor(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestStoreDownWhileSealing: after the handler ran, a request is retried only if it can be
// repeated.
func TestStoreDownWhileSealing(t *testing.T) {
	for _, acts := range []bool{false, true} {
		s := newShelf()
		c := newClient(t, roundtrip.Options{StateStore: s,
			Limits: roundtrip.Limits{StateBytes: 1 << 10}, Guard: store.NewMemoryGuard(0)},
			func(ctx context.Context) (protocol.Result, error) {
				for _, key := range []string{"a", "b"} {
					if _, err := reasonOf(ctx, key); err != nil {
						return ask(roundtrip.WithState(strings.Repeat("x", 2<<10)))
					}
					if acts {
						_, _ = roundtrip.Memo(ctx, "m",
							func(context.Context) (int, error) { return 1, nil })
					}
				}
				return say("done")
			})
		c.ask("a")
		s.put = errors.New("no route to db.internal")
		c.answer("a", accepted)
		code := map[bool]int64{false: protocol.CodeBusy, true: protocol.CodeFlowEnded}[acts]
		if e := c.fails(code); strings.Contains(e.Message, "db.internal") {
			t.Errorf("the client learns %q", e.Message)
		}
		if e := one[event.StoreFailed](t, c.events); e.Operation != "write" ||
			len(all[event.ServerBug](c.events)) != 0 {
			t.Errorf("reported %+v", e)
		}
		s.put = nil
		if acts {
			contains(t, c.done(), "the outcome is not known")
			continue
		}
		c.ask("b").answer("b", accepted).says("done")
	}
}

// TestGuardStyleGivesNoClaimUp: a guard-style handler that has used an answer does not run again if
// its next state finds no room or no store.
func TestGuardStyleGivesNoClaimUp(t *testing.T) {
	for name, put := range map[string]error{
		"down": errors.New("no route to db.internal"),
		"full": &store.QuotaError{Resource: "store", Limit: "principal"},
	} {
		s, charged := newShelf(), 0
		c := newClient(t, roundtrip.Options{StateStore: s,
			Limits: roundtrip.Limits{StateBytes: 1 << 10}, Guard: store.NewMemoryGuard(0)},
			func(ctx context.Context) (protocol.Result, error) {
				if _, ok := whyNow.AcceptedContent(ctx); !ok {
					return ask(whyNow.Elicit("Why?"))
				}
				charged++
				return ask(roundtrip.Elicit[Confirmation]("more", "More?"),
					roundtrip.WithState(strings.Repeat("x", 2<<10)))
			})
		c.ask("why")
		s.put = put
		if _, err := c.answer("why", accepted).send(); err == nil {
			t.Errorf("%s: a state that is not kept goes out", name)
		}
		s.put = nil
		_, _ = c.send()
		if charged != 1 {
			t.Errorf("%s: charged %d times", name, charged)
		}
	}
}

// TestTimeOfTheGuardIsNotThePersons: human time is measured before the guard is called.
func TestTimeOfTheGuardIsNotThePersons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newSpy()
		guard.claim = func([32]byte) error { time.Sleep(10 * time.Second); return nil }
		c := newClient(t, roundtrip.Options{Guard: guard}, consent)
		c.ask("k")
		time.Sleep(time.Minute)
		c.answer("k", accepted).done()
		if a, r := one[event.Answered](t, c.events), one[event.Resumed](t, c.events); a.Waited !=
			time.Minute || r.Waited != time.Minute {
			t.Errorf("waited %v, %v, want a minute", a.Waited, r.Waited)
		}
	})
}

// TestErrorResultOfACutOffRequest: a result that only reports the request's end is no outcome.
func TestErrorResultOfACutOffRequest(t *testing.T) {
	for text, want := range map[string]string{
		"booking: context canceled": "the outcome is not known",
		"the card was charged":      "the card was charged",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := guarded(t, rounds(asks(elicit("k")), func(ctx context.Context) (protocol.Result, error) {
				<-ctx.Done()
				return &protocol.CallToolResult{IsError: true,
					Content: []protocol.Content{&protocol.TextContent{Text: text}}}, nil
			}))
			c.ask("k").answer("k", accepted)
			result, err := c.sendCutOff(time.Second)
			if got := show(result); err != nil || !strings.HasPrefix(got, "error: "+want) {
				t.Errorf("%s: got %q, %v", text, got, err)
			}
			contains(t, c.done(), want) // for the retry, too
		})
	}
}

// TestAPersonWhoIsSlowOnThePage: the call ends before its client gives it up, and the next one has
// the answer.
func TestAPersonWhoIsSlowOnThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := &servertest.Page{}
		c := newClient(t, roundtrip.Options{Page: page}, func(ctx context.Context) (protocol.Result,
			error) {
			reason, err := reasonOf(ctx, "k")
			if err != nil {
				return nil, err
			}
			return say(reason)
		})
		c.call.Capabilities.Elicitation.Form = false
		var link string
		for range 9 { // more calls than a flow has rounds
			c.call.State, c.call.Responses = protocol.RequestState{}, nil
			c.ask("k (page)")
			link = c.asked.InputRequests[0].Request.(*protocol.ElicitURL).URL
			began, rounds := time.Now(), 1
			for asks := true; asks; rounds++ {
				result, _ := c.answer("k (page)", `{"action":"accept"}`).send()
				_, asks = result.(*protocol.InputRequiredResult)
			}
			if waited := time.Since(began); waited > 150*time.Second || rounds > 6 {
				t.Errorf("held for %v, in %d rounds", waited, rounds)
			}
		}
		page.Answer(link, func(string) string { return `{"reason":"late"}` })
		c.call.State, c.call.Responses = protocol.RequestState{}, nil
		c.says("late")
	})
}
