package roundtrip_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestGuardStyleAllKinds asks all kinds of question at once and reads the answers.
func TestGuardStyleAllKinds(t *testing.T) {
	p := person{"Count?": `{"action":"accept","content":{"n":3.0}}`}
	inEveryMode(t, roundtrip.Options{}, p, func(ctx context.Context) (protocol.Result, error) {
		confirmation, ok := roundtrip.AcceptedContent[Confirmation](ctx, "form")
		visited := roundtrip.Visited(ctx, "url")
		message, sampled := roundtrip.Sampled(ctx, "sample")
		roots, listed := roundtrip.Roots(ctx, "roots")
		raw := roundtrip.RawAnswer(ctx, "raw")
		if !ok || visited != roundtrip.Accepted || !sampled || !listed ||
			raw.Outcome != roundtrip.Accepted {
			return ask(
				roundtrip.Elicit[Confirmation]("form", "Sure?"),
				roundtrip.ElicitURL("url", "Sign in", "https://id.example/login"),
				roundtrip.CreateMessage("sample", &protocol.CreateMessage{MaxTokens: 9}),
				roundtrip.ListRoots("roots"),
				roundtrip.ElicitSchema("raw", "Count?", json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)),
			)
		}
		return say(fmt.Sprint(confirmation.Reason, " ",
			message.Content[0].(*protocol.TextContent).Text, " ", roots[0].URI, " ",
			string(raw.Content)))
	}, func(t *testing.T, _ mode, j *journey, result protocol.Result, err error) {
		want := `now Paris file:///src {"n":3}`
		if show(result) != want || err != nil || j.traffic() != 5 || j.runs != 2 {
			t.Errorf("got %q, %v after %d questions, want %q", show(result), err, j.traffic(), want)
		}
	})
}

func TestOutcomes(t *testing.T) {
	for _, tc := range []struct {
		name, answer string
		want         roundtrip.Outcome
		err          string
	}{
		{"accept", accepted, roundtrip.Accepted, ""},
		{"decline", declined, roundtrip.Declined, ""},
		{"cancel", cancelled, roundtrip.Cancelled, ""},
		{"nothing", "", roundtrip.Missing, ""},
		{"breaks the schema", form("x"), roundtrip.Invalid, `"reason"`},
		{"wrong type", `{"action":"accept","content":{"reason":4711}}`, roundtrip.Invalid, `"reason"`},
		{"required is missing", `{"action":"accept","content":{}}`, roundtrip.Invalid, `"reason"`},
		{"accept without content", agreed, roundtrip.Invalid, `"reason"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got roundtrip.Reply[Confirmation]
			var content Confirmation
			var ok bool
			c := serve(t, rounds(asks(roundtrip.Elicit[Confirmation]("k", "Sure?")), func(ctx context.Context) (protocol.Result, error) {
				got = replyTo(ctx, "k")
				content, ok = roundtrip.AcceptedContent[Confirmation](ctx, "k")
				return say("")
			}))
			c.ask("k")
			if tc.answer != "" {
				c.answer("k", tc.answer)
			}
			c.done()
			if got.Outcome != tc.want {
				t.Errorf("outcome %v, want %v", got.Outcome, tc.want)
			}
			if ok != (tc.want == roundtrip.Accepted) || content != got.Content {
				t.Errorf("AcceptedContent = %+v, %v beside %+v", content, ok, got)
			}
			if got.Outcome == roundtrip.Accepted &&
				(got.Content.Reason != "now" || got.Round != 2) {
				t.Errorf("reply %+v, want the reason and round 2", got)
			}
			if (got.Err != nil) != (tc.want == roundtrip.Invalid) {
				t.Fatalf("err %v", got.Err)
			}
			if got.Err != nil {
				contains(t, got.Err.Error(), tc.err)
				if strings.Contains(got.Err.Error(), "4711") {
					t.Errorf("the error shows the value: %v", got.Err)
				}
				if got.Content != (Confirmation{}) {
					t.Errorf("an invalid answer has content: %+v", got.Content)
				}
			}
		})
	}
}

func TestOutcomeNames(t *testing.T) {
	names := fmt.Sprint(roundtrip.Missing, roundtrip.Accepted, roundtrip.Declined,
		roundtrip.Cancelled, roundtrip.Invalid, roundtrip.Outcome(9))
	if want := "missing accepted declined cancelled invalid outcome 9"; names != want {
		t.Errorf("got %q, want %q", names, want)
	}
}

// TestAnswersAccumulate reads the answer of round two in later rounds.
func TestAnswersAccumulate(t *testing.T) {
	var log []string
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		a, b := replyTo(ctx, "a"), replyTo(ctx, "b")
		n, _ := roundtrip.State[int](ctx)
		log = append(log, fmt.Sprintf("%d: a %v(%d) b %v(%d) state %d",
			roundtrip.RoundOf(ctx).Number, a.Outcome, a.Round, b.Outcome, b.Round, n))
		switch roundtrip.RoundOf(ctx).Number {
		case 1:
			return ask(roundtrip.WithState(6), roundtrip.Elicit[Confirmation]("a", "A?"),
				roundtrip.WithState(7))
		case 2:
			return ask(roundtrip.Elicit[Confirmation]("b", "B?"))
		case 3:
			return ask(roundtrip.Elicit[Confirmation]("c", "C?"), roundtrip.WithState(8))
		}
		return say("done")
	})
	c.ask("a").answer("a", declined).ask("b").answer("b", accepted).ask("c")
	c.answer("c", cancelled).done()
	want := []string{
		"1: a missing(0) b missing(0) state 0",
		"2: a declined(2) b missing(0) state 7",
		"3: a declined(2) b accepted(3) state 7",
		"4: a declined(2) b accepted(3) state 8",
	}
	if got := strings.Join(log, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestUnreadAnswersAreCarried(t *testing.T) {
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		switch roundtrip.RoundOf(ctx).Number {
		case 1:
			return ask(roundtrip.Elicit[Confirmation]("a", "A?"),
				elicit("bad"), roundtrip.CreateMessage("s", &protocol.CreateMessage{}))
		case 2:
			return ask(roundtrip.ListRoots("r"))
		}
		a := replyTo(ctx, "a")
		bad := replyTo(ctx, "bad")
		_, sampled := roundtrip.Sampled(ctx, "s")
		return say(fmt.Sprintf("%v %s %d, %v, %v", a.Outcome, a.Content.Reason, a.Round,
			bad.Outcome, sampled))
	})
	c.ask("a", "bad", "s")
	c.answer("a", accepted, "bad", `{"action":"accept","content":{"reason":1}}`, "s", sampled).ask("r")
	c.says("accepted now 2, invalid, true")
}

func TestAskingAgainDiscards(t *testing.T) {
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		if roundtrip.RoundOf(ctx).Number < 3 {
			return ask(roundtrip.Elicit[Confirmation]("a", "A?"))
		}
		return say(replyTo(ctx, "a").Outcome.String())
	})
	c.ask("a").answer("a", accepted).ask("a").answer().says("missing")
}

// TestChangedForm reads an answer with another type, as after a release in the middle of a flow.
func TestChangedForm(t *testing.T) {
	type old struct {
		Reason string `json:"reason"`
	}
	c := serve(t, rounds(asks(roundtrip.Elicit[old]("k", "?"), roundtrip.Elicit[old]("d", "?")), func(ctx context.Context) (protocol.Result, error) {
		reply := replyTo(ctx, "k")
		raw := roundtrip.RawAnswer(ctx, "k")
		d := replyTo(ctx, "d")
		return say(fmt.Sprint(reply.Outcome, ": ", reply.Err, "; ", raw.Outcome, "; ", d.Outcome))
	}))
	c.ask("k", "d")
	got := c.answer("k", accepted, "d", declined).done()
	if want := "invalid: the form has changed since the question was asked; invalid; declined"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestKindsDoNotMix reads answers as another kind than was asked.
func TestKindsDoNotMix(t *testing.T) {
	c := serve(t, rounds(asks(elicit("form"), roundtrip.ListRoots("roots")), func(ctx context.Context) (protocol.Result, error) {
		_, sampled := roundtrip.Sampled(ctx, "form")
		_, roots := roundtrip.Roots(ctx, "form")
		reply := replyTo(ctx, "roots")
		return say(fmt.Sprint(sampled, roots, roundtrip.Visited(ctx, "form"), " ", reply.Err))
	}))
	c.ask("form", "roots")
	got := c.answer("form", accepted, "roots", rooted).done()
	if want := "false false invalid the question was asked as roots, not elicitation.form"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTypesOfOneSchemaAndAnotherRange reads through a narrower type.
func TestTypesOfOneSchemaAndAnotherRange(t *testing.T) {
	type wide struct {
		N float64 `json:"n"`
	}
	type narrow struct {
		N float32 `json:"n"`
	}
	c := serve(t, rounds(asks(roundtrip.Elicit[wide]("n", "?")), func(ctx context.Context) (protocol.Result, error) {
		w, n := roundtrip.Answer[wide](ctx, "n"), roundtrip.Answer[narrow](ctx, "n")
		return say(fmt.Sprint(w.Outcome, " ", n.Outcome, " ", n.Err))
	}))
	c.ask("n")
	got := c.answer("n", `{"action":"accept","content":{"n":1.25e299}}`).done()
	contains(t, got, "accepted invalid")
	if strings.Contains(got, "1.25") {
		t.Errorf("the error shows the value: %s", got)
	}
}

func TestOutsideARound(t *testing.T) {
	ctx := t.Context()
	if reply := replyTo(ctx, "k"); reply.Outcome != roundtrip.Missing {
		t.Errorf("Answer = %+v", reply)
	}
	if reply := roundtrip.RawAnswer(ctx, "k"); reply.Outcome != roundtrip.Missing {
		t.Errorf("RawAnswer = %+v", reply)
	}
	if _, ok := roundtrip.State[int](ctx); ok || roundtrip.RoundOf(ctx).Number != 0 ||
		roundtrip.DroppedAnswers(ctx) != nil {
		t.Error("there is a round outside a round")
	}
	if reply := roundtrip.Answer[map[string]string](ctx, "k"); reply.Outcome != roundtrip.Invalid {
		t.Errorf("Answer of what is no form = %+v, want Invalid", reply)
	}
}

func TestStateDoesNotDecode(t *testing.T) {
	c := serve(t, rounds(asks(roundtrip.WithState(map[string]string{"a": "b"})), func(ctx context.Context) (protocol.Result, error) {
		n, isInt := roundtrip.State[int](ctx)
		m, isMap := roundtrip.State[map[string]string](ctx)
		return say(fmt.Sprint(n, isInt, m, isMap))
	}))
	c.ask()
	c.says("0 false map[a:b] true")
}
