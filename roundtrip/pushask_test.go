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

// push sends one question in a call of its own and returns what its handler got. A handler that
// drops the error must not complete.
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

// TestPush asks in place; content is checked and completed as in rounds, and asked for again.
func TestPush(t *testing.T) {
	for _, v := range []protocol.Version{protocol.V20250618, protocol.V20251125} {
		for _, tc := range []struct {
			name, answer, want, fails string
			asked                     int
		}{
			{"accepted", `{"action":"accept","content":{"region":"eu"}}`, `{"action":"accept","content":{"region":"eu","size":3}}`, "", 1},
			{"declined", `{"action":"decline"}`, `{"action":"decline"}`, "", 1},
			{"cancelled", `{"action":"cancel"}`, `{"action":"cancel"}`, "", 1},
			{"not a choice", `{"action":"accept","content":{"region":"mars"}}`, "", "Region", 3},
			{"without content", agreed, "", "Region", 3},
			{"no answer", `{}`, "", "shape is wrong", 2},
		} {
			t.Run(string(v)+" "+tc.name, func(t *testing.T) {
				c, h := newLegacy(t, v, roundtrip.Options{HumanTimeout: 48 * time.Hour}, nil)
				h.answer = says(tc.answer)
				raw, err := c.push(t.Context(),
					&protocol.ElicitForm{Message: "?", Schema: json.RawMessage(planSchema)})
				if h.traffic() != tc.asked {
					t.Errorf("asked %d times, want %d", h.traffic(), tc.asked)
				}
				if tc.fails != "" {
					if err == nil {
						t.Fatalf("got %s, want an error", raw)
					}
					contains(t, err.Error(), tc.fails)
					return
				}
				if err != nil || string(raw) != tc.want {
					t.Errorf("got %s, %v, want %s", raw, err, tc.want)
				}
			})
		}
	}
}

// TestPushCannot fails before any traffic, with a type that tells why.
func TestPushCannot(t *testing.T) {
	form := &protocol.ElicitForm{Message: "?", Schema: json.RawMessage(planSchema)}
	for _, tc := range []struct {
		name   string
		change func(*roundtrip.Call)
		q      protocol.InputRequest
		words  string
	}{
		{"modern", func(c *roundtrip.Call) { c.Version = protocol.V20260728 }, form,
			"InputRequired"},
		{"no session", func(c *roundtrip.Call) { c.Push = nil }, form, "InputRequired"},
		{"no capability", func(c *roundtrip.Call) {
			c.Capabilities = protocol.ClientCapabilities{}
		}, form, "elicitation"},
		{"no elicitation", func(c *roundtrip.Call) { c.Version = protocol.V20250326 }, form,
			"2025-03-26"},
		{"no URLs", func(c *roundtrip.Call) { c.Version = protocol.V20250618 },
			&protocol.ElicitURL{URL: "https://id.example"}, "URL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, h := serveLive(t, nil)
			tc.change(&c.call)
			_, err := c.push(t.Context(), tc.q)
			e, ok := errors.AsType[*roundtrip.PushError](err)
			if !ok || e.Method != protocol.MethodElicit || h.traffic() != 0 {
				t.Fatalf("got %v after %d questions, want a PushError", err, h.traffic())
			}
			contains(t, err.Error(), tc.words)
			if e.Missing.IsZero() != (tc.name != "no capability") {
				t.Errorf("missing %s", e.Missing)
			}
		})
	}
	c, _ := serveLive(t, nil)
	for _, q := range []protocol.InputRequest{nil, (*protocol.ElicitForm)(nil),
		&protocol.ElicitForm{Schema: json.RawMessage(`[]`)}} {
		if _, err := c.push(t.Context(), q); err == nil {
			t.Errorf("question %#v was asked", q)
		}
	}
}

// TestPushCannotUnderAContextThatEnded: nobody was asked, so nothing was withdrawn, and a handler
// that drops the error does not complete.
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

// TestPushEnds with what the client says, with its context, and in time.
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

// A question that a goroutine of a handler pushes ends with the run of the handler,
// whoever ends that.
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

// observeFunc is a function that is an observer.
type observeFunc func(context.Context, event.Event)

func (f observeFunc) Observe(ctx context.Context, e event.Event) { f(ctx, e) }

// Whoever is told of a question by a client or an observer finds the id of the request in
// the context, as handlers do.
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
