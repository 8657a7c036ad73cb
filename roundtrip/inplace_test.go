package roundtrip_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestCancelledQuestionsEndTheRun: of a request that is cancelled while its
// questions wait, a handler that takes the error for a go-ahead must not be
// believed. They hang on the request and not on the handler's context, and may
// hear of its end first.
func TestCancelledQuestionsEndTheRun(t *testing.T) {
	for range 50 {
		parent, cancel := context.WithCancel(t.Context())
		for range 200 { // what else waits for the end of the request
			_, stop := context.WithCancel(parent)
			defer stop()
		}
		committed := false
		c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
			if err := roundtrip.OnCommit(ctx, func(context.Context) { committed = true }); err != nil {
				t.Error(err)
			}
			ctx.Done() // as everything does that waits
			var x, y Confirmation
			_ = roundtrip.Batch(ctx, roundtrip.Into(&x, "x", "X?"), roundtrip.Into(&y, "y", "Y?"))
			return say("deleted")
		})
		h.answer = func(ctx context.Context, q protocol.InputRequest, extend func()) (json.RawMessage, error) {
			go cancel()
			return silent(ctx, q, extend)
		}
		result, err := c.funnel.Do(parent, c.call, c.handler)
		if got := show(result); got == "deleted" || committed {
			t.Fatalf("got %q, %v; committed: %t", got, err, committed)
		}
		cancel()
	}
}

// TestFlowEndsBeforeTheQuestion: the time of a flow is over when its handler
// comes to ask.
func TestFlowEndsBeforeTheQuestion(t *testing.T) {
	for name, of := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"context of the handler": func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
		"derived":                context.WithCancel,
		"cut off": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithCancel(context.WithoutCancel(ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{FlowTTL: time.Minute}, func(ctx context.Context) (protocol.Result, error) {
					time.Sleep(2 * time.Minute)
					ctx, cancel := of(ctx)
					defer cancel()
					if _, err := reasonOf(ctx, "a"); err == nil {
						t.Error("answered")
					}
					return say("deleted")
				})
				if got, want := c.done(), "error: nobody answered in time"; got != want || h.traffic() != 0 {
					t.Errorf("got %q after %d questions, want %q after none", got, h.traffic(), want)
				}
			})
		})
	}
}

// TestFlowEndsWhileTheQuestionWaits: progress puts the end of a question off,
// not that of the flow.
func TestFlowEndsWhileTheQuestionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{FlowTTL: time.Hour}, func(ctx context.Context) (protocol.Result, error) {
			if _, err := reasonOf(ctx, "a"); err == nil || ctx.Err() == nil {
				t.Errorf("got %v, the context says %v", err, ctx.Err())
			}
			return say("deleted")
		})
		h.answer = func(ctx context.Context, _ protocol.InputRequest, extend func()) (json.RawMessage, error) {
			for {
				select {
				case <-time.After(time.Minute):
					extend()
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
		}
		start := time.Now()
		if got, took := c.done(), time.Since(start); took != time.Hour || got != "error: nobody answered in time" {
			t.Errorf("got %q after %v", got, took)
		}
	})
}
