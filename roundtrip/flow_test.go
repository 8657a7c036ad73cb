package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// The variable misbehaving has handlers that do not return the error of Ask.
var misbehaving = map[string]func(ctx context.Context, err error) (protocol.Result, error){
	"returns it": func(_ context.Context, err error) (protocol.Result, error) { return nil, err },
	"wraps with %v": func(_ context.Context, err error) (protocol.Result, error) {
		return nil, fmt.Errorf("guard: %v", err)
	},
	"another error": func(context.Context, error) (protocol.Result, error) {
		return nil, errors.New("no")
	},
	"a protocol error": func(context.Context, error) (protocol.Result, error) {
		return nil, protocol.Errorf(4711, "no")
	},
	"ignores it": func(context.Context, error) (protocol.Result, error) { return say("deleted") },
	"a fallback and the error": func(_ context.Context, err error) (protocol.Result, error) {
		r, _ := say("deleted")
		return r, err
	},
	"nothing": func(context.Context, error) (protocol.Result, error) { return nil, nil },
	"a result of another kind": func(context.Context, error) (protocol.Result, error) {
		return &protocol.ListToolsResult{}, nil
	},
	"a typed nil": func(context.Context, error) (protocol.Result, error) {
		return (*protocol.CallToolResult)(nil), nil
	},
	"panics with it":      func(_ context.Context, err error) (protocol.Result, error) { panic(err) },
	"panics":              func(context.Context, error) (protocol.Result, error) { panic("no") },
	"panics with nothing": func(context.Context, error) (protocol.Result, error) { panic(nil) },
	"recovers": func(_ context.Context, err error) (result protocol.Result, _ error) {
		defer func() {
			_ = recover()
			result, _ = say("deleted")
		}()
		panic(err)
	},
	"the context's error": func(ctx context.Context, _ error) (protocol.Result, error) {
		return nil, ctx.Err()
	},
	"a URL error": func(context.Context, error) (protocol.Result, error) {
		return nil, &protocol.URLElicitationRequiredError{
			Elicitations: []*protocol.ElicitURL{{Message: "m", URL: "https://x.example"}}}
	},
}

// TestPendingIsOutOfBand: whatever a handler does with the error, the client is asked, and the
// handler's result counts once the answer is there.
func TestPendingIsOutOfBand(t *testing.T) {
	for name, then := range misbehaving {
		for _, method := range families {
			t.Run(name+" "+method, func(t *testing.T) {
				c := guarded(t, func(ctx context.Context) (protocol.Result, error) {
					if _, err := reasonOf(ctx, "k"); err != nil {
						if !errors.Is(err, roundtrip.ErrPending) {
							t.Errorf("got %v, want ErrPending", err)
						}
						contains(t, err.Error(), "k")
						return then(ctx, err)
					}
					return completes(method)
				})
				c.call.Method = method
				c.call.CheckOutput = func(json.RawMessage) error {
					return errors.New("never checked in a round that asks")
				}
				c.ask("k")
				c.call.CheckOutput = nil
				c.answer("k", accepted)
				if _, err := c.send(); err != nil {
					t.Errorf("with the answer: %v", err)
				}
				panics := 0
				if name == "panics" || name == "panics with nothing" {
					panics = 1
				}
				if got := len(all[event.HandlerPanicked](c.events)); got != panics {
					t.Errorf("%d panics reported, want %d", got, panics)
				}
			})
		}
	}
}

// TestContextOfAPendingRound: the context and all derived from it end with its cause; cleanup runs.
func TestContextOfAPendingRound(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, nil)
		handler := func(ctx context.Context) (protocol.Result, error) {
			if err := ctx.Err(); err != nil || context.Cause(ctx) != nil {
				t.Errorf("at first: %v", err)
			}
			before, cancel := context.WithCancel(ctx)
			defer cancel()
			done := make(chan error, 1)
			stop := context.AfterFunc(ctx, func() { done <- context.Cause(ctx) })
			defer stop()
			_, err := reasonOf(before, "k")
			if err == nil {
				return say("done")
			}
			after, cancelAfter := context.WithTimeout(ctx, time.Minute)
			defer cancelAfter()
			if cause := <-done; cause != roundtrip.ErrPending {
				t.Errorf("cause %v", cause)
			}
			for name, ctx := range map[string]context.Context{"itself": ctx, "before": before,
				"after": after} {
				<-ctx.Done()
				if !errors.Is(ctx.Err(), context.Canceled) ||
					context.Cause(ctx) != roundtrip.ErrPending {
					t.Errorf("%s: %v because of %v", name, ctx.Err(), context.Cause(ctx))
				}
			}
			if ctx.Value(key{}) != "v" || roundtrip.RoundOf(after).Number != 1 {
				t.Error("the values are gone")
			}
			cleanup, release := roundtrip.CleanupContext(ctx)
			defer release()
			if cleanup.Err() != nil || cleanup.Value(key{}) != "v" {
				t.Errorf("cleanup: %v", cleanup.Err())
			}
			start := time.Now()
			<-cleanup.Done()
			if took := time.Since(start); took != 5*time.Second {
				t.Errorf("cleanup may take %v", took)
			}
			return nil, err
		}
		for leg := range 2 {
			result, err := c.funnel.Do(context.WithValue(t.Context(), key{}, "v"), c.call, handler)
			noError(t, err)
			if asked, ok := result.(*protocol.InputRequiredResult); ok {
				c.call.State = asked.RequestState
				c.answer("k", accepted)
			} else if leg == 0 {
				t.Errorf("got %s", show(result))
			}
		}
	})
}

// TestConcurrentAsks: goroutines' concurrent questions are one round, even if that is already
// pending.
func TestConcurrentAsks(t *testing.T) {
	const n = 16
	inEveryMode(t, roundtrip.Options{}, nil, func(ctx context.Context) (protocol.Result, error) {
		var group sync.WaitGroup
		var got [n]string
		var failed atomic.Int32
		for i := range n {
			group.Go(func() {
				if i%2 == 1 && roundtrip.RoundOf(ctx).Number == 1 && failed.Load() > 0 {
					<-ctx.Done() // late on purpose
				}
				reason, err := reasonOf(ctx, fmt.Sprint("q", i))
				if err != nil {
					failed.Add(1)
				}
				got[i] = reason
			})
		}
		group.Wait()
		if failed.Load() > 0 {
			return nil, errors.New("some failed")
		}
		return say(fmt.Sprintf("%d %s %s", len(got), got[0], got[n-1]))
	}, func(t *testing.T, m mode, j *journey, result protocol.Result, err error) {
		if show(result) != "16 now now" {
			t.Errorf("got %q, %v", show(result), err)
		}
		if j.traffic() != n || (m.replays() && j.runs != 2) {
			t.Errorf("%d questions in %d runs", j.traffic(), j.runs)
		}
	})
}

// TestFlowReturnsSeveralQuestions: returned questions follow the pending ones in their round.
func TestFlowReturnsSeveralQuestions(t *testing.T) {
	inEveryMode(t, roundtrip.Options{}, person{"a": form("one"), "b": form("two")},
		func(ctx context.Context) (protocol.Result, error) {
			first, err := reasonOf(ctx, "a")
			if err != nil {
				return nil, err
			}
			b, ok := roundtrip.AcceptedContent[Confirmation](ctx, "b")
			raw := roundtrip.RawAnswer(ctx, "raw")
			roots, _ := roundtrip.Roots(ctx, "roots")
			if !ok {
				return ask(roundtrip.Elicit[Confirmation]("b", "b ?",
					roundtrip.AnswerWithin(time.Minute)),
					roundtrip.ElicitSchema("raw", "raw ?", json.RawMessage(
						`{"type":"object","properties":{"reason":{"type":"string"}}}`)),
					roundtrip.ElicitURL("url", "visit", "https://x.example"),
					roundtrip.ListRoots("roots"))
			}
			return say(fmt.Sprint(first, b.Reason, string(raw.Content),
				roundtrip.Visited(ctx, "url"), len(roots)))
		}, func(t *testing.T, _ mode, j *journey, result protocol.Result, err error) {
			if got := show(result); err != nil || got != `onetwo{"reason":"now"}accepted 1` ||
				j.traffic() != 5 {
				t.Errorf("got %q, %v after %d questions", got, err, j.traffic())
			}
		})
}
