package roundtrip_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestCancelledQuestionsEndTheRun: a handler whose request is cancelled must not mistake the error
// for an answer. Questions depend on the request's context, and may end before the handler knows.
func TestCancelledQuestionsEndTheRun(t *testing.T) {
	for range 50 {
		parent, cancel := context.WithCancel(t.Context())
		for range 200 { // others that wait for the end of the request
			_, stop := context.WithCancel(parent)
			defer stop()
		}
		committed := false
		c, h := serveLive(t, func(ctx context.Context) (protocol.Result, error) {
			if err := roundtrip.OnCommit(ctx,
				func(context.Context) { committed = true }); err != nil {
				t.Error(err)
			}
			ctx.Done() // as every waiter does
			_, _ = reasonOf(ctx, "x")
			return say("deleted")
		})
		h.answer = func(q *pushed) (string, error) {
			go cancel()
			return silent(q)
		}
		result, err := c.funnel.Do(parent, c.call, c.handler)
		if got := show(result); got == "deleted" || committed {
			t.Fatalf("got %q, %v; committed: %t", got, err, committed)
		}
		cancel()
	}
}

func TestFlowEndsBeforeTheQuestion(t *testing.T) {
	for name, of := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"context of the handler": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return ctx, func() {}
		},
		"derived": context.WithCancel,
		"cut off": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithCancel(context.WithoutCancel(ctx))
		},
	} {
		bubble(t, name, func(t *testing.T) {
			c, h := serveLive(t, func(ctx context.Context) (protocol.Result, error) {
				time.Sleep(25 * time.Hour)
				ctx, cancel := of(ctx)
				defer cancel()
				if _, err := reasonOf(ctx, "a"); err == nil {
					t.Error("answered")
				}
				return say("deleted")
			})
			if got, want := c.done(), "error: nobody answered in time"; got != want ||
				h.traffic() != 0 {
				t.Errorf("got %q after %d questions, want %q after none", got, h.traffic(), want)
			}
		})
	}
}

// TestFlowEndsWhileTheQuestionWaits: progress postpones the end of a question, not of the flow.
func TestFlowEndsWhileTheQuestionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := serveLive(t, func(ctx context.Context) (protocol.Result, error) {
			if _, err := reasonOf(ctx, "a"); err == nil || ctx.Err() == nil {
				t.Errorf("got %v, the context says %v", err, ctx.Err())
			}
			return say("deleted")
		})
		h.answer = func(q *pushed) (string, error) {
			for {
				select {
				case <-time.After(time.Minute):
					q.extend()
				case <-q.Done():
					return "", context.Cause(q)
				}
			}
		}
		start := time.Now()
		if got, took := c.done(), time.Since(start); took != 24*time.Hour ||
			got != "error: nobody answered in time" {
			t.Errorf("got %q after %v", got, took)
		}
	})
}

// TestUnansweredInPlace: whatever prevents an answer ends the call in the same way.
func TestUnansweredInPlace(t *testing.T) {
	for name, then := range misbehaving {
		for what, answer := range map[string]func(*pushed) (string, error){
			"the client could not answer: not now": fails(protocol.Errorf(-32603, "not now")),
			"the client could not be asked":        fails(errors.New("broken pipe")),
			"nobody answered in time":              silent,
		} {
			bubble(t, name+" "+what, func(t *testing.T) {
				c, h := serveLive(t, func(ctx context.Context) (protocol.Result, error) {
					_, err := reasonOf(ctx, "k")
					if err == nil || ctx.Err() == nil {
						t.Errorf("the handler is told %v, its context %v", err, ctx.Err())
					}
					_, err = reasonOf(ctx, "l") // asks nobody
					return then(ctx, err)
				})
				h.answer = answer
				if got, want := c.done(), "error: "+what; got != want || h.traffic() != 1 {
					t.Errorf("got %q after %d questions, want %q after 1", got, h.traffic(), want)
				}
			})
		}
	}
}

func TestWithdrawnInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := serveLive(t, flow(func(ctx context.Context) string {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if _, err := reasonOf(short, "k"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			reason := must(reasonOf(ctx, "k"))
			return reason
		}))
		h.answer = func(q *pushed) (string, error) {
			if h.traffic() == 1 {
				return silent(q)
			}
			return accepted, nil
		}
		if got := c.done(); got != "now" || h.withdrawn != 1 {
			t.Errorf("got %q, %d questions withdrawn", got, h.withdrawn)
		}
	})
}

// TestQuestionInPlaceEndsWithItsCall: no question outlives its call, whatever its context.
func TestQuestionInPlaceEndsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, over := make(chan struct{}), make(chan error, 1)
		c, h := serveLive(t, func(ctx context.Context) (protocol.Result, error) {
			go func() {
				_, err := reasonOf(context.WithoutCancel(ctx), "left")
				over <- err
			}()
			<-asked
			return say("done")
		})
		h.answer = func(q *pushed) (string, error) {
			close(asked)
			return silent(q)
		}
		start := time.Now()
		c.says("done")
		if err := <-over; err == nil || time.Since(start) > time.Second || h.withdrawn != 1 {
			t.Errorf("%v after %v, %d questions withdrawn", err, time.Since(start), h.withdrawn)
		}
	})
}

// TestOneFailureInPlaceWithdrawsTheOthers: of two concurrent questions, the end of one ends the
// other.
func TestOneFailureInPlaceWithdrawsTheOthers(t *testing.T) {
	broken := func(*pushed) (string, error) {
		time.Sleep(time.Second) // until the other one is open too
		return "", errors.New("broken")
	}
	for name, tc := range map[string]struct {
		other     func(*pushed) (string, error)
		want      string
		withdrawn int
	}{
		"declined": {says(declined), "error: declined: b", 0},
		"error":    {broken, "error: the client could not be asked", 1},
		"silence":  {silent, "error: nobody answered in time", 1},
	} {
		bubble(t, name, func(t *testing.T) {
			c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{HumanTimeout: time.Minute},
				func(ctx context.Context) (protocol.Result, error) {
					_ = roundtrip.OnCommit(ctx, func(context.Context) { t.Error("committed") })
					var a, b error
					var group sync.WaitGroup
					group.Go(func() { _, a = reasonOf(ctx, "a") })
					group.Go(func() { _, b = reasonOf(ctx, "b") })
					group.Wait()
					if refused := errors.Join(a, b); name == "declined" && refused != nil {
						return nil, refused
					}
					return say("deleted") // ignores the failure
				})
			h.answer = func(q *pushed) (string, error) {
				if q.InputRequest.(*protocol.ElicitForm).Message == "b ?" {
					return tc.other(q)
				}
				select { // a slow user
				case <-time.After(59 * time.Second):
					return accepted, nil
				case <-q.Done():
					return "", q.Err()
				}
			}
			if got := c.done(); got != tc.want || h.traffic() != 2 || h.withdrawn != tc.withdrawn {
				t.Errorf("got %q after %d questions, %d of them withdrawn, want %q", got,
					h.traffic(), h.withdrawn, tc.want)
			}
		})
	}
}

// TestSecondQuestionInPlaceCannotBeAsked: the second needs a missing capability; a handler that
// goes on is overruled.
func TestSecondQuestionInPlaceCannotBeAsked(t *testing.T) {
	c, h := serveLive(t, func(ctx context.Context) (protocol.Result, error) {
		_ = roundtrip.OnCommit(ctx, func(context.Context) { t.Error("committed") })
		if _, err := reasonOf(ctx, "a"); err != nil {
			t.Error(err)
		}
		_ = roundtrip.AskURL(ctx, "b", "visit", "https://x.example")
		if _, err := roundtrip.IdempotencyKey(ctx, "pay"); err == nil || ctx.Err() == nil {
			t.Errorf("the run goes on: %v, %v", err, ctx.Err())
		}
		return say("deleted")
	})
	h.answer = says(accepted)
	c.call.Capabilities.Elicitation = &protocol.ElicitationCapability{Form: true}
	c.refused(protocol.CodeCannotAsk, "elicitation")
	if h.traffic() != 1 {
		t.Errorf("%d questions", h.traffic())
	}
}

// TestOverlappingQuestionsInPlaceEnd: two goroutines that never stop asking end like one.
func TestOverlappingQuestionsInPlaceEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := newLegacy(t, protocol.V20251125,
			roundtrip.Options{Limits: roundtrip.Limits{Rounds: 2}},
			func(ctx context.Context) (protocol.Result, error) {
				var group sync.WaitGroup
				for _, name := range []string{"a", "b"} {
					group.Go(func() {
						for i := range 500 {
							if _, err := reasonOf(ctx, fmt.Sprint(name, i)); err != nil {
								return
							}
						}
					})
				}
				group.Wait()
				return say("done")
			})
		var asked atomic.Int64
		h.answer = func(q *pushed) (string, error) {
			select {
			case <-time.After(time.Duration(asked.Add(1)) * time.Second):
				return accepted, nil
			case <-q.Done():
				return "", q.Err()
			}
		}
		contains(t, c.done(), "error: gave up after 16 rounds")
		if n := h.traffic(); n > 40 {
			t.Errorf("%d questions", n)
		}
	})
}
