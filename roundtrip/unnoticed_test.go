package roundtrip_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestInvalidAnswersStayInvalid: an answer that does not fit its form does not fit
// it the second time that it is read either, in this round and in the next.
func TestInvalidAnswersStayInvalid(t *testing.T) {
	var outcomes []roundtrip.Outcome
	c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
		for range 2 {
			reply := roundtrip.Answer[Confirmation](ctx, "k")
			outcomes = append(outcomes, reply.Outcome)
			if reply.Outcome == roundtrip.Invalid && (reply.Err == nil || reply.Content.Reason != "") {
				t.Errorf("reply %+v", reply)
			}
		}
		if roundtrip.Number(ctx) == 1 {
			return ask(roundtrip.Elicit[Confirmation]("k", "?"))
		}
		return say("done")
	})
	c.ask("k")
	c.answer("k", `{"action":"accept","content":{"reason":"x"}}`).done()
	want := []roundtrip.Outcome{roundtrip.Missing, roundtrip.Missing, roundtrip.Invalid, roundtrip.Invalid}
	for i, outcome := range outcomes {
		if len(outcomes) != len(want) || outcome != want[i] {
			t.Fatalf("got %v, want %v", outcomes, want)
		}
	}
}

// TestAddedQuestionsKeepTheOthers: a question that middleware adds to a result
// leaves the first as its author built it: it may be asked again, and it is asked
// for as long as was said.
func TestAddedQuestionsKeepTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
			if roundtrip.Number(ctx) == 3 {
				return say("done")
			}
			asks := roundtrip.InputRequired(roundtrip.Elicit[Confirmation]("k", "?").AskAgain().ExpiresIn(time.Minute))
			asks.InputRequests = append(asks.InputRequests, protocol.KeyedRequest{Key: "added", Request: &protocol.ListRoots{}})
			return asks, nil
		})
		c.ask("k", "added")
		c.answer("k", declined, "added", `{"roots":[]}`).ask("k", "added") // and not a refusal
		time.Sleep(time.Minute)
		frozen(t, c.answer("k", accepted, "added", `{"roots":[]}`), roundtrip.ReasonExpired)
	})
}

// TestInvalidResultBesideAQuestion: a hand-made result that is wrong, beside a
// question that waits, is the server's mistake and no panic.
func TestInvalidResultBesideAQuestion(t *testing.T) {
	for name, wrong := range map[string]*protocol.InputRequiredResult{
		"key twice": {InputRequests: protocol.InputRequests{{Key: "a", Request: &protocol.ListRoots{}}, {Key: "a", Request: &protocol.ListRoots{}}}},
		"no form":   {InputRequests: protocol.InputRequests{{Key: "a", Request: &protocol.ElicitForm{Message: "?", Schema: json.RawMessage(`[]`)}}}},
		"nil":       {InputRequests: protocol.InputRequests{{Key: "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
				_, _ = roundtrip.Ask[Confirmation](ctx, "k", "?")
				return wrong, nil
			})
			c.bug()
			if n := len(all[roundtrip.HandlerPanicked](c.events)); n != 0 {
				t.Errorf("%d panics", n)
			}
		})
	}
}

// TestEventsOfPlainCalls: a call of one leg ends no flow, and where no answer is
// dropped nobody hears of dropped answers, in both eras and in place.
func TestEventsOfPlainCalls(t *testing.T) {
	c := newClient(t, roundtrip.Options{}, func(context.Context) (protocol.Result, error) { return say("done") })
	c.done()
	handler := func(ctx context.Context) (protocol.Result, error) {
		if _, err := roundtrip.Ask[Confirmation](ctx, "k", "?"); err != nil {
			return nil, err
		}
		return say("done")
	}
	asking := newClient(t, roundtrip.Options{}, handler)
	asking.ask("k")
	asking.answer("k", accepted).done()
	live, h := newLegacy(t, protocol.V20251125, roundtrip.Options{}, handler)
	h.answer = says(accepted)
	live.done()
	for name, tc := range map[string]struct {
		events *events
		ends   int
	}{"plain": {c.events, 0}, "modern": {asking.events, 1}, "in place": {live.events, 0}} {
		if n := len(all[roundtrip.FlowEnded](tc.events)); n != tc.ends {
			t.Errorf("%s: %d flows ended, want %d", name, n, tc.ends)
		}
		if list := all[roundtrip.AnswersDropped](tc.events); len(list) != 0 {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

// TestLongestFlowVersionAndAbsentOptions: a version of exactly 64 bytes is taken, and
// an option that is nil is none, whoever is asked.
func TestLongestFlowVersionAndAbsentOptions(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			p := person{"why": form("now"), "login": `{"action":"accept"}`}
			handler := func(ctx context.Context) (protocol.Result, error) {
				if err := roundtrip.FlowVersion(ctx, strings.Repeat("v", 64)); err != nil {
					return nil, err
				}
				why, err := roundtrip.Ask[Confirmation](ctx, "why", "Why?", nil)
				if err != nil {
					return nil, err
				}
				if err := roundtrip.AskURL(ctx, "login", "Sign in", "https://id.example/", nil); err != nil {
					return nil, err
				}
				done := func(context.Context) (bool, error) { return true, nil }
				if err := roundtrip.Await(ctx, "login", done, nil); err != nil {
					return nil, err
				}
				return say(why.Reason)
			}
			j := newJourney(t, m, roundtrip.Options{}, p, handler)
			if result, err := j.end(p); err != nil || show(result) != "now" {
				t.Errorf("got %q, %v", show(result), err)
			}
		})
	}
}
