package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// TestAskDependentQuestions asks three questions, each of which depends on the previous answer.
func TestAskDependentQuestions(t *testing.T) {
	p := person{"a": form("one"), "b": form("two"), "c": form("three")}
	inEveryMode(t, roundtrip.Options{}, p, flow(func(ctx context.Context) string {
		seen := ""
		for _, key := range []string{"a", "b", "c"} {
			c := must(roundtrip.Ask[Confirmation](ctx, key, key+" after "+seen))
			seen += c.Reason + " "
		}
		return seen
	}), wants("one two three ", 3, 4))
}

// TestAskForWhatIsMissing asks for one field of two, in both styles. The other is ignored if sent.
func TestAskForWhatIsMissing(t *testing.T) {
	type order struct {
		Size  string `json:"size" enum:"s,m"`
		Cents int    `json:"cents" minimum:"1"`
	}
	missing := func() *roundtrip.FormQuestion[order] {
		q, err := roundtrip.NewQuestion[order]("order", roundtrip.OmitFields("cents"))
		if err != nil {
			t.Error(err)
		}
		return q
	}
	for style, handler := range map[string]roundtrip.Handler{
		"flow": flow(func(ctx context.Context) string {
			o := must(missing().Ask(ctx, "order which size?"))
			return fmt.Sprint(o)
		}),
		"guard": func(ctx context.Context) (protocol.Result, error) {
			q := missing()
			o, ok := q.AcceptedContent(ctx)
			if !ok {
				return roundtrip.InputRequired(q.Elicit("order which size?")), nil
			}
			return say(fmt.Sprint(o))
		},
	} {
		t.Run(style, func(t *testing.T) {
			p := person{"order": `{"action":"accept","content":{"size":"m"}}`}
			inEveryMode(t, roundtrip.Options{}, p, handler, func(t *testing.T, _ mode, j *journey,
				result protocol.Result, err error) {
				if err != nil || show(result) != "{m 0}" || j.traffic() != 1 {
					t.Errorf("got %q, %v after %d questions, want {m 0} after one", show(result), err,
						j.traffic())
				}
			})
		})
	}
	for name, omitted := range map[string][]string{
		"unknown": {"price"}, "twice": {"cents", "cents"}} {
		_, err := roundtrip.NewQuestion[order]("order", roundtrip.OmitFields(omitted...))
		if err == nil || !strings.Contains(err.Error(), omitted[0]) {
			t.Errorf("%s: got %v, want an error that names the field", name, err)
		}
	}
	if form, err := roundtrip.Form[order](roundtrip.OmitFields("cents", "size")); err != nil ||
		string(form) != `{"type":"object","properties":{}}` {
		t.Errorf("without all fields: got %s, %v", form, err)
	}
}

var whyNow = roundtrip.MustQuestion[Confirmation]("why")

// TestAskEveryKind asks every kind, typed and raw.
func TestAskEveryKind(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","default":7}}}`)
	p := person{"raw": `{"action":"accept","content":{}}`,
		"again": `{"action":"accept","content":{}}`, "no": declined, "gone": cancelled}
	inEveryMode(t, roundtrip.Options{}, p, flow(func(ctx context.Context) string {
		why := must(whyNow.Ask(ctx, "why now?"))
		check(roundtrip.AskURL(ctx, "url", "sign in", "https://id.example"))
		said := must(roundtrip.AskMessage(ctx, "model", message("Capital?")))
		roots := must(roundtrip.AskRoots(ctx, "roots"))
		raw := must(roundtrip.ElicitSchema("raw", "raw one", schema).Ask(ctx))
		var bare []string
		for key, q := range map[string]protocol.InputRequest{
			"bare form": &protocol.ElicitForm{Message: "again raw", Schema: schema}} {
			result := must(roundtrip.AskRequest(ctx, key, q))
			bare = append(bare, string(result))
		}
		for _, q := range []protocol.InputRequest{
			&protocol.ElicitForm{Message: "no raw", Schema: schema},
			&protocol.ElicitURL{Message: "gone raw", URL: "https://x.example"},
		} {
			result := must(roundtrip.AskRequest(ctx, string(q.Kind()), q))
			bare = append(bare, string(result))
		}
		return fmt.Sprint(why.Reason, said.Model, len(roots), string(raw), bare)
	}), wants(`nowm1{"n":7}[{"action":"accept","content":{"n":7}} {"action":"decline"} {"action":"cancel"}]`, 8, 9))
}

func TestAskRequestResults(t *testing.T) {
	inEveryMode(t, roundtrip.Options{}, nil, flow(func(ctx context.Context) string {
		text := ""
		for _, q := range []protocol.InputRequest{
			&protocol.ElicitURL{Message: "u", URL: "https://x.example",
				ElicitationID: fmt.Sprint(roundtrip.RoundOf(ctx).Number)},
			&protocol.CreateMessage{MaxTokens: 5, Messages: []protocol.SamplingMessage{}},
			&protocol.ListRoots{},
		} {
			raw := must(roundtrip.AskRequest(ctx, string(q.Kind()), q))
			text += string(raw)
		}
		return text
	}), wants(agreed+sampled+rooted, 3, 4))
}

// TestRefusals leaves a refusal to the funnel, for each family, and handles one.
func TestRefusals(t *testing.T) {
	for answer, word := range map[string]string{declined: "declined", cancelled: "cancelled"} {
		for _, method := range families {
			for _, m := range modes {
				t.Run(word+" "+method+" "+m.name, func(t *testing.T) {
					p := person{"k": answer}
					j := newJourney(t, m, roundtrip.Options{}, p,
						func(ctx context.Context) (protocol.Result, error) {
							if _, err := reasonOf(ctx, "k"); err != nil {
								return nil, fmt.Errorf("deploying: %w", err)
							}
							return completes(method)
						})
					j.call.Method = method
					result, err := j.end(p)
					want := "deploying: " + word + ": k"
					if method == protocol.MethodCallTool {
						if err != nil || show(result) != "error: "+want {
							t.Errorf("got %q, %v", show(result), err)
						}
					} else if e, _ := protocol.AsError(err); e == nil ||
						e.Code != protocol.CodeRefused || withoutAdvice(e.Message) != want {
						t.Errorf("got %v, want code %d: %s", err, protocol.CodeRefused, want)
					}
					if j.traffic() != 1 {
						t.Errorf("asked %d times", j.traffic())
					}
					for _, end := range all[event.FlowEnded](j.events) {
						if end.How != words.EndRefused {
							t.Errorf("end %+v", end)
						}
					}
				})
			}
		}
	}
	inEveryMode(t, roundtrip.Options{}, person{"k": declined, "l": cancelled},
		func(ctx context.Context) (protocol.Result, error) {
			_, err := reasonOf(ctx, "k")
			if no, ok := errors.AsType[*roundtrip.DeclinedError](err); ok {
				_, err := reasonOf(ctx, "l")
				if gone, ok := errors.AsType[*roundtrip.CancelledError](err); ok {
					return say("neither " + no.Key + " nor " + gone.Key)
				}
				return nil, err
			}
			return nil, err
		}, wants("neither k nor l", 2, 3))
	inEveryMode(t, roundtrip.Options{}, person{"k": declined},
		func(ctx context.Context) (protocol.Result, error) {
			_, err := reasonOf(ctx, "k")
			return nil, errors.Join(err, protocol.Errorf(4711, "words of the author's"))
		}, func(t *testing.T, _ mode, _ *journey, _ protocol.Result, err error) {
			if e, _ := protocol.AsError(err); e == nil || e.Code != 4711 {
				t.Errorf("got %v, want the author's own error", err)
			}
		})
}

func TestAskAgainInFlow(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			n := 0
			p := person{}
			handler := flow(func(ctx context.Context) string {
				c := must(roundtrip.Ask[Confirmation](ctx, "k", "k ?", roundtrip.AskAgain()))
				return c.Reason
			})
			j := newJourney(t, m, roundtrip.Options{}, p, handler)
			j.human.answer = func(*pushed) (string, error) {
				n++
				if n < 3 {
					return declined, nil
				}
				return accepted, nil
			}
			if m.version.Era() == protocol.Modern {
				for range 3 {
					j.ask("k")
					answer, _ := j.human.answer(nil)
					j.client.answer("k", answer)
				}
			}
			if got := j.done(); got != "now" || n != 3 {
				t.Errorf("got %q after %d questions", got, n)
			}

			p = person{"k": declined}
			j = newJourney(t, m, roundtrip.Options{}, p, handler)
			result, err := j.end(p)
			if err != nil || !strings.HasPrefix(show(result),
				"error: gave up after 8 rounds of questions; the last asked for: k") ||
				j.traffic() != 8 {
				t.Errorf("got %q, %v after %d questions", show(result), err, j.traffic())
			}
		})
	}
}

// TestMalformedAnswersAreAskedAgain has a client that does not even send a result.
func TestMalformedAnswersAreAskedAgain(t *testing.T) {
	inEveryMode(t, roundtrip.Options{}, person{"k": `{"action":"maybe"}`},
		flow(func(ctx context.Context) string {
			must(reasonOf(ctx, "k"))
			return "done"
		}), func(t *testing.T, _ mode, j *journey, result protocol.Result, err error) {
			const want = "error: the client keeps sending answers that cannot be used"
			if err != nil || !strings.HasPrefix(show(result), want) || j.traffic() != 2 {
				t.Errorf("got %q, %v after %d questions, want %q after 2", show(result), err,
					j.traffic(), want)
			}
		})
}

func TestAskOutsideOfARound(t *testing.T) {
	all := func(ctx context.Context) []error {
		_, ask := reasonOf(ctx, "k")
		url := roundtrip.AskURL(ctx, "u", "m", "https://x.example")
		_, memo := roundtrip.Memo(ctx, "m",
			func(context.Context) (int, error) { t.Error("fn runs"); return 0, nil })
		_, key := roundtrip.IdempotencyKey(ctx, "i")
		return []error{ask, url, memo, key,
			roundtrip.OnCommit(ctx, func(context.Context) { t.Error("committed") }),
			roundtrip.FlowVersion(ctx, "1")}
	}
	check := func(errs []error, why string) {
		t.Helper()
		for i, err := range errs {
			if !errors.Is(err, roundtrip.ErrNoRound) || !strings.Contains(err.Error(), why) {
				t.Errorf("%d: got %v, want ErrNoRound because %s", i, err, why)
			}
		}
	}
	check(all(t.Context()), "the context is not that of a handler")
	var left context.Context
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		left = ctx
		check(all(context.Background()), "not context.Background()")
		return say("done")
	})
	c.done()
	check(all(left), "the handler has returned")
	c = serve(t, func(ctx context.Context) (protocol.Result, error) {
		check(all(ctx), "requests of this method cannot ask")
		return &protocol.ListToolsResult{}, nil
	})
	c.call.Method = protocol.MethodListTools
	if _, err := c.send(); err != nil {
		t.Error(err)
	}
}

// TestAskMistakes: authors' mistakes are hidden from the client, whatever the handler returns.
func TestAskMistakes(t *testing.T) {
	type nested struct {
		Inner struct{ A int } `json:"inner"`
	}
	for _, tc := range []struct {
		name string
		ask  func(ctx context.Context) error
		want []string
	}{
		{"form", func(ctx context.Context) error {
			_, err := roundtrip.Ask[nested](ctx, "k", "?")
			return err
		}, []string{`question "k"`, "inner"}},
		{"field left out of a schema", func(ctx context.Context) error {
			_, err := roundtrip.ElicitSchema("k", "?", json.RawMessage(
				`{"type":"object","properties":{"a":{"type":"string"}}}`),
				roundtrip.OmitFields("a")).Ask(ctx)
			return err
		}, []string{`question "k"`, `"a"`, "schema"}},
		{"no key", func(ctx context.Context) error { _, err := reasonOf(ctx, ""); return err },
			[]string{"empty key"}},
		{"twice", func(ctx context.Context) error {
			_, err := reasonOf(ctx, "k")
			_, again := reasonOf(ctx, "k")
			return errors.Join(err, again)
		}, []string{`key "k"`, "two questions"}},
		{"nil request", func(ctx context.Context) error {
			_, err := roundtrip.AskRequest(ctx, "k", nil)
			return err
		}, []string{`"k"`}},
		{"bad request", func(ctx context.Context) error {
			_, err := roundtrip.AskRequest(ctx, "k",
				&protocol.ElicitForm{Message: "m", Schema: json.RawMessage(`[]`)})
			return err
		}, []string{`question "k"`}},
		{"memo twice", func(ctx context.Context) error {
			one := func(context.Context) (int, error) { return 1, nil }
			_, err := roundtrip.Memo(ctx, "m", one)
			_, again := roundtrip.Memo(ctx, "m", one)
			return errors.Join(err, again)
		}, []string{`key "m"`, "two memos"}},
		{"memo without JSON", func(ctx context.Context) error {
			_, err := roundtrip.Memo(ctx, "m",
				func(context.Context) (func(), error) { return nil, nil })
			return err
		}, []string{`key "m"`}},
		{"nil commit", func(ctx context.Context) error { return roundtrip.OnCommit(ctx, nil) },
			[]string{"OnCommit"}},
		{"version late", func(ctx context.Context) error {
			_, err := reasonOf(ctx, "k")
			return errors.Join(err, roundtrip.FlowVersion(ctx, "1"))
		}, []string{"FlowVersion"}},
		{"version long", func(ctx context.Context) error {
			return roundtrip.FlowVersion(ctx, strings.Repeat("v", 65))
		}, []string{"65 bytes"}},
	} {
		for _, m := range modes {
			t.Run(tc.name+" "+m.name, func(t *testing.T) {
				j := newJourney(t, m, roundtrip.Options{}, nil,
					func(ctx context.Context) (protocol.Result, error) {
						if err := tc.ask(ctx); err == nil {
							t.Error("the handler is told nothing")
						}
						if context.Cause(ctx) == nil {
							t.Error("the handler's context goes on")
						}
						return say("deleted")
					})
				contains(t, j.bug(), tc.want...)
			})
		}
	}
}

// TestAskAgainstCapabilities: a client that cannot be asked is refused, even if the handler ignores
// it.
func TestAskAgainstCapabilities(t *testing.T) {
	blind := func(ctx context.Context) (protocol.Result, error) {
		_, _ = reasonOf(ctx, "k")
		return say("deleted")
	}
	c := serve(t, blind)
	c.call.Capabilities = protocol.ClientCapabilities{}
	c.fails(protocol.CodeMissingRequiredClientCapability)

	c, h := serveLive(t, blind)
	c.call.Capabilities = protocol.ClientCapabilities{}
	contains(t, c.done(), "error: ", "elicitation")
	c, _ = serveLive(t, blind)
	c.call.Push = nil
	contains(t, c.done(), "error: ", "no session")
	c, _ = serveAs(t, protocol.V20250326, blind)
	contains(t, c.done(), "error: ", "no elicitation")
	if h.traffic() != 0 {
		t.Error("a client was asked what it cannot answer")
	}
}

// TestAskReadsUnsolicitedAnswers: Ask validates unsolicited answers, if the host accepts them.
func TestAskReadsUnsolicitedAnswers(t *testing.T) {
	handler := flow(func(ctx context.Context) string {
		one := must(reasonOf(ctx, "one"))
		two := must(reasonOf(ctx, "two"))
		return one + " " + two
	})
	c := serve(t, handler)
	c.call.AcceptUnsolicited = true
	c.answer("one", form("first"), "two", form("x")).ask("two")
	c.call.AcceptUnsolicited = false
	c.answer("two", form("second")).says("first second")
	c = serve(t, handler)
	c.answer("one", form("first")).ask("one")
}
