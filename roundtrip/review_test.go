package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestMemoDoesNotKeepWhatIgnoredAQuestion: a memo whose function asks and
// swallows the error would hide the person's refusal from all later rounds.
func TestMemoDoesNotKeepWhatIgnoredAQuestion(t *testing.T) {
	inEveryMode(t, roundtrip.Options{}, person{"sure": declined}, func(ctx context.Context) (protocol.Result, error) {
		plan, err := roundtrip.Memo(ctx, "plan", func(ctx context.Context) (string, error) {
			if _, err := reasonOf(ctx, "sure"); errors.As(err, new(*roundtrip.DeclinedError)) {
				return "", err
			}
			return "delete", nil // although nobody has agreed
		})
		if err != nil {
			return nil, err
		}
		return say(plan)
	}, func(t *testing.T, _ mode, _ *journey, result protocol.Result, err error) {
		if got := show(result); got != "error: declined: sure" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// TestFlowVersionAfterAnswers: what was read before FlowVersion was of nobody
// knows which version.
func TestFlowVersionAfterAnswers(t *testing.T) {
	for name, look := range map[string]func(ctx context.Context) bool{
		"Answer": func(ctx context.Context) bool { return whyNow.Answer(ctx).Outcome == roundtrip.Accepted },
		"State":  func(ctx context.Context) bool { _, ok := roundtrip.State[string](ctx); return ok },
		"RawAnswer": func(ctx context.Context) bool {
			return roundtrip.RawAnswer(ctx, "raw").Outcome == roundtrip.Accepted
		},
		"Visited": func(ctx context.Context) bool { return roundtrip.Visited(ctx, "url") == roundtrip.Accepted },
	} {
		t.Run(name, func(t *testing.T) {
			version, late := "1", false
			c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
				if !late {
					_ = roundtrip.FlowVersion(ctx, version)
				}
				done := look(ctx)
				if late && version != "" {
					_ = roundtrip.FlowVersion(ctx, version)
				}
				if !done {
					return ask(whyNow.Elicit("why ?"), roundtrip.WithState("kept"), roundtrip.ElicitURL("url", "go", "https://x.example"),
						roundtrip.RawForm("raw", "r", json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string"}}}`)))
				}
				return say("deleted")
			})
			retry := func() *client { return c.answer("why", accepted, "raw", accepted, "url", accepted) }
			c.ask("why", "url", "raw")
			first := c.call.State
			if got := retry().done(); got != "deleted" {
				t.Fatalf("got %q", got)
			}
			late, version = true, "2"
			c.call.State = first
			retry()
			c.bug()
			late, version = true, "" // guard style that has no version any more
			c.call.State = first
			retry().ask("why", "url", "raw")
		})
	}
}

// TestBatchOfNil is a mistake that ends the run, as all are: a handler that
// ignores the error must not go on.
func TestBatchOfNil(t *testing.T) {
	c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
		var c Confirmation
		if err := roundtrip.Batch(ctx, roundtrip.Into(&c, "k", "k ?"), nil); err == nil {
			t.Error("no error")
		}
		return say("deleted")
	})
	contains(t, c.bug(), "nil")
}

// TestBatchStoresAllOrNothing: one answer of two does not fit its type.
func TestBatchStoresAllOrNothing(t *testing.T) {
	type small struct {
		N int8 `json:"n"`
	}
	var stored Confirmation
	c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
		var n small
		stored = Confirmation{}
		err := roundtrip.Batch(ctx, roundtrip.Into(&stored, "k", "k ?"), roundtrip.Into(&n, "n", "n ?"))
		if err != nil && stored != (Confirmation{}) {
			t.Errorf("%v is stored beside the error %v", stored, err)
		}
		return say(fmt.Sprint(stored, n, err))
	})
	c.ask("k", "n")
	c.answer("k", accepted, "n", `{"action":"accept","content":{"n":300}}`).ask("n")
}

// TestEndOfTheContextIsSeenWithoutDone: code that polls Err sees the end too.
func TestEndOfTheContextIsSeenWithoutDone(t *testing.T) {
	var kept context.Context
	c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
		kept = ctx
		return say("done")
	})
	c.done()
	if kept.Err() == nil || context.Cause(kept) == nil {
		t.Errorf("after the handler: Err %v, Cause %v", kept.Err(), context.Cause(kept))
	}
	<-kept.Done()
}

// TestVersionsAreNotTheClientsFault: answers that are dropped because the code
// changed do not make the client one that loses its state.
func TestVersionsAreNotTheClientsFault(t *testing.T) {
	version := 0
	c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
		if err := roundtrip.FlowVersion(ctx, fmt.Sprint(version)); err != nil {
			return nil, err
		}
		_, err := reasonOf(ctx, "a")
		if err != nil {
			return nil, err
		}
		return say("done")
	})
	c.ask("a")
	for range 4 {
		version = 1 - version
		c.answer("a", accepted).ask("a")
	}
	if got := c.answer("a", accepted).done(); got != "done" {
		t.Errorf("got %q", got)
	}
}

// TestGoexit: a handler that ends its goroutine leaves its claim taken, nothing
// committed, and its context ended.
func TestGoexit(t *testing.T) {
	for name, swallow := range map[string]bool{"plain": false, "pending": true} {
		t.Run(name, func(t *testing.T) {
			paid := 0
			var kept context.Context
			c := newClient(t, roundtrip.Options{Guard: roundtrip.NewMemoryGuard(0)}, func(ctx context.Context) (protocol.Result, error) {
				_ = roundtrip.OnCommit(ctx, func(context.Context) { t.Error("committed") })
				if _, err := reasonOf(ctx, "k"); err != nil {
					return nil, err
				}
				if swallow {
					_, _ = reasonOf(ctx, "l")
				}
				kept = ctx
				paid++
				runtime.Goexit()
				return say("done")
			})
			c.ask("k")
			c.answer("k", accepted)
			over := make(chan struct{})
			go func() {
				defer close(over)
				_, _ = c.funnel.Do(context.Background(), c.call, c.handler)
				t.Error("Do returned")
			}()
			<-over
			if kept.Err() == nil {
				t.Error("the context goes on")
			}
			c.fails(protocol.CodeInvalidParams)
			if paid != 1 {
				t.Errorf("the effect happened %d times", paid)
			}
		})
	}
}

// TestMemoPanics: a handler that recovers may try again.
func TestMemoPanics(t *testing.T) {
	c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
		try := func(fn func(context.Context) (int, error)) (n int, err error) {
			defer func() {
				if v := recover(); v != nil {
					err = fmt.Errorf("panic: %v", v)
				}
			}()
			return roundtrip.Memo(ctx, "m", fn)
		}
		_, first := try(func(context.Context) (int, error) { panic("no") })
		n, second := try(func(context.Context) (int, error) { return 1, nil })
		return say(fmt.Sprint(first, n, second))
	})
	if got := c.done(); got != "panic: no1<nil>" && got != "panic: no 1 <nil>" {
		t.Errorf("got %q", got)
	}
}

// TestLiveQuestionEndsWithItsCall: whatever context a goroutine asks with,
// nobody is shown a question that belongs to no call any more.
func TestLiveQuestionEndsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, over := make(chan struct{}), make(chan error, 1)
		c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
			go func() {
				_, err := reasonOf(context.WithoutCancel(ctx), "left")
				over <- err
			}()
			<-asked
			return say("done")
		})
		h.answer = func(ctx context.Context, q protocol.InputRequest, extend func()) (json.RawMessage, error) {
			close(asked)
			return silent(ctx, q, extend)
		}
		start := time.Now()
		if got := c.done(); got != "done" {
			t.Errorf("got %q", got)
		}
		if err := <-over; err == nil || time.Since(start) > time.Second || h.withdrawn != 1 {
			t.Errorf("%v after %v, %d questions withdrawn", err, time.Since(start), h.withdrawn)
		}
	})
}

// TestLiveSiblings: two questions in the air at once, and what becomes of the
// one decides what becomes of the other.
func TestLiveSiblings(t *testing.T) {
	broken := func(context.Context, protocol.InputRequest, func()) (json.RawMessage, error) {
		time.Sleep(time.Second) // until the other one is in the air, too
		return nil, errors.New("broken")
	}
	for name, tc := range map[string]struct {
		other     func(context.Context, protocol.InputRequest, func()) (json.RawMessage, error)
		want      string
		withdrawn int
	}{
		"declined": {says(declined), "error: declined: b", 0},
		"error":    {broken, "error: the client could not be asked", 1},
		"silence":  {silent, "error: nobody answered in time", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{HumanTimeout: time.Minute}, func(ctx context.Context) (protocol.Result, error) {
					_ = roundtrip.OnCommit(ctx, func(context.Context) { t.Error("committed") })
					var a, b error
					var group sync.WaitGroup
					group.Go(func() { _, a = reasonOf(ctx, "a") })
					group.Go(func() { _, b = reasonOf(ctx, "b") })
					group.Wait()
					if refused := errors.Join(a, b); name == "declined" && refused != nil {
						return nil, refused
					}
					return say("deleted") // as if nothing had happened
				})
				h.answer = func(ctx context.Context, q protocol.InputRequest, extend func()) (json.RawMessage, error) {
					if q.(*protocol.ElicitForm).Message == "b ?" {
						return tc.other(ctx, q, extend)
					}
					select { // as slow as one who thinks
					case <-time.After(59 * time.Second):
						return json.RawMessage(accepted), nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				if got := c.done(); got != tc.want || h.traffic() != 2 || h.withdrawn != tc.withdrawn {
					t.Errorf("got %q after %d questions, %d of them withdrawn, want %q", got, h.traffic(), h.withdrawn, tc.want)
				}
			})
		})
	}
}

// TestLiveSecondQuestionCannotBeAsked: the first was answered, the second needs
// what the client lacks, and a handler that goes on all the same is not believed.
func TestLiveSecondQuestionCannotBeAsked(t *testing.T) {
	c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
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

// TestEverythingAtOnce has goroutines do all there is to do while their handler
// returns, panics or asks. The race detector judges; the flow must end, and
// nothing may be committed that was asked about.
func TestEverythingAtOnce(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			for turn := range 20 {
				var left sync.WaitGroup
				opts := roundtrip.Options{Guard: roundtrip.NewMemoryGuard(0), StateStore: roundtrip.NewMemoryStateStore(0), MaxStateBytes: 600}
				j := newJourney(t, m, opts, nil, func(ctx context.Context) (protocol.Result, error) {
					start := make(chan struct{})
					for i := range 4 {
						left.Go(func() {
							<-start
							_, _ = reasonOf(ctx, fmt.Sprint("q", i))
						})
						left.Go(func() {
							<-start
							_, _ = roundtrip.Memo(ctx, fmt.Sprint("m", i), func(context.Context) (int, error) { return i, nil })
							_ = roundtrip.OnCommit(ctx, func(context.Context) {})
						})
						left.Go(func() {
							<-start
							whyNow.Answer(ctx)
							roundtrip.State[string](ctx)
							_, _ = roundtrip.IdempotencyKey(ctx, "k")
							_ = roundtrip.FlowVersion(ctx, "1")
							roundtrip.DroppedAnswers(ctx)
							_ = context.Cause(ctx)
							_ = ctx.Err()
						})
					}
					close(start)
					runtime.Gosched()
					switch turn % 4 {
					case 0:
						panic("no")
					case 1:
						return ask(whyNow.Elicit("why ?"), roundtrip.WithState(turn))
					case 2:
						return nil, errors.New("no")
					}
					return say("done")
				})
				for range 3 { // more or less of it, as it happens
					result, err := j.send()
					if asked, ok := result.(*protocol.InputRequiredResult); ok && err == nil {
						for _, q := range asked.InputRequests {
							j.call.Responses = append(j.call.Responses, protocol.KeyedResponse{Key: q.Key, Result: json.RawMessage(accepted)})
						}
					}
					left.Wait()
				}
			}
		})
	}
}

// unwriting is a guard that claims and records nothing.
type unwriting struct{ *roundtrip.MemoryGuard }

func (unwriting) Commit(context.Context, string, []byte) error { return errors.New("no space") }

// TestOnCommitWithoutRecord: the client gets the outcome all the same, so what
// belongs to it happens, once; the state is spent.
func TestOnCommitWithoutRecord(t *testing.T) {
	ran := 0
	c := newClient(t, roundtrip.Options{Guard: unwriting{roundtrip.NewMemoryGuard(0)}}, func(ctx context.Context) (protocol.Result, error) {
		if _, err := reasonOf(ctx, "k"); err != nil {
			return nil, err
		}
		if err := roundtrip.OnCommit(ctx, func(context.Context) { ran++ }); err != nil {
			return nil, err
		}
		return say("done")
	})
	c.ask("k")
	if got := c.answer("k", accepted).done(); got != "done" {
		t.Errorf("got %q", got)
	}
	c.fails(protocol.CodeBusy) // as far as the guard knows the leg still runs
	if one[roundtrip.ServerBug](t, c.events); ran != 1 {
		t.Errorf("ran %d times", ran)
	}
}

// TestOverlappingLiveQuestionsEnd: two goroutines that never stop asking, so that
// there is always a question in the air, come to an end as one does.
func TestOverlappingLiveQuestionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{MaxRounds: 2}, func(ctx context.Context) (protocol.Result, error) {
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
		h.answer = func(ctx context.Context, _ protocol.InputRequest, _ func()) (json.RawMessage, error) {
			select {
			case <-time.After(time.Duration(asked.Add(1)) * time.Second):
				return json.RawMessage(accepted), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		contains(t, c.done(), "error: gave up after 16 rounds")
		if n := h.traffic(); n > 40 {
			t.Errorf("%d questions", n)
		}
	})
}

// TestWithdrawnBatch: a batch that its handler gave up half answered can be asked
// again, with the keys it had.
func TestWithdrawnBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
			var a, b Confirmation
			batch := func(ctx context.Context) error {
				return roundtrip.Batch(ctx, roundtrip.Into(&a, "a", "a ?"), roundtrip.Into(&b, "b", "b ?"))
			}
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if err := batch(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if err := batch(ctx); err != nil {
				return nil, err
			}
			return say(a.Reason + b.Reason)
		})
		h.answer = func(ctx context.Context, q protocol.InputRequest, extend func()) (json.RawMessage, error) {
			switch h.traffic() {
			case 1, 2:
				if q.(*protocol.ElicitForm).Message == "b ?" {
					return json.RawMessage(`{"action":"yes"}`), nil
				}
			case 3:
				return silent(ctx, q, extend)
			}
			return json.RawMessage(accepted), nil
		}
		if got := c.done(); got != "nownow" || h.traffic() != 4 {
			t.Errorf("got %q after %d questions", got, h.traffic())
		}
	})
}
