package roundtrip_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

func guard(question func() roundtrip.Question) roundtrip.Handler {
	return func(ctx context.Context) (protocol.Result, error) {
		if consents(ctx, "confirm") {
			return say("deployed")
		}
		if roundtrip.Visited(ctx, "visit") == roundtrip.Accepted {
			return say("visited")
		}
		return ask(question())
	}
}

// TestNoNagging: a handler repeats a refused question; each user is asked once.
func TestNoNagging(t *testing.T) {
	form := func() roundtrip.Question { return roundtrip.Elicit[Confirmation]("confirm", "Sure?") }
	raw := func() roundtrip.Question {
		return roundtrip.ElicitSchema("confirm", "Sure?",
			json.RawMessage(`{"type":"object","properties":{}}`))
	}
	nonce := 0
	url := func() roundtrip.Question {
		nonce++
		return roundtrip.ElicitURL("visit", "Sign in", "https://id.example/?nonce="+
			string(rune('a'+nonce)))
	}
	for _, tc := range []struct {
		name     string
		question func() roundtrip.Question
		key      string
	}{{"form", form, "confirm"}, {"raw form", raw, "confirm"}, {"url", url, "visit"}} {
		for _, answer := range []string{declined, cancelled} {
			t.Run(tc.name+" "+answer, func(t *testing.T) {
				c := serve(t, guard(tc.question))
				c.ask(tc.key)
				want := "error: declined: " + tc.key
				if answer == cancelled {
					want = "error: cancelled: " + tc.key
				}
				c.answer(tc.key, answer).says(want)
				if len(c.shown) != 1 {
					t.Errorf("shown %v, want it once", c.shown)
				}
				c.ended(words.EndRefused, 2)
			})
		}
	}
	for _, method := range []string{protocol.MethodGetPrompt, protocol.MethodReadResource} {
		t.Run(method, func(t *testing.T) {
			c := serve(t, guard(form))
			c.call.Method = method
			c.ask("confirm")
			e := c.answer("confirm", declined).fails(protocol.CodeRefused)
			if withoutAdvice(e.Message) != "declined: confirm" {
				t.Errorf("message %q", e.Message)
			}
		})
	}
}

// TestNaggingWithUnsolicitedAnswers: rounds are not counted here, so nothing else ends the flow.
func TestNaggingWithUnsolicitedAnswers(t *testing.T) {
	form := func() roundtrip.Question { return roundtrip.Elicit[Confirmation]("confirm", "Sure?") }
	c := serve(t, guard(form))
	c.call.AcceptUnsolicited = true
	c.answer("confirm", declined).says("error: declined: confirm")
}

func TestRefusalIsRememberedForTheFlow(t *testing.T) {
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		if roundtrip.RoundOf(ctx).Number == 2 {
			return ask(roundtrip.ListRoots("other"))
		}
		return ask(elicit("a"), roundtrip.ListRoots("b"))
	})
	c.ask("a", "b").answer("a", declined).ask("other")
	c.answer("other", rooted).says("error: declined: a")
}

func TestAskAgain(t *testing.T) {
	c := serve(t, guard(func() roundtrip.Question {
		return roundtrip.Elicit[Confirmation]("confirm", "Really not?", roundtrip.AskAgain())
	}))
	c.ask("confirm").answer("confirm", declined).ask("confirm")
	c.answer("confirm", cancelled).ask("confirm").answer("confirm", accepted).says("deployed")
}

// TestChangedQuestionIsAnother declines one form and is asked another, or another kind of question,
// under its key.
func TestChangedQuestionIsAnother(t *testing.T) {
	type shorter struct{}
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		switch roundtrip.RoundOf(ctx).Number {
		case 1:
			return ask(roundtrip.Elicit[Confirmation]("confirm", "Sure?"))
		case 2:
			return ask(roundtrip.Elicit[shorter]("confirm", "Just a yes?"))
		}
		return ask(roundtrip.ElicitURL("confirm", "Or there?", "https://id.example"))
	})
	c.ask("confirm").answer("confirm", declined).ask("confirm")
	c.answer("confirm", declined).ask("confirm")
	c.answer("confirm", declined).says("error: declined: confirm")
}

func TestAskingAfterNoAnswerIsNotNagging(t *testing.T) {
	c := serve(t, guard(func() roundtrip.Question {
		return roundtrip.Elicit[Confirmation]("confirm", "Sure?")
	}))
	c.ask("confirm").answer().ask("confirm").answer("confirm", form("x")).ask("confirm")
	c.answer("confirm", accepted).says("deployed")
}

func insatiable(ctx context.Context) (protocol.Result, error) {
	key := fmt.Sprint("q", roundtrip.RoundOf(ctx).Number)
	return ask(roundtrip.Elicit[Confirmation](key, "And?"))
}

func TestRoundCap(t *testing.T) {
	for _, tc := range []struct {
		name      string
		max, want int
	}{
		{"default", 0, 8},
		{"fewer", 3, 3},
		{"more", 12, 12},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, roundtrip.Options{Limits: roundtrip.Limits{Rounds: tc.max}},
				insatiable)
			for n := 1; n <= tc.want; n++ {
				key := fmt.Sprint("q", n)
				c.ask(key).answer(key, accepted)
				asked := all[event.InputRequested](c.events)
				if got := asked[n-1].RoundsLeft; got != tc.want-n {
					t.Errorf("cap %d: RoundsLeft is %d in round %d", tc.want, got, n)
				}
				if asked[n-1].Round != n || asked[n-1].Flow == "" ||
					asked[n-1].Flow != asked[0].Flow {
					t.Errorf("event of round %d says %+v", n, asked[n-1].Where)
				}
			}
			contains(t, c.done(), "error: gave up after", fmt.Sprint(tc.want),
				fmt.Sprint("q", tc.want+1))
			c.ended(words.EndRounds, tc.want+1)
		})
	}
}

func TestStateOnlyRounds(t *testing.T) {
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		n, _ := roundtrip.State[int](ctx)
		return ask(roundtrip.WithState(n + 1))
	})
	for range 8 {
		if asked := c.ask().asked; asked.InputRequests != nil {
			t.Fatalf("questions %v", asked.InputRequests)
		}
	}
	contains(t, c.done(), "gave up after 8 rounds")
}

func TestMiddlewareLearnsTheRound(t *testing.T) {
	var rounds []string
	c := serve(t, flow(func(ctx context.Context) string {
		round := roundtrip.RoundOf(ctx)
		if round.Number == 0 {
			t.Error("the handler has no round")
		}
		rounds = append(rounds, fmt.Sprint(round.Flow(), " ", round.Number))
		must(roundtrip.Ask[Confirmation](ctx, "k", "?"))
		return "done"
	}))
	c.ask("k").answer("k", accepted).done()
	flow := one[event.FlowEnded](t, c.events).Flow
	want := []string{flow + " 1", flow + " 2"}
	if flow == "" || !slices.Equal(rounds, want) {
		t.Errorf("got %v, want %v", rounds, want)
	}
	if round := roundtrip.RoundOf(t.Context()); round.Number != 0 || round.Flow() != "" {
		t.Errorf("outside of a round: got %v", round)
	}
}
