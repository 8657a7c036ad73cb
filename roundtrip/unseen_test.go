package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// unseenAlways makes every refusal unseen, on any machine.
const unseenAlways = time.Hour

// A refusing test reads a refusal in one place: its handler asks "confirm"; did counts effects that
// need consent.
type refusing struct {
	name    string
	handler func(did *int) roundtrip.Handler
}

// refusings returns tests of every place of this package that handles refusals.
func refusings() []refusing {
	confirm := func() roundtrip.Question {
		return roundtrip.Elicit[Confirmation]("confirm", "confirm ?")
	}
	schema := json.RawMessage(`{"type":"object","properties":{}}`)
	visit := func() roundtrip.Question {
		return roundtrip.ElicitURL("confirm", "confirm ?", "https://id.example/")
	}
	acts := func(did *int) (protocol.Result, error) { *did++; return say("DONE") }
	inFlow := func(ask func(context.Context) error) func(*int) roundtrip.Handler {
		return func(did *int) roundtrip.Handler {
			return func(ctx context.Context) (protocol.Result, error) {
				if err := ask(ctx); err != nil {
					return nil, err
				}
				return acts(did)
			}
		}
	}
	guarded := func(q func() roundtrip.Question,
		yes func(context.Context) bool) func(*int) roundtrip.Handler {
		return func(did *int) roundtrip.Handler {
			return func(ctx context.Context) (protocol.Result, error) {
				if !yes(ctx) {
					return ask(q())
				}
				return acts(did)
			}
		}
	}
	return []refusing{
		{"a guard that nags", guarded(confirm, func(ctx context.Context) bool {
			return consents(ctx, "confirm")
		})},
		{"a guard that nags with a schema", guarded(func() roundtrip.Question {
			return roundtrip.ElicitSchema("confirm", "confirm ?", schema)
		}, func(ctx context.Context) bool {
			return roundtrip.RawAnswer(ctx, "confirm").Outcome == roundtrip.Accepted
		})},
		{"a guard that nags with a visit", guarded(visit, func(ctx context.Context) bool {
			return roundtrip.Visited(ctx, "confirm") == roundtrip.Accepted
		})},
		{"a guard that waits for a visit", func(did *int) roundtrip.Handler {
			return func(ctx context.Context) (protocol.Result, error) {
				err := roundtrip.Await(ctx, "confirm", func(context.Context) (bool, error) {
					return roundtrip.RoundOf(ctx).Number > 1, nil
				})
				if errors.Is(err, roundtrip.ErrNotFinished) {
					return ask(visit())
				}
				if err != nil {
					return nil, err
				}
				return acts(did)
			}
		}},
		{"a guard that does not look", func(did *int) roundtrip.Handler {
			return rounds(asks(confirm()), func(ctx context.Context) (protocol.Result, error) {
				return say("looked at nothing")
			})
		}},
		{"a guard that reads what is carried", func(did *int) roundtrip.Handler {
			return func(ctx context.Context) (protocol.Result, error) {
				switch roundtrip.RoundOf(ctx).Number {
				case 1:
					return ask(confirm())
				case 2:
					return ask(roundtrip.Elicit[Confirmation]("other", "other ?"))
				}
				reply := replyTo(ctx, "confirm")
				if reply.Outcome == roundtrip.Accepted {
					return acts(did)
				}
				return say(fmt.Sprintf("%v of round %d", reply.Outcome, reply.Round))
			}
		}},
		{"Ask", inFlow(func(ctx context.Context) error {
			_, err := reasonOf(ctx, "confirm")
			return err
		})},
		{"Ask whose error is dropped and that asks again", inFlow(func(ctx context.Context) error {
			_, _ = reasonOf(ctx, "other")
			_, err := reasonOf(ctx, "confirm")
			return err
		})},
		{"Ask in other words each time", inFlow(func(ctx context.Context) error {
			if _, err := reasonOf(ctx, "first"); err != nil {
				return err
			}
			_, err := roundtrip.Ask[Confirmation](ctx, "confirm",
				fmt.Sprintf("confirm %d ?", roundtrip.RoundOf(ctx).Number))
			if err != nil {
				_, _ = reasonOf(ctx, "later")
			}
			return err
		})},
		{"Ask that can do without an answer", inFlow(func(ctx context.Context) error {
			_, err := roundtrip.Ask[Confirmation](ctx, "confirm", "confirm ?",
				roundtrip.IfPossible())
			if _, cannot := errors.AsType[*roundtrip.PushError](err); cannot {
				return nil // tolerated: cannot be asked
			}
			return err
		})},
		{"Ask of a schema", inFlow(func(ctx context.Context) error {
			_, err := roundtrip.ElicitSchema("confirm", "confirm ?", schema).Ask(ctx)
			return err
		})},
		{"AskURL", inFlow(func(ctx context.Context) error {
			return roundtrip.AskURL(ctx, "confirm", "confirm ?", "https://id.example/")
		})},
		{"Await behind AskURL", inFlow(func(ctx context.Context) error {
			_ = roundtrip.AskURL(ctx, "confirm", "confirm ?", "https://id.example/")
			return roundtrip.Await(ctx, "confirm",
				func(context.Context) (bool, error) { return false, nil })
		})},
		{"AskAgain", inFlow(func(ctx context.Context) error {
			_, err := roundtrip.Ask[Confirmation](ctx, "confirm", "confirm ?", roundtrip.AskAgain())
			return err
		})},
		{"AskRequest", inFlow(func(ctx context.Context) error {
			return bareConsent(roundtrip.AskRequest(ctx, "confirm",
				&protocol.ElicitForm{Message: "confirm ?", Schema: schema}))
		})},
		{"AskUnkeyed", inFlow(func(ctx context.Context) error {
			return bareConsent(roundtrip.AskUnkeyed(ctx,
				&protocol.ElicitForm{Message: "confirm ?", Schema: schema}))
		})},
		{"AskUnkeyed that the run does not come to", func(did *int) roundtrip.Handler {
			return flow(func(ctx context.Context) string {
				if roundtrip.RoundOf(ctx).Number == 1 {
					check(bareConsent(roundtrip.AskUnkeyed(ctx,
						&protocol.ElicitForm{Message: "confirm ?", Schema: schema})))
				}
				check(roundtrip.OnCommit(ctx, func(context.Context) { *did++ }))
				return "withheld"
			})
		}},
		{"OnCommit", func(did *int) roundtrip.Handler {
			return func(ctx context.Context) (protocol.Result, error) {
				_, err := reasonOf(ctx, "confirm")
				if errors.Is(err, roundtrip.ErrPending) {
					return nil, err
				}
				if later := roundtrip.OnCommit(ctx,
					func(context.Context) { *did++ }); later != nil {
					return nil, later
				}
				if err != nil {
					return nil, err
				}
				return say("DONE")
			}
		}},
	}
}

func bareConsent(raw json.RawMessage, err error) error {
	if err != nil {
		return err
	}
	result, err := protocol.DecodeElicitResult(raw)
	if err == nil && result.Action != protocol.ActionAccept {
		err = fmt.Errorf("the client said %s", result.Action)
	}
	return err
}

// TestUnseenRefusesLikeADecline: in every place each refusal acts like a decline; only texts
// differ.
func TestUnseenRefusesLikeADecline(t *testing.T) {
	for _, place := range refusings() {
		for _, m := range modes {
			for word, answer := range map[string]string{"declined": declined,
				"cancelled": cancelled} {
				t.Run(place.name+"/"+m.name+"/"+word, func(t *testing.T) {
					play := func(min time.Duration, word string) string {
						did := 0
						p := person{"confirm": answer}
						j := newJourney(t, m, roundtrip.Options{MinHumanTime: min}, p,
							place.handler(&did))
						result, err := j.end(p)
						if did != 0 {
							t.Errorf("%s: what needs consent was done", word)
						}
						for _, a := range all[event.Answered](j.events) {
							if a.Decision != event.Accepted && string(a.Decision) != word {
								t.Errorf("%s: reported as %s", word, a.Decision)
							}
						}
						trace := fmt.Sprintf("%s, %v, %d questions, %d ignored", show(result), err,
							j.traffic(), len(all[event.DeclineIgnored](j.events)))
						for _, end := range all[event.FlowEnded](j.events) {
							trace += ", ended as " + strings.ReplaceAll(string(end.How),
								string(words.EndUnseen), string(words.EndRefused))
						}
						return strings.ReplaceAll(trace, word, "REFUSED")
					}
					person, client := play(-1, word), play(unseenAlways, "unseen")
					if person != client {
						t.Errorf("unseen: %s\n%s by a person: %s", client, word, person)
					}
				})
			}
		}
	}
}

// TestUnseenWords: the model's text for an unseen refusal, for each family, and with HideErrors.
func TestUnseenWords(t *testing.T) {
	const advice = "; the client answered without showing the question, so nobody was asked: " +
		"call again from a client that shows questions to a person, or use the link of the tool " +
		"if it has one"
	for _, method := range families {
		for _, hide := range []bool{false, true} {
			for _, m := range modes {
				p := person{"k": declined}
				j := newJourney(t, m, roundtrip.Options{MinHumanTime: unseenAlways,
					HideErrors: hide}, p, func(ctx context.Context) (protocol.Result, error) {
					if _, err := reasonOf(ctx, "k"); errors.Is(err, roundtrip.ErrPending) {
						return nil, err
					} else if err != nil {
						if errors.As(err, new(*roundtrip.DeclinedError)) ||
							errors.As(err, new(*roundtrip.CancelledError)) {
							return say("nothing was paid: the person declined")
						}
						if unseen, ok := errors.AsType[*roundtrip.UnseenError](err); !ok ||
							unseen.Key != "k" || unseen.Action != protocol.ActionDecline {
							t.Errorf("error %v", err)
						}
						return nil, fmt.Errorf("paying: %w", err)
					}
					return completes(method)
				})
				j.call.Method = method
				result, err := j.end(p)
				want := "paying: unseen: k" + advice
				if hide {
					want = "unseen: k" + advice
				}
				if method != protocol.MethodCallTool {
					if e, _ := protocol.AsError(err); e == nil || e.Message != want ||
						e.Code != protocol.CodeCannotAsk {
						t.Errorf("%s %s: %v, want %q", method, m.name, err, want)
					}
					continue
				}
				text := result.(*protocol.CallToolResult).Content[0].(*protocol.TextContent).Text
				if err != nil || text != want {
					t.Errorf("%s %s: %q, %v, want %q", method, m.name, text, err, want)
				}
			}
		}
	}
}

// TestUnseenIsDecidedByTime: 399 ms is unseen, 401 ms may be human, in each revision and both
// styles. An accept always counts; off means off.
func TestUnseenIsDecidedByTime(t *testing.T) {
	styles := map[string]roundtrip.Handler{
		"guard": func(ctx context.Context) (protocol.Result, error) {
			a := replyTo(ctx, "a")
			b := replyTo(ctx, "b")
			if a.Outcome == roundtrip.Missing {
				return ask(roundtrip.Elicit[Confirmation]("a", "a ?"),
					roundtrip.Elicit[Confirmation]("b", "b ?"))
			}
			return say(a.Outcome.String() + " " + b.Outcome.String())
		},
		"flow": func(ctx context.Context) (protocol.Result, error) {
			errs := make([]error, 2) // asked at once
			var asks sync.WaitGroup
			for i, key := range []string{"a", "b"} {
				asks.Go(func() { _, errs[i] = reasonOf(ctx, key) })
			}
			asks.Wait()
			if err := errors.Join(errs...); errors.Is(err, roundtrip.ErrPending) {
				return nil, err
			}
			return say(replyTo(ctx, "a").Outcome.String() + " " +
				replyTo(ctx, "b").Outcome.String())
		},
	}
	for _, tc := range []struct {
		min, after time.Duration
		a, b, want string
	}{
		{0, 0, declined, cancelled, "unseen unseen"},
		{0, 399 * time.Millisecond, declined, cancelled, "unseen unseen"},
		{0, 399 * time.Millisecond, declined, accepted, "unseen accepted"},
		{0, 399 * time.Millisecond, accepted, accepted, "accepted accepted"},
		{0, 400 * time.Millisecond, declined, cancelled, "declined cancelled"},
		{0, 401 * time.Millisecond, declined, cancelled, "declined cancelled"},
		{time.Second, 999 * time.Millisecond, declined, cancelled, "unseen unseen"},
		{time.Second, time.Second, declined, cancelled, "declined cancelled"},
		{-1, 0, declined, cancelled, "declined cancelled"},
	} {
		for style, handler := range styles {
			for _, m := range modes {
				bubble(t, fmt.Sprint(tc.min, tc.after, tc.want, style, m.name), func(t *testing.T) {
					p := person{"a": tc.a, "b": tc.b}
					j := &journey{client: &client{t: t, call: toolCall(), events: &events{},
						handler: handler}}
					funnel, err := roundtrip.NewFunnel(&roundtrip.Options{
						MinHumanTime: tc.min, Observer: j.events})
					noError(t, err)
					j.funnel, j.call.Version = funnel, m.version
					j.human = &human{t: t, version: m.version}
					if m.version.Era() == protocol.Legacy {
						j.call.Push = slowPusher{j.human, tc.after}
						j.human.answer = func(q *pushed) (string, error) {
							time.Sleep(tc.after)
							return p.answer(q.InputRequest), nil
						}
					}
					result, err := j.send()
					if m.version.Era() == protocol.Modern {
						time.Sleep(tc.after)
						j.call.Responses = answersTo(j.client.asked, p.answer)
						result, err = j.send()
					}
					if err != nil || show(result) != tc.want {
						t.Errorf("got %q, %v, want %q", show(result), err, tc.want)
					}
				})
			}
		}
	}
}

// TestUnseenByEachQuestion: in a session each question has its own time.
func TestUnseenByEachQuestion(t *testing.T) {
	handler := func(ctx context.Context) (protocol.Result, error) {
		a := replyTo(ctx, "a")
		if a.Outcome == roundtrip.Missing {
			return ask(roundtrip.Elicit[Confirmation]("a", "a ?"),
				roundtrip.Elicit[Confirmation]("b", "b ?"))
		}
		return say(a.Outcome.String() + " " + replyTo(ctx, "b").Outcome.String())
	}
	synctest.Test(t, func(t *testing.T) {
		c, h := newLegacy(t, protocol.V20251125,
			roundtrip.Options{MinHumanTime: time.Second}, handler)
		h.answer = func(q *pushed) (string, error) {
			if q.InputRequest.(*protocol.ElicitForm).Message == "b ?" {
				time.Sleep(time.Minute)
			}
			return declined, nil
		}
		c.says("unseen declined")
		for _, a := range all[event.Answered](c.events) {
			if want := map[string]time.Duration{"a": 0, "b": time.Minute}[a.Key]; a.Waited != want {
				t.Errorf("%s: waited %v, want %v", a.Key, a.Waited, want)
			}
		}
	})
}

type slowPusher struct {
	*human
	after time.Duration
}

func (p slowPusher) Push(ctx context.Context, q protocol.InputRequest,
	extend, written func()) (json.RawMessage, error) {
	time.Sleep(time.Minute)
	written()
	return p.human.Push(ctx, q, extend, func() {})
}

// TestUnseenWhereTheClockJumps: a refusal stays one, however long it took by the clock; an answer
// from before the question says nothing about the client.
func TestUnseenWhereTheClockJumps(t *testing.T) {
	for waited, want := range map[time.Duration]bool{
		-2 * time.Minute: false, -time.Millisecond: false, 0: true, time.Millisecond: true,
		waiting.DefaultMinHumanTime - 1: true, waiting.DefaultMinHumanTime: false, 24 * time.Hour: false,
	} {
		if got := waiting.IsTooSoon(t.Context(), 0, waited); got != want {
			t.Errorf("after %v: %v, want %v", waited, got, want)
		}
		if waiting.IsTooSoon(t.Context(), -1, waited) ||
			waiting.IsTooSoon(waiting.WithoutWire(t.Context()), 0, waited) {
			t.Errorf("after %v: too soon where it is off", waited)
		}
	}
	if !waiting.IsTooSoon(waiting.WithoutWire(t.Context()), time.Second, 0) {
		t.Error("off in process although it is set")
	}
}

func TestUnseenPush(t *testing.T) {
	question := &protocol.ElicitForm{Message: "Sure?",
		Schema: json.RawMessage(`{"type":"object","properties":{}}`)}
	for _, answer := range []string{declined, cancelled, `{"action":"accept","content":{}}`} {
		c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{MinHumanTime: unseenAlways}, nil)
		h.answer = says(answer)
		if raw, err := c.push(t.Context(), question); err != nil || string(raw) != answer {
			t.Errorf("got %s, %v, want %s", raw, err, answer)
		}
		want := event.Unseen
		if answer != declined && answer != cancelled {
			want = event.Accepted
		}
		for _, a := range all[event.Answered](c.events) {
			if a.Decision != want {
				t.Errorf("%s: reported as %s", answer, a.Decision)
			}
		}
		if len(all[event.PushFailed](c.events)) > 0 {
			t.Errorf("%s: reported as a failure to ask", answer)
		}
	}
}
