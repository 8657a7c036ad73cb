package roundtrip_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// TestChangedQuestion: a changed question is asked once more; the next change ends the flow.
func TestChangedQuestion(t *testing.T) {
	type Other struct {
		Reason string `json:"reason" minLength:"2" jsonschema:"another form"`
	}
	for _, tc := range []struct {
		name   string
		ask    func(ctx context.Context, n int) error
		answer string
	}{
		{"message", func(ctx context.Context, n int) error {
			_, err := roundtrip.Ask[Confirmation](ctx, "k", fmt.Sprintf("Transfer %d EUR?", n))
			return err
		}, accepted},
		{"form", func(ctx context.Context, n int) error {
			if n%2 == 0 {
				_, err := roundtrip.Ask[Other](ctx, "k", "?")
				return err
			}
			_, err := roundtrip.Ask[Confirmation](ctx, "k", "?")
			return err
		}, accepted},
		{"kind", func(ctx context.Context, n int) error {
			if n%2 == 0 {
				return roundtrip.AskURL(ctx, "k", "?", "https://x.example")
			}
			_, err := roundtrip.Ask[Confirmation](ctx, "k", "?")
			return err
		}, accepted},
		{"sampling", func(ctx context.Context, n int) error {
			_, err := roundtrip.AskMessage(ctx, "k", message(fmt.Sprint(n)))
			return err
		}, sampled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := 1
			c := serve(t, flow(func(ctx context.Context) string {
				check(tc.ask(ctx, n))
				return "done"
			}))
			c.ask("k").answer("k", tc.answer).says("done")
			c.call = toolCall()
			c.ask("k")
			n = 2
			c.answer("k", tc.answer).ask("k").answer("k", tc.answer).says("done")
			c.call, n = toolCall(), 1
			c.ask("k")
			n = 2
			c.answer("k", tc.answer).ask("k")
			n = 3
			contains(t, c.answer("k", tc.answer).bug(), `key "k"`, "another one in every round")
			journal := all[event.ServerBug](c.events)
			contains(t, journal[len(journal)-1].Err.Error(), `key "k"`)
		})
	}
}

// An adapter's changing question is noticed in the second round: it is not repeated, the answer is
// void, and client and log get the reason.
func TestAdaptersQuestionsThatChange(t *testing.T) {
	form := func(message string, least int) protocol.InputRequest {
		return &protocol.ElicitForm{Message: message, Schema: json.RawMessage(fmt.Sprintf(
			`{"type":"object","properties":{"reason":{"type":"string","minLength":%d}}}`, least))}
	}
	for _, tc := range []struct {
		name, answer string
		ask          func(n int) protocol.InputRequest
	}{
		{"words", accepted, func(n int) protocol.InputRequest {
			return form(fmt.Sprintf("At 12:0%d?", n), 1)
		}},
		{"form", accepted, func(n int) protocol.InputRequest { return form("Why?", n) }},
		{"sampling", sampled, func(n int) protocol.InputRequest { return message(fmt.Sprint(n)) }},
		{"kind", accepted, func(n int) protocol.InputRequest {
			if n == 1 {
				return form("Why?", 1)
			}
			return message("Why?")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := 1
			c := serve(t, func(ctx context.Context) (protocol.Result, error) {
				_, _ = roundtrip.AskRequest(ctx, "k", tc.ask(n))
				return say("done")
			})
			c.ask("k").answer("k", tc.answer).says("done")
			c.call = toolCall()
			c.ask("k")
			n = 2
			c.answer("k", tc.answer).refused(protocol.CodeFlowEnded, `"k"`, "asked something else")
			contains(t, one[event.ServerBug](t, c.events).Err.Error(), `"k"`, "Nonce")
		})
	}
}

// A changed URL of an accepted visit is noticed in the second round: it is not asked for again, and
// client and log get the reason, the log once per tool.
func TestVisitsThatChange(t *testing.T) {
	for _, tc := range []struct {
		name string
		ask  func(ctx context.Context, n int) error
	}{
		{"query", func(ctx context.Context, n int) error {
			return roundtrip.AskURL(ctx, "k", "?", fmt.Sprint("https://x.example/?state=", n))
		}},
		{"boundary of message and url", func(ctx context.Context, n int) error {
			text, at := "https://a.example/https://b.example/", (n-1)*len("https://a.example/")
			return roundtrip.AskURL(ctx, "k", "m"+text[:at], text[at:])
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serve(t, func(ctx context.Context) (protocol.Result, error) {
				err := tc.ask(ctx, roundtrip.RoundOf(ctx).Number)
				return say(fmt.Sprint("went on: ", err)) // which does not help
			})
			for range 2 {
				c.call = toolCall()
				c.ask("k").answer("k", agreed).refused(protocol.CodeFlowEnded, `"k"`,
					"asked something else", "roundtrip.Nonce")
			}
			contains(t, one[event.ServerBug](t, c.events).Err.Error(), `"k"`, "roundtrip.Nonce")
		})
	}
}

func TestReworded(t *testing.T) {
	n := 0
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		n++
		_, err := roundtrip.Ask[Confirmation](ctx, "k", fmt.Sprint("It is ", n, " o'clock"),
			roundtrip.Reworded())
		if err == nil {
			err = roundtrip.AskURL(ctx, "u", "visit", fmt.Sprint("https://x.example?nonce=", n),
				roundtrip.Reworded())
		}
		if err != nil {
			return nil, err
		}
		return say("done")
	})
	c.ask("k").answer("k", accepted).ask("u").answer("u", agreed).says("done")
}

func TestRewordedIsNoOtherKind(t *testing.T) {
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		if roundtrip.RoundOf(ctx).Number == 1 {
			_, err := roundtrip.AskRoots(ctx, "k", roundtrip.Reworded())
			return nil, err
		}
		err := roundtrip.AskURL(ctx, "k", "visit", "https://x.example", roundtrip.Reworded())
		return say(fmt.Sprint("visited: ", err))
	})
	c.ask("k").answer("k", rooted).ask("k") // a list of directories is no consent to a visit
	c.answer("k", agreed).says("visited: <nil>")
}

// TestFlowStateHoldsNoSchema: the handler supplies it.
func TestFlowStateHoldsNoSchema(t *testing.T) {
	keys := ring(t, "k1")
	for _, flowing := range []bool{true, false} {
		c := newClient(t, roundtrip.Options{Sealer: keys},
			func(ctx context.Context) (protocol.Result, error) {
				q := roundtrip.ElicitSchema("raw", "?", extraSchema)
				if flowing {
					_, err := q.Ask(ctx)
					return nil, err
				}
				return ask(q)
			})
		c.ask("raw")
		text, _ := c.call.State.Text()
		plaintext, err := keys.Open(t.Context(), text)
		noError(t, err)
		if strings.Contains(string(plaintext), `"properties"`) == flowing {
			t.Errorf("flow style %v: the state is %q", flowing, plaintext)
		}
	}
}

// TestRefusalStands: a refusal is not asked again in other words.
func TestRefusalStands(t *testing.T) {
	n := 0
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		n++
		_, err := roundtrip.Ask[Confirmation](ctx, "k", fmt.Sprint("The ", n, "th time"))
		return nil, err
	})
	c.ask("k").answer("k", declined).says("error: declined: k")
}

func TestNoConvergence(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			n := 0
			j := newJourney(t, m, roundtrip.Options{Limits: roundtrip.Limits{Rounds: 3}}, nil,
				func(ctx context.Context) (protocol.Result, error) {
					for {
						n++
						if _, err := reasonOf(ctx, fmt.Sprint("q", n)); err != nil {
							return nil, err
						}
					}
				})
			result, err := j.end(nil)
			want, questions := "error: gave up after 3 rounds of questions; the last asked for: "+
				"q4; answered before: q1, q2, q3", 3
			if !m.replays() { // without visible rounds
				want, questions = "error: gave up after 24 rounds of questions; the last asked "+
					"for: q25; answered before: q1, q2, ", 24
			}
			if err != nil || !strings.HasPrefix(show(result), want) || j.traffic() != questions {
				t.Errorf("got %q, %v after %d questions", show(result), err, j.traffic())
			}
			if m.replays() {
				if end := one[event.FlowEnded](t, j.events); end.How != words.EndRounds {
					t.Errorf("end %+v", end)
				}
			}
		})
	}
}

// TestMixedStyles asks in both styles in one handler, in both orders, in sequence and in one round.
func TestMixedStyles(t *testing.T) {
	guardFirst := func(ctx context.Context) (protocol.Result, error) {
		guard := whyNow.Answer(ctx)
		if guard.Outcome != roundtrip.Accepted {
			return ask(whyNow.Elicit("why ?"), roundtrip.WithState("kept"))
		}
		flow, err := reasonOf(ctx, "flow")
		if err != nil {
			return nil, err
		}
		kept, _ := roundtrip.State[string](ctx)
		return say(guard.Content.Reason + flow + kept)
	}
	flowFirst := func(ctx context.Context) (protocol.Result, error) {
		flow, err := reasonOf(ctx, "flow")
		if err != nil {
			return nil, err
		}
		guard := whyNow.Answer(ctx)
		if guard.Outcome != roundtrip.Accepted {
			return ask(whyNow.Elicit("why ?"), roundtrip.WithState("kept"))
		}
		kept, _ := roundtrip.State[string](ctx)
		return say(guard.Content.Reason + flow + kept)
	}
	together := func(ctx context.Context) (protocol.Result, error) {
		flow, err := reasonOf(ctx, "flow")
		guard := whyNow.Answer(ctx)
		if guard.Outcome != roundtrip.Accepted {
			return ask(whyNow.Elicit("why ?"), roundtrip.WithState("kept"))
		}
		kept, _ := roundtrip.State[string](ctx)
		return say(guard.Content.Reason + flow + kept + fmt.Sprint(err))
	}
	p := person{"why": form("guard"), "flow": form("flow")}
	for name, tc := range map[string]struct {
		handler      roundtrip.Handler
		want         string
		modern, live int // runs
	}{
		"guard first": {guardFirst, "guardflowkept", 3, 2},
		"flow first":  {flowFirst, "guardflowkept", 3, 2},
		"together":    {together, "guardflowkept<nil>", 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inEveryMode(t, roundtrip.Options{}, p, tc.handler,
				func(t *testing.T, m mode, j *journey, result protocol.Result, err error) {
					runs := tc.modern
					if !m.replays() {
						runs = tc.live
					}
					if show(result) != tc.want || err != nil || j.traffic() != 2 || j.runs != runs {
						t.Errorf("got %q, %v after %d questions in %d runs", show(result), err,
							j.traffic(), j.runs)
					}
				})
		})
	}
	t.Run("one key in both", func(t *testing.T) {
		c := serve(t, func(ctx context.Context) (protocol.Result, error) {
			_, _ = whyNow.Ask(ctx, "why ?")
			return ask(whyNow.Elicit("why ?"))
		})
		contains(t, c.bug(), "why", "twice")
	})
	t.Run("read in the other style", func(t *testing.T) {
		c := serve(t, rounds(asks(whyNow.Elicit("why ?")), func(ctx context.Context) (protocol.Result, error) {
			asked, err := whyNow.Ask(ctx, "in other words")
			return say(fmt.Sprint(asked.Reason, whyNow.Answer(ctx).Content.Reason, err))
		}))
		c.ask("why").answer("why", accepted).says("nownow<nil>")
	})
}

func TestFlowVersion(t *testing.T) {
	version := "1"
	memos := 0
	handler := flow(func(ctx context.Context) string {
		if version != "" {
			check(roundtrip.FlowVersion(ctx, version))
		}
		key := must(roundtrip.IdempotencyKey(ctx, "effect"))
		n := must(roundtrip.Memo(ctx, "m",
			func(context.Context) (int, error) { memos++; return memos, nil }))
		a := must(reasonOf(ctx, "a"))
		b := must(reasonOf(ctx, "b"))
		return fmt.Sprintf("%d %s %s %d %v", n, a, b, len(key), roundtrip.DroppedAnswers(ctx))
	})
	for _, tc := range []struct{ before, after string }{{"1", "1"}, {"1", "2"}, {"", "1"},
		{"1", ""}} {
		t.Run(tc.before+" to "+tc.after, func(t *testing.T) {
			memos, version = 0, tc.before
			c := serve(t, handler)
			c.ask("a").answer("a", form("old")).ask("b")
			version = tc.after
			if tc.before == tc.after {
				c.answer("b", form("new")).says("1 old new 43 []")
				return
			}
			c.answer("b", form("lost")).ask("a").answer("a", form("new")).ask("b")
			c.answer("b", form("newer")).says("2 new newer 43 []")
			if end := one[event.FlowEnded](t, c.events); end.Legs != 5 {
				t.Errorf("the flow took %d legs, want 5: rounds go on counting", end.Legs)
			}
		})
	}
}

// TestFlowVersionLists: dropped answers are listed, and idempotency keys stay the same.
func TestFlowVersionLists(t *testing.T) {
	version, names := "1", map[string]bool{}
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		if err := roundtrip.FlowVersion(ctx, version); err != nil {
			return nil, err
		}
		name, err := roundtrip.IdempotencyKey(ctx, "effect")
		if err != nil {
			return nil, err
		}
		names[name] = true
		if dropped := roundtrip.DroppedAnswers(ctx); version == "2" &&
			(len(dropped) != 1 || dropped[0] != event.Dropped{Key: "a",
				Reason: words.DropVersion}) {
			t.Errorf("dropped %v", dropped)
		}
		_, err = reasonOf(ctx, "a")
		return nil, err
	})
	c.ask("a")
	version = "2"
	c.answer("a", accepted).ask("a")
	if len(names) != 1 {
		t.Errorf("the effect has %d names", len(names))
	}
}

// TestFlowVersionAfterAnswers: answers read before FlowVersion have no known version.
func TestFlowVersionAfterAnswers(t *testing.T) {
	for name, look := range map[string]func(ctx context.Context) bool{
		"Answer": func(ctx context.Context) bool {
			return whyNow.Answer(ctx).Outcome == roundtrip.Accepted
		},
		"State": func(ctx context.Context) bool {
			_, ok := roundtrip.State[string](ctx)
			return ok
		},
		"RawAnswer": func(ctx context.Context) bool {
			return roundtrip.RawAnswer(ctx, "raw").Outcome == roundtrip.Accepted
		},
		"Visited": func(ctx context.Context) bool {
			return roundtrip.Visited(ctx, "url") == roundtrip.Accepted
		},
	} {
		t.Run(name, func(t *testing.T) {
			version, late := "1", false
			c := serve(t, func(ctx context.Context) (protocol.Result, error) {
				if !late {
					_ = roundtrip.FlowVersion(ctx, version)
				}
				done := look(ctx)
				if late && version != "" {
					_ = roundtrip.FlowVersion(ctx, version)
				}
				if !done {
					return ask(whyNow.Elicit("why ?"), roundtrip.WithState("kept"),
						roundtrip.ElicitURL("url", "go", "https://x.example"),
						roundtrip.ElicitSchema("raw", "r", json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string"}}}`)))
				}
				return say("deleted")
			})
			retry := func() *client {
				return c.answer("why", accepted, "raw", accepted, "url", accepted)
			}
			c.ask("why", "url", "raw")
			first := c.call.State
			retry().says("deleted")
			late, version = true, "2"
			c.call.State = first
			retry()
			c.bug()
			late, version = true, "" // guard style that has lost its version
			c.call.State = first
			retry().ask("why", "url", "raw")
		})
	}
}

// TestVersionsAreNotTheClientsFault: answers dropped for new code do not count as a lost state.
func TestVersionsAreNotTheClientsFault(t *testing.T) {
	version := 0
	c := serve(t, flow(func(ctx context.Context) string {
		check(roundtrip.FlowVersion(ctx, fmt.Sprint(version)))
		must(reasonOf(ctx, "a"))
		return "done"
	}))
	c.ask("a")
	for range 4 {
		version = 1 - version
		c.answer("a", accepted).ask("a")
	}
	c.answer("a", accepted).says("done")
}

// TestLongestFlowVersionAndAbsentOptions: a version of 64 bytes works, and nil options are ignored.
func TestLongestFlowVersionAndAbsentOptions(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			p := person{"why": form("now"), "login": agreed}
			handler := flow(func(ctx context.Context) string {
				check(roundtrip.FlowVersion(ctx, strings.Repeat("v", 64)))
				why := must(roundtrip.Ask[Confirmation](ctx, "why", "Why?", nil))
				check(roundtrip.AskURL(ctx, "login", "Sign in", "https://id.example/", nil))
				done := func(context.Context) (bool, error) { return true, nil }
				check(roundtrip.Await(ctx, "login", done))
				return why.Reason
			})
			j := newJourney(t, m, roundtrip.Options{}, p, handler)
			if result, err := j.end(p); err != nil || show(result) != "now" {
				t.Errorf("got %q, %v", show(result), err)
			}
		})
	}
}
