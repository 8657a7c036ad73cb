package roundtrip_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// TestContextOfTheRequest: a handler's context ends with the request's, with its cause, and after
// the handler has returned.
func TestContextOfTheRequest(t *testing.T) {
	cause := errors.New("the client has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := serve(t, nil)
	var left, untouched context.Context
	_, err := c.funnel.Do(ctx, c.call, func(ctx context.Context) (protocol.Result, error) {
		untouched = ctx
		cancel(cause)
		<-ctx.Done()
		if context.Cause(ctx) != cause {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		return say("done")
	})
	if err != nil || untouched.Err() == nil {
		t.Errorf("%v, %v", err, untouched.Err())
	}
	_, err = c.funnel.Do(t.Context(), c.call, func(ctx context.Context) (protocol.Result, error) {
		var release context.CancelFunc
		left, release = context.WithCancel(ctx)
		t.Cleanup(release) // not before the test has seen its end
		return say("done")
	})
	if err != nil || left.Err() == nil {
		t.Errorf("%v; what was left behind goes on", err)
	}
	_, err = c.funnel.Do(t.Context(), c.call, func(ctx context.Context) (protocol.Result, error) {
		left = ctx
		return say("done")
	})
	<-left.Done() // requested after its end
	if err != nil {
		t.Error(err)
	}
}

func TestEndOfTheContextIsSeenWithoutDone(t *testing.T) {
	var kept context.Context
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		kept = ctx
		return say("done")
	})
	c.done()
	if kept.Err() == nil || context.Cause(kept) == nil {
		t.Errorf("after the handler: Err %v, Cause %v", kept.Err(), context.Cause(kept))
	}
	<-kept.Done()
}

// TestGoexit: a handler that ends its goroutine keeps its claim, commits nothing, and ends its
// context.
func TestGoexit(t *testing.T) {
	for name, swallow := range map[string]bool{"plain": false, "pending": true} {
		t.Run(name, func(t *testing.T) {
			paid := 0
			var kept context.Context
			c := guarded(t, flow(func(ctx context.Context) string {
				_ = roundtrip.OnCommit(ctx, func(context.Context) { t.Error("committed") })
				must(reasonOf(ctx, "k"))
				if swallow {
					_, _ = reasonOf(ctx, "l")
				}
				kept = ctx
				paid++
				runtime.Goexit()
				return "done"
			}))
			c.ask("k").answer("k", accepted)
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
			contains(t, c.done(), "the outcome is not known")
			if paid != 1 {
				t.Errorf("the effect happened %d times", paid)
			}
		})
	}
}

// Goroutines do everything while the handler returns, panics or asks. The race detector judges; the
// flow must end without commits.
func TestGoroutinesDoEverythingWhileTheHandlerReturns(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			for turn := range 20 {
				var left sync.WaitGroup
				opts := roundtrip.Options{Guard: store.NewMemoryGuard(0),
					StateStore: store.NewMemoryStateStore(0),
					Limits:     roundtrip.Limits{StateBytes: 600}}
				j := newJourney(t, m, opts, nil,
					func(ctx context.Context) (protocol.Result, error) {
						start := make(chan struct{})
						for i := range 4 {
							left.Go(func() {
								<-start
								_, _ = reasonOf(ctx, fmt.Sprint("q", i))
							})
							left.Go(func() {
								<-start
								_, _ = roundtrip.Memo(ctx, fmt.Sprint("m", i),
									func(context.Context) (int, error) { return i, nil })
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
				for range 3 { // a varying number
					result, err := j.send()
					if asked, ok := result.(*protocol.InputRequiredResult); ok && err == nil {
						j.call.Responses = answersTo(asked,
							func(protocol.InputRequest) string { return accepted })
					}
					left.Wait()
				}
			}
		})
	}
}
