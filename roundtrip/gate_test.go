package roundtrip_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// guard is a handler that only checks for consent.
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

// TestNoNagging has a handler that asks again what was refused: each person is
// asked once.
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

// TestNaggingWithUnsolicitedAnswers is the same where nothing proves what was
// asked: rounds are not counted there, so nothing else would end it.
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

// TestChangedQuestionIsAnother declines one form and is asked another, under
// the same key; and a question of another kind.
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

// TestAskingAfterNoAnswerIsNotNagging repeats questions that nobody refused.
func TestAskingAfterNoAnswerIsNotNagging(t *testing.T) {
	c := serve(t, guard(func() roundtrip.Question {
		return roundtrip.Elicit[Confirmation]("confirm", "Sure?")
	}))
	c.ask("confirm").answer().ask("confirm").answer("confirm", form("x")).ask("confirm")
	c.answer("confirm", accepted).says("deployed")
}
