package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

const loginURL = "https://id.example/login"

const visitHold = 25 * time.Second // how long Await holds a modern request

func awaiting(done func(context.Context) (bool, error)) map[string]rawTool {
	return map[string]rawTool{
		"flow": func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
			if err := roundtrip.AskURL(ctx, "login", "Please sign in.", loginURL); err != nil {
				return nil, err
			}
			if err := roundtrip.Await(ctx, "login", done); err != nil {
				return nil, err
			}
			return server.Text("signed in"), nil
		},
		"guard": func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
			switch err := roundtrip.Await(ctx, "login", done); {
			case errors.Is(err, roundtrip.ErrNotFinished):
				return roundtrip.InputRequired(roundtrip.ElicitURL("login", "Please sign in.",
					loginURL)), nil
			case err != nil:
				return nil, err
			}
			return server.Text("signed in"), nil
		},
		"flow that drops errors": func(ctx context.Context,
			_ *server.ToolCall) (toolOutcome, error) {
			_ = roundtrip.AskURL(ctx, "login", "Please sign in.", loginURL)
			_ = roundtrip.Await(ctx, "login", done)
			return server.Text("signed in"), nil
		},
	}
}

const (
	agreed = `"login":{"action":"accept"}`
	left   = `"login":{"action":"decline"}`
)

// finishedAfter returns a function that reports the visit's end after a while, and its call count.
func finishedAfter(after time.Duration) (done func(context.Context) (bool,
	error), calls *atomic.Int32) {
	calls, finished := new(atomic.Int32), time.Now().Add(after)
	return func(context.Context) (bool, error) {
		calls.Add(1)
		return !time.Now().Before(finished), nil
	}, calls
}

// With progress, a client that gives up after some rounds waits twice as long.
func TestAwaitHoldsForLongerWithProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		done, _ := finishedAfter(time.Hour)
		h.tool("t", awaiting(done)["flow"])
		first := h.call("t", "{}")
		start := time.Now()
		var way back
		req := messageOf(2, protocol.MethodCallTool, fmt.Sprintf(`{"name":"t","arguments":{},%s,%s,`+
			`"_meta":{"%s":"2026-07-28","%s":%s,"progressToken":1}}`, answers(agreed), first.state(),
			protocol.MetaProtocolVersion, protocol.MetaClientCapabilities, h.capabilities))
		response, err := h.Handle(t.Context(), req, &way)
		noError(t, err)
		h.read(req, response).asks("login")
		wantEqual(t, "held for", time.Since(start), 2*visitHold)
		wantEqual(t, "heartbeats", len(way), 4) // one after 2 s, then one every 15 s
	})
}

// An early retry is held, then asked again with the reason; the flow's wording stays.
func TestAwaitHolds(t *testing.T) {
	for _, style := range []string{"flow", "guard", "flow that drops errors"} {
		inBubble(t, style, func(t *testing.T) {
			h := newHarness(t, nil)
			done, _ := finishedAfter(40*time.Second + time.Second/2)
			h.tool("t", awaiting(done)[style])
			first := h.call("t", "{}")
			first.asks("login")
			start := time.Now()
			second := h.call("t", "{}", answers(agreed), first.state())
			wantEqual(t, "held for", time.Since(start), visitHold)
			second.asks("login")
			if text := fmt.Sprint(second.result); !strings.Contains(text,
				"Not finished yet. Please sign in.") ||
				strings.Contains(fmt.Sprint(first.result), "Not finished") {
				t.Errorf("asked again: %s", text)
			}
			third := h.call("t", "{}", answers(agreed), second.state())
			third.text("signed in")
			wantEqual(t, "done after", time.Since(start), 41*time.Second)
		})
	}
}

// The wait sends heartbeats, and its end is notified in the revision that supports it.
func TestAwaitInASession(t *testing.T) {
	for _, style := range []string{"flow", "guard", "flow that drops errors"} {
		inBubble(t, style, func(t *testing.T) {
			h := newHarness(t, nil)
			done, _ := finishedAfter(90 * time.Second)
			h.tool("t", awaiting(done)[style])
			c := h.enter(protocol.V20251125, allCapabilities)
			c.answer = answerAll
			start := time.Now()
			wantEqual(t, "the result", c.call("t", "{}"), "signed in")
			wantEqual(t, "done after", time.Since(start), 90*time.Second)
			var asked struct {
				ID string `json:"elicitationId"`
			}
			if len(c.asked()) != 1 || json.Unmarshal(c.asked()[0].Params, &asked) != nil {
				t.Fatalf("asked %v", c.asked())
			}
			told := c.noted(protocol.NotifyElicitationCompleted)
			if len(told) != 1 || told[0] != fmt.Sprintf(`{"elicitationId":%q}`, asked.ID) {
				t.Errorf("told %v, want the end of %s", told, asked.ID)
			}
		})
	}
}

// Await gives up after HumanTimeout in both eras, in any number of rounds, with advice in the text.
func TestAwaitGivesUp(t *testing.T) {
	never, _ := finishedAfter(1000 * time.Hour)
	for style, handler := range awaiting(never) {
		inBubble(t, style, func(t *testing.T) {
			h := newHarness(t, nil)
			h.tool("t", handler)
			c := h.enter(protocol.V20251125, allCapabilities)
			c.answer = answerAll
			start := time.Now()
			if got := c.call("t", "{}"); got != `error: the visit "login" was not finished in time; finish at the link, then call again` {
				t.Errorf("got %q", got)
			}
			wantEqual(t, "gave up after", time.Since(start), (10 * time.Minute))
			r := h.call("t", "{}")
			start = time.Now()
			for range (10 * time.Minute) / visitHold {
				r.asks("login")
				r = h.call("t", "{}", answers(agreed), r.state())
			}
			r.failed("was not finished in time", "finish at the link, then call again")
			wantEqual(t, "gave up after", time.Since(start), (10 * time.Minute))
		})
	}
}

// A user who declines the visit ends the flow.
func TestAwaitRefusals(t *testing.T) {
	never := func(context.Context) (bool, error) { return false, nil }
	handlers := awaiting(never)
	for _, style := range []string{"flow", "guard"} {
		h := newHarness(t, nil)
		h.tool("t", handlers[style])
		first := h.call("t", "{}")
		first.asks("login")
		h.call("t", "{}", answers(left), first.state()).failed("declined: login")
		c := h.enter(protocol.V20251125, allCapabilities)
		c.answer = answering(`{"action":"cancel"}`)
		if got := c.call("t", "{}"); !strings.HasPrefix(got, "error: cancelled: login") {
			t.Errorf("%s: got %q", style, got)
		}
	}
}

func TestAwaitErrors(t *testing.T) {
	broken := func(context.Context) (bool, error) { return false, errors.New("no such login") }
	for style, handler := range awaiting(broken) {
		if style == "flow that drops errors" {
			continue
		}
		h := newHarness(t, nil)
		h.tool("t", handler)
		if style == "flow" {
			first := h.call("t", "{}")
			h.call("t", "{}", answers(agreed), first.state()).failed("no such login")
		} else {
			h.call("t", "{}").failed("no such login")
		}
	}
}

// Misuse is the handler's mistake. Ignoring an unfinished visit in guard style does not complete.
func TestAwaitMisused(t *testing.T) {
	wantIs(t, "outside of a handler",
		roundtrip.Await(t.Context(), "login", nil), roundtrip.ErrNoRound)
	h := newHarness(t, nil)
	h.tool("nil", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		_ = roundtrip.Await(ctx, "login", nil)
		return server.Text("done"), nil
	})
	h.tool("ignores", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		_ = roundtrip.Await(ctx, "login", func(context.Context) (bool, error) { return false, nil })
		return server.Text("DELETED"), nil
	})
	h.call("nil", "{}").refused(protocol.CodeInternalError)
	h.call("ignores", "{}").failed("is not finished")
	h.wantBug(`the visit "login" is not finished, nor has it been asked for: call AskURL`)
	c := h.enter(protocol.V20251125, allCapabilities)
	wantPart(t, "the result", c.call("ignores", "{}"), "is not finished")
}

// Waiting for a question that is not a visit is a server bug, even if the function reports an end.
func TestAwaitOfAnotherQuestion(t *testing.T) {
	for _, finished := range []bool{true, false} {
		done := func(context.Context) (bool, error) { return finished, nil }
		t.Run(fmt.Sprint("flow ", finished), func(t *testing.T) {
			wantNoVisit(t, `{"action":"accept","content":{"region":"eu"}}`,
				func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
					if _, err := roundtrip.Ask[Both](ctx, "login", "Where?"); err != nil {
						return nil, err
					}
					_ = roundtrip.Await(ctx, "login", done)
					return server.Text("DELETED"), nil
				})
		})
		for _, answer := range []string{`{"action":"accept","content":{"region":"eu"}}`,
			`{"action":"decline"}`} {
			t.Run(fmt.Sprint("guard ", finished, answer), func(t *testing.T) {
				wantNoVisit(t, answer, func(ctx context.Context, _ *server.ToolCall) (
					protocol.CallToolOutcome, error) {
					if roundtrip.Answer[Both](ctx, "login").Outcome == roundtrip.Missing {
						return roundtrip.InputRequired(
							roundtrip.Elicit[Both]("login", "Where?")), nil
					}
					_ = roundtrip.Await(ctx, "login", done)
					return server.Text("DELETED"), nil
				})
			})
		}
	}
}

func wantNoVisit(t *testing.T, answer string, handler rawTool) {
	h := newHarness(t, nil)
	h.tool("t", handler)
	first := h.call("t", "{}")
	h.call("t", "{}", answers(`"login":`+answer), first.state()).refused(protocol.CodeInternalError)
	h.wantBug(`Await "login": it was asked as elicitation.form; Await is for a visit, which ` +
		`AskURL or ElicitURL asks for`)
	c := h.enter(protocol.V20251125, allCapabilities)
	c.answer = answering(answer)
	wantEqual(t, "2025-11-25", c.call("t", "{}"), "code -32603")
}

// The error names the key and the calls that ask for a visit, unless the visit was asked for.
func TestAwaitOfNoQuestion(t *testing.T) {
	never := func(context.Context) (bool, error) { return false, nil }
	h := newHarness(t, nil)
	h.tool("t", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		err := roundtrip.Await(ctx, "login", never)
		wantIs(t, "error", err, roundtrip.ErrNotFinished)
		return nil, err
	})
	const want = `the visit is not finished: "login" has not been asked for; call AskURL with this ` +
		`key before Await, or return ElicitURL with it`
	h.call("t", "{}").failed(want)
	c := h.enter(protocol.V20251125, allCapabilities)
	if got := c.call("t", "{}"); !strings.HasPrefix(got, "error: "+want) {
		t.Errorf("got %q", got)
	}

	h = newHarness(t, nil)
	asked := 0
	h.tool("t", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		err := roundtrip.Await(ctx, "login", never)
		if asked++; asked == 1 {
			return roundtrip.InputRequired(roundtrip.ElicitURL("login", "?", loginURL)), nil
		}
		wantNoPart(t, "it has been asked for", err.Error(), "has not been asked for")
		return nil, err
	})
	first := h.call("t", "{}")
	h.call("t", "{}", first.state()).failed("the visit is not finished: login")
}

// A finished visit stays finished; in guard style one that was finished before is not asked for.
func TestAwaitRemembers(t *testing.T) {
	done, calls := finishedAfter(0)
	h := newHarness(t, nil)
	h.tool("t", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		if err := roundtrip.Await(ctx, "login", done); err != nil {
			return nil, err
		}
		answer, err := roundtrip.Ask[Reason](ctx, "why", "Why?")
		if err != nil {
			return nil, err
		}
		return server.Text(answer.Reason), nil
	})
	first := h.call("t", "{}")
	first.asks("why")
	h.call("t", "{}", answers(`"why":{"action":"accept","content":{"reason":"now"}}`), first.state()).text("now")
	wantEqual(t, "looked times", calls.Load(), int32(1))
}

// A function that itself waits is not held again, and learns when its request is released.
func TestAwaitLongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callback := make(chan bool)
		looks := 0
		done := func(ctx context.Context) (bool, error) {
			// at once: in the asking leg in guard style, and before the hold
			if looks++; looks <= 2 {
				return false, nil
			}
			select {
			case <-callback:
				return true, nil
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
		h := newHarness(t, nil)
		h.tool("t", awaiting(done)["guard"])
		first := h.call("t", "{}")
		start := time.Now()
		second := h.call("t", "{}", answers(agreed), first.state())
		second.asks("login")
		wantEqual(t, "held for", time.Since(start), visitHold)
		looks = 1
		go func() {
			time.Sleep(7300 * time.Millisecond)
			close(callback)
		}()
		start = time.Now()
		h.call("t", "{}", answers(agreed), second.state()).text("signed in")
		wantEqual(t, "held for", time.Since(start), 7300*time.Millisecond)
	})
}

// Code around the handler sees the wait, in modern revisions too; above the limit no call is held.
func TestAwaitIsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var waits []bool
		told := func() []bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(waits)
		}
		never, _ := finishedAfter(time.Hour)
		watch := func(next server.Handler) server.Handler {
			return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
				return next(roundtrip.WatchWaiting(ctx, func(w bool) {
					mu.Lock()
					defer mu.Unlock()
					waits = append(waits, w)
				}), request)
			}
		}
		h := newHarness(t, &server.Options{Middleware: []server.Middleware{watch},
			Roundtrip: roundtrip.Options{Limits: roundtrip.Limits{Waiting: 1}}})
		h.tool("t", awaiting(never)["flow"])
		first, other := h.call("t", "{}"), h.call("t", "{}")
		over := make(chan bool)
		go func() {
			defer close(over)
			h.call("t", "{}", answers(agreed), first.state()).asks("login")
		}()
		synctest.Wait()
		if got := told(); len(got) != 1 || !got[0] {
			t.Errorf("told %v while the call is held", got)
		}
		start := time.Now()
		h.call("t", "{}", answers(agreed), other.state()).asks("login")
		wantEqual(t, "the second was held for", time.Since(start), time.Duration(0))
		<-over
		if got := told(); len(got) != 2 || got[1] {
			t.Errorf("told %v", got)
		}
	})
}
