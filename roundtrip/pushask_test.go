package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const planSchema = `{"type":"object","properties":{"region":{"type":"string","enum":["eu","us"]},"size":{"type":"integer","default":3}},"required":["region"]}`

// push sends one question in its own call and returns the handler's result. A handler that drops
// the error must not complete.
func (c *client) push(ctx context.Context, q protocol.InputRequest) (raw json.RawMessage,
	err error) {
	c.t.Helper()
	result, failed := c.funnel.Do(ctx, c.call, func(ctx context.Context) (protocol.Result, error) {
		raw, err = roundtrip.PushRequest(ctx, q)
		return say("done")
	})
	r, ok := result.(*protocol.CallToolResult)
	if completed := failed == nil && ok && !r.IsError; completed != (err == nil) {
		c.t.Errorf("the push ended with %v, and the call with %+v, %v", err, result, failed)
	}
	return raw, err
}

// TestPushCannotUnderAContextThatEnded: nothing was asked or withdrawn, and a handler that drops
// the error does not complete.
func TestPushCannotUnderAContextThatEnded(t *testing.T) {
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		ended, stop := context.WithCancel(ctx)
		stop()
		_, err := roundtrip.PushRequest(ended, &protocol.ElicitForm{Message: "?",
			Schema: json.RawMessage(planSchema)})
		if _, ok := errors.AsType[*roundtrip.PushError](err); !ok {
			t.Errorf("got %v, want a PushError", err)
		}
		return say("paid")
	})
	if result, err := c.send(); err == nil && strings.Contains(show(result), "paid") {
		t.Errorf("the client gets %s", show(result))
	}
}

func TestPushEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := serveLive(t, nil)
		h.answer = silent
		start := time.Now()
		if _, err := c.push(t.Context(), &protocol.ListRoots{}); err == nil ||
			time.Since(start) != (10*time.Minute) {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("over")
		cancel(cause)
		if _, err := c.push(ctx, &protocol.ListRoots{}); !errors.Is(err, cause) {
			t.Errorf("got %v, want the cause of the context", err)
		}
		h.answer = fails(protocol.Errorf(7, "no"))
		_, err := c.push(t.Context(), &protocol.ListRoots{})
		if e, ok := protocol.AsError(err); !ok || e.Code != 7 || e.Message != "no" {
			t.Errorf("got %v", err)
		}
	})
}

// A goroutine's pushed question ends with the run of the handler, however that ends.
func TestAPushedQuestionEndsWithItsRun(t *testing.T) {
	for name, end := range map[string]func(push func() error, cancel func()){
		"the handler returns":      func(func() error, func()) {},
		"another question fails":   func(push func() error, _ func()) { _ = push() },
		"the request is cancelled": func(_ func() error, cancel func()) { cancel() },
		"the flow takes too long":  func(func() error, func()) { time.Sleep(24 * time.Hour) },
	} {
		bubble(t, name, func(t *testing.T) {
			ended := make(chan error, 1)
			isOver := func(when string) {
				t.Helper()
				synctest.Wait()
				select {
				case err := <-ended:
					if err == nil {
						t.Error("the question was answered")
					}
				default:
					t.Errorf("the question is open %s", when)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{
				HumanTimeout: 48 * time.Hour}, nil)
			h.answer = func(q *pushed) (string, error) {
				if h.traffic() > 1 {
					return "", protocol.Errorf(7, "no")
				}
				return silent(q)
			}
			_, _ = c.funnel.Do(ctx, c.call, func(ctx context.Context) (protocol.Result, error) {
				push := func() error {
					_, err := roundtrip.PushRequest(ctx, &protocol.ListRoots{})
					return err
				}
				go func() { ended <- push() }()
				synctest.Wait()
				end(push, cancel)
				if name != "the handler returns" {
					isOver("while the handler runs")
				}
				return say("done")
			})
			if name == "the handler returns" {
				isOver("after the handler")
			}
		})
	}
}

type observeFunc func(context.Context, event.Event)

func (f observeFunc) Observe(ctx context.Context, e event.Event) { f(ctx, e) }

// Clients and observers find the request's id in the context of a question, as handlers do.
func TestTheContextOfAQuestionNamesItsRequest(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *client) error{
		"pushed": func(ctx context.Context, _ *client) error {
			_, err := roundtrip.PushRequest(ctx, &protocol.ListRoots{})
			return err
		},
		"asked": func(ctx context.Context, _ *client) error {
			_, err := reasonOf(ctx, "why")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var id string
			seen := map[string]bool{}
			hold := func(ctx context.Context, who string) {
				seen[who] = true
				if got := roundtrip.RequestID(ctx); id == "" || got != id {
					t.Errorf("%s finds the id %q, want %q", who, got, id)
				}
			}
			observer := observeFunc(func(ctx context.Context, e event.Event) {
				switch e.(type) {
				case event.WaitBegan, event.WaitEnded, event.Answered:
					hold(ctx, fmt.Sprintf("%T", e))
				}
			})
			c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{Observer: observer}, nil)
			h.answer = func(q *pushed) (string, error) {
				hold(q, "the client")
				if q.Kind() == protocol.KindListRoots {
					return `{"roots":[]}`, nil
				}
				return form("because"), nil
			}
			_, err := c.funnel.Do(t.Context(), c.call, flow(func(ctx context.Context) string {
				id = roundtrip.RequestID(ctx)
				check(ask(ctx, c))
				return "done"
			}))
			if err != nil || len(seen) < 3 {
				t.Errorf("got %v, %v", seen, err)
			}
		})
	}
}
