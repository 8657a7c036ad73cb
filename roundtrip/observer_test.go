package roundtrip_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// TestAnsweredOnceAPerson: every decision is reported once, however it came.
func TestAnsweredOnceAPerson(t *testing.T) {
	styles := map[string]roundtrip.Handler{
		"flow": flow(func(ctx context.Context) string {
			check(roundtrip.AskURL(ctx, "visit", "visit", "https://id.example/"))
			must(roundtrip.Ask[Confirmation](ctx, "confirm", "confirm ?"))
			return "done"
		}),
		"guard": func(ctx context.Context) (protocol.Result, error) {
			if roundtrip.Visited(ctx, "visit") == roundtrip.Missing {
				return ask(roundtrip.ElicitURL("visit", "visit", "https://id.example/"))
			}
			switch replyTo(ctx, "confirm").Outcome {
			case roundtrip.Missing:
				return ask(roundtrip.Elicit[Confirmation]("confirm", "confirm ?"))
			}
			return say("done")
		},
	}
	for style, handler := range styles {
		for _, answer := range []string{accepted, declined, cancelled} {
			inEveryMode(t, roundtrip.Options{}, person{"confirm": answer, "visit": agreed}, handler,
				func(t *testing.T, m mode, j *journey, _ protocol.Result, _ error) {
					list := all[event.Answered](j.events)
					if len(list) != 2 {
						t.Fatalf("%s %s: %d events, want 2: %+v", style, answer, len(list), list)
					}
					visit, confirm := list[0], list[1]
					if visit.Key != "visit" || visit.Kind != protocol.KindElicitURL ||
						visit.Decision != event.Accepted {
						t.Errorf("visit: %+v", visit)
					}
					want := map[string]event.Decision{accepted: event.Accepted,
						declined: event.Declined, cancelled: event.Cancelled}[answer]
					if confirm.Key != "confirm" || confirm.Decision != want ||
						confirm.Principal.Subject != "ada" || confirm.Unsolicited ||
						confirm.Request == "" {
						t.Errorf("confirm: %+v, want %v", confirm, want)
					}
					asked := all[event.InputRequested](j.events)
					if asked[1].Questions[0].Digest != confirm.QuestionDigest ||
						confirm.QuestionDigest == visit.QuestionDigest {
						t.Errorf("digests %s, %s, asked %s", visit.QuestionDigest,
							confirm.QuestionDigest, asked[1].Questions[0].Digest)
					}
				})
		}
	}
}

// TestAnsweredOfPush: pushed questions have numbered keys.
func TestAnsweredOfPush(t *testing.T) {
	c, h := serveLive(t, nil)
	question := &protocol.ElicitForm{Message: "Sure?", Schema: []byte(`{"type":"object","properties":{"n":{"type":"integer","minimum":3}},"required":["n"]}`)}
	h.answer = func(*pushed) (string, error) {
		if h.traffic() == 1 {
			return `{"action":"accept","content":{"n":1}}`, nil
		}
		return declined, nil
	}
	if raw, err := c.push(t.Context(), question); err != nil || string(raw) != declined {
		t.Errorf("got %s, %v", raw, err)
	}
	list := all[event.Answered](c.events)
	if len(list) != 2 || list[0].Key != "push-1" || list[0].Decision != event.Accepted ||
		list[0].QuestionDigest == (event.QuestionDigest{}) || list[1].Decision != event.Declined {
		t.Fatalf("%+v", list)
	}
	invalid := one[event.AnswerInvalid](t, c.events)
	if invalid.Field != "n" || invalid.Rule != "minimum" {
		t.Errorf("%+v", invalid)
	}
}

func TestAnsweredUnsolicited(t *testing.T) {
	c := serve(t, consent)
	c.call.AcceptUnsolicited = true
	c.answer("k", accepted, "nobody reads this", accepted).done()
	if a := one[event.Answered](t, c.events); !a.Unsolicited || a.Key != "k" ||
		a.Decision != event.Accepted {
		t.Errorf("%+v", a)
	}
}

func TestAnsweredTellsTheWait(t *testing.T) {
	for _, m := range modes {
		synctest.Test(t, func(t *testing.T) {
			p := person{"confirm": declined}
			j := newJourney(t, m, roundtrip.Options{}, p, asksOnce)
			j.human.answer = func(q *pushed) (string, error) {
				time.Sleep(time.Minute)
				return p.answer(q.InputRequest), nil
			}
			result, err := j.send()
			if asked, ok := result.(*protocol.InputRequiredResult); ok && err == nil {
				time.Sleep(time.Minute)
				j.call.Responses = answers(asked.InputRequests[0].Key, declined)
				j.send()
			}
			if a := one[event.Answered](t, j.events); a.Waited != time.Minute {
				t.Errorf("%s: waited %v", m.name, a.Waited)
			}
		})
	}
}

func TestIgnoredDecline(t *testing.T) {
	deletes := func(look func(context.Context)) roundtrip.Handler {
		return rounds(asks(roundtrip.Elicit[Confirmation]("confirm", "confirm ?")), func(ctx context.Context) (protocol.Result, error) {
			look(ctx)
			return say("DELETED")
		})
	}
	for _, tc := range []struct {
		name    string
		answer  string
		handler roundtrip.Handler
		ignored bool
	}{
		{"declined and ignored", declined, deletes(func(context.Context) {}), true},
		{"cancelled and ignored", cancelled, deletes(func(context.Context) {}), true},
		{"accepted and not read", accepted, deletes(func(context.Context) {}), false},
		{"looked at", declined, deletes(func(ctx context.Context) {
			replyTo(ctx, "confirm")
		}), false},
		{"looked at as another kind", declined,
			deletes(func(ctx context.Context) { roundtrip.Visited(ctx, "confirm") }), false},
		{"another is looked at", declined,
			deletes(func(ctx context.Context) { replyTo(ctx, "other") }), true},
		{"a failure", declined, rounds(asks(roundtrip.Elicit[Confirmation]("confirm", "confirm ?")), func(ctx context.Context) (protocol.Result, error) {
			return nil, errors.New("stopped")
		}), false},
		{"looked at a leg before", declined, func(ctx context.Context) (protocol.Result, error) {
			switch roundtrip.RoundOf(ctx).Number {
			case 1:
				return ask(roundtrip.Elicit[Confirmation]("confirm", "confirm ?"))
			case 2:
				replyTo(ctx, "confirm")
				return ask(roundtrip.Elicit[Confirmation]("other", "other ?"))
			}
			replyTo(ctx, "other")
			return say("left alone")
		}, false},
		{"ignored a leg before", declined, func(ctx context.Context) (protocol.Result, error) {
			switch roundtrip.RoundOf(ctx).Number {
			case 1:
				return ask(roundtrip.Elicit[Confirmation]("confirm", "confirm ?"))
			case 2:
				return ask(roundtrip.Elicit[Confirmation]("other", "other ?"))
			}
			replyTo(ctx, "other")
			return say("DELETED")
		}, true},
		{"flow style", declined, func(ctx context.Context) (protocol.Result, error) {
			_, _ = roundtrip.Ask[Confirmation](ctx, "confirm", "confirm ?")
			return say("handled")
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inEveryMode(t, roundtrip.Options{}, person{"confirm": tc.answer}, tc.handler,
				func(t *testing.T, _ mode, j *journey, _ protocol.Result, err error) {
					list := all[event.DeclineIgnored](j.events)
					if err != nil || (len(list) == 1) != tc.ignored || len(list) > 1 {
						t.Fatalf("%v, events %+v", err, list)
					}
					if tc.ignored && (list[0].Key != "confirm" ||
						list[0].Decision != event.Declined && list[0].Decision != event.Cancelled) {
						t.Errorf("%+v", list[0])
					}
				})
		})
	}
}

func failureText(t *testing.T, result protocol.Result, err error) string {
	t.Helper()
	var e *protocol.Error
	if errors.As(err, &e) {
		if e.Code != protocol.CodeHandlerError {
			t.Errorf("code %d", e.Code)
		}
		return e.Message
	}
	return strings.TrimPrefix(show(result), "error: ")
}

// TestHandlerFailedIsReported: the client gets the text, the observer the error and a masked text.
func TestHandlerFailedIsReported(t *testing.T) {
	cause := errors.New("cause")
	for _, m := range modes {
		for _, method := range families {
			for _, hide := range []bool{false, true} {
				t.Run(fmt.Sprint(m.name, " ", method, " ", hide), func(t *testing.T) {
					p := person{"confirm": `{"action":"accept","content":{"reason":"my cat Felix"}}`}
					j := newJourney(t, m, roundtrip.Options{HideErrors: hide}, p,
						func(ctx context.Context) (protocol.Result, error) {
							c, err := roundtrip.Ask[Confirmation](ctx, "confirm", "confirm ?")
							if err != nil {
								return nil, err
							}
							return nil, fmt.Errorf("%w: no %s in %s for Bearer s3cr3t-t0ken of %q",
								cause, c.Reason, "prod", "header-credential")
						})
					j.call.Method = method
					j.call.Credential = "Bearer header-credential"
					result, err := j.end(p)
					text, e := failureText(t, result, err), one[event.HandlerFailed](t, j.events)
					if e.Text != `cause: no [redacted] in [redacted] for Bearer [redacted] of "[redacted]"` || !errors.Is(e.Err, cause) || e.Request == "" {
						t.Errorf("event %+v", e)
					}
					switch {
					case hide && (e.Reference == "" ||
						!strings.HasPrefix(text, "internal failure; reference "+e.Reference) ||
						strings.Contains(text, "Felix")):
						t.Errorf("the client sees %q, reference %q", text, e.Reference)
					case !hide && (e.Reference != "" || text != `cause: no my cat Felix in prod for Bearer s3cr3t-t0ken of "header-credential"`):
						t.Errorf("the client sees %q, reference %q", text, e.Reference)
					}
				})
			}
		}
	}
}

// TestErrorsThatAreNoFailures: errors chosen for the client are not hidden, and refusals are no
// failures.
func TestErrorsThatAreNoFailures(t *testing.T) {
	for name, fail := range map[string]error{
		"protocol error": protocol.Errorf(4711, "chosen words"),
		"refusal":        fmt.Errorf("not deleted: %w", &roundtrip.DeclinedError{Key: "k"}),
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, roundtrip.Options{HideErrors: true},
				func(context.Context) (protocol.Result, error) { return nil, fail })
			result, err := c.send()
			if n := len(all[event.HandlerFailed](c.events)); n != 0 {
				t.Errorf("%s: %d events", name, n)
			}
			if text := fmt.Sprint(show(result), err); strings.Contains(text, "internal failure") {
				t.Errorf("%s: %q", name, text)
			}
		})
	}
}

func TestPanicsAreMasked(t *testing.T) {
	c := serve(t, func(context.Context) (protocol.Result, error) { panic("no idea of prod") })
	c.fails(protocol.CodeInternalError)
	if e := one[event.HandlerPanicked](t, c.events); e.Text != "no idea of [redacted]" ||
		e.Value != "no idea of prod" || !strings.Contains(string(e.Stack), "observer_test.go") {
		t.Errorf("%q %v %s", e.Text, e.Value, e.Stack)
	}
}

// TestKeysAreNamed: keys are reported at the start, and unknown ones with the state.
func TestKeysAreNamed(t *testing.T) {
	older, newer := ring(t, "k1"), ring(t, "k2")
	c := newClient(t, roundtrip.Options{Sealer: older}, consent)
	c.ask("k")
	if e := one[event.KeysEnabled](t, c.events); e.Primary != "k1" ||
		fmt.Sprint(e.Enabled) != "[k1]" {
		t.Errorf("%+v", e)
	}
	later := newClient(t, roundtrip.Options{Sealer: newer}, consent)
	later.call.State = c.call.State
	later.answer("k", accepted).fails(protocol.CodeInvalidParams)
	if e := one[event.StateRejected](t, later.events); e.Reason != words.ReasonUnknownKey ||
		e.KeyID != "k1" {
		t.Errorf("%+v", e)
	}
}

func TestRequestID(t *testing.T) {
	var seen []string
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		seen = append(seen, roundtrip.RequestID(ctx))
		return consent(ctx)
	})
	c.ask("k").answer("k", accepted).done()
	asked, resumed := one[event.InputRequested](t, c.events), one[event.Resumed](t, c.events)
	if len(seen) != 2 || seen[0] == "" || seen[0] == seen[1] || asked.Request != seen[0] ||
		resumed.Request != seen[1] {
		t.Errorf("handlers saw %v, events %q and %q", seen, asked.Request, resumed.Request)
	}
	if id := roundtrip.RequestID(t.Context()); id != "" {
		t.Errorf("outside: %q", id)
	}
}

// TestEventsOfPlainCalls: a call of one leg ends no flow, and reports no dropped answers if there
// are none.
func TestEventsOfPlainCalls(t *testing.T) {
	c := serve(t, func(context.Context) (protocol.Result, error) { return say("done") })
	c.done()
	handler := flow(func(ctx context.Context) string {
		must(roundtrip.Ask[Confirmation](ctx, "k", "?"))
		return "done"
	})
	asking := serve(t, handler)
	asking.ask("k").answer("k", accepted).done()
	live, h := serveLive(t, handler)
	h.answer = says(accepted)
	live.done()
	for name, tc := range map[string]struct {
		events *events
		ends   int
	}{"plain": {c.events, 0}, "modern": {asking.events, 1}, "in place": {live.events, 0}} {
		t.Run(name, func(t *testing.T) {
			if n := len(all[event.FlowEnded](tc.events)); n != tc.ends {
				t.Errorf("%s: %d flows ended, want %d", name, n, tc.ends)
			}
			if list := all[event.AnswersDropped](tc.events); len(list) != 0 {
				t.Errorf("%s: %+v", name, list)
			}
		})
	}
}
