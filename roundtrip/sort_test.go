package roundtrip_test

import (
	"context"
	"encoding/json"
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

// reader asks one question of each kind and reports the answers.
func reader(ctx context.Context) (protocol.Result, error) {
	if roundtrip.RoundOf(ctx).Number == 1 {
		return ask(
			elicit("form"),
			roundtrip.ElicitURL("url", "?", "https://id.example"),
			roundtrip.CreateMessage("sample", &protocol.CreateMessage{}),
			roundtrip.ListRoots("roots"),
		)
	}
	_, sampled := roundtrip.Sampled(ctx, "sample")
	roots, listed := roundtrip.Roots(ctx, "roots")
	return say(fmt.Sprintf("form %v, url %v, sampled %v, %d roots %v; dropped %v",
		replyTo(ctx, "form").Outcome, roundtrip.Visited(ctx, "url"), sampled,
		len(roots), listed, roundtrip.DroppedAnswers(ctx)))
}

// TestHostileAnswers: nothing may be taken for consent, and nothing may fail the request.
func TestHostileAnswers(t *testing.T) {
	nothing := "form missing, url missing, sampled false, 0 roots false; dropped "
	malformed := func(key string) string { return nothing + "[{" + key + " malformed}]" }
	for _, tc := range []struct {
		name    string
		answers []string
		want    string
	}{
		{"none at all", nil, nothing + "[]"},
		{"null", []string{"form", `null`}, malformed("form")},
		{"a string", []string{"form", `"accept"`}, malformed("form")},
		{"empty object", []string{"form", `{}`}, malformed("form")},
		{"not JSON", []string{"form", `{"action":"accept"`}, malformed("form")},
		{"not UTF-8", []string{"form",
			"{\"action\":\"accept\",\"content\":{\"reason\":\"\xff\xff\"}}"}, malformed("form")},
		{"wrapped in a request's envelope", []string{"form", `{"method":"elicitation/create","result":` + accepted + `}`}, malformed("form")},
		{"wrapped as a response", []string{"form",
			`{"jsonrpc":"2.0","id":1,"result":` + accepted + `}`}, malformed("form")},
		{"wrong kind: roots for a form", []string{"form", rooted}, malformed("form")},
		{"wrong kind: form for sampling", []string{"sample", accepted}, malformed("sample")},
		{"wrong kind: form for roots", []string{"roots", accepted}, malformed("roots")},
		{"unknown key", []string{"other", accepted}, nothing + "[{other unsolicited}]"},
		{"key in another case", []string{"Form", accepted}, nothing + "[{Form unsolicited}]"},
		{"prototype key", []string{"__proto__", accepted}, nothing + "[{__proto__ unsolicited}]"},
		{"bogus action", []string{"form", `{"action":"bogus","content":{"reason":"now"}}`}, malformed("form")},
		{"action in capitals", []string{"form", `{"action":"ACCEPT","content":{"reason":"now"}}`}, malformed("form")},
		{"member in capitals", []string{"form", `{"ACTION":"accept","content":{"reason":"now"}}`}, malformed("form")},
		{"decline, with Accept beside it", []string{"form", `{"action":"decline","Action":"accept","content":{"reason":"now"}}`},
			strings.Replace(nothing, "form missing", "form declined", 1) + "[]"},
		{"action twice", []string{"form", `{"action":"decline","action":"accept","content":{"reason":"now"}}`}, malformed("form")},
		{"extra member roots", []string{"form", `{"action":"accept","content":{"reason":"now"},"roots":[]}`},
			strings.Replace(nothing, "form missing", "form accepted", 1) + "[]"},
		{"content is an array", []string{"form", `{"action":"accept","content":["now"]}`},
			malformed("form")},
		{"content is null", []string{"form", `{"action":"accept","content":null}`},
			strings.Replace(nothing, "form missing", "form invalid", 1) + "[]"},
		{"content of a visit is null", []string{"url", `{"action":"accept","content":null}`},
			strings.Replace(nothing, "url missing", "url accepted", 1) + "[]"},
		{"content of a decline is null", []string{"form", `{"action":"decline","content":null}`},
			strings.Replace(nothing, "form missing", "form declined", 1) + "[]"},
		{"content is a string", []string{"form", `{"action":"accept","content":"now"}`},
			malformed("form")},
		{"content member in capitals", []string{"form", `{"action":"accept","Content":{"reason":"now"}}`},
			strings.Replace(nothing, "form missing", "form invalid", 1) + "[]"},
		{"content has unknown members", []string{"form", `{"action":"accept","content":{"reason":"now","evil":{"a":[1]},"Reason":"x"}}`},
			strings.Replace(nothing, "form missing", "form accepted", 1) + "[]"},
		{"field twice", []string{"form", `{"action":"accept","content":{"reason":"now","reason":"then"}}`}, malformed("form")},
		{"_meta of another type", []string{"form", `{"action":"accept","content":{"reason":"now"},"_meta":1}`}, malformed("form")},
		{"huge", []string{"form", `{"action":"accept","content":{"reason":"` + strings.Repeat("x", 4<<20) + `"}}`},
			strings.Replace(nothing, "form missing", "form accepted", 1) + "[]"},
		{"content of a visit is ignored", []string{"url", `{"action":"accept","content":{"x":1}}`},
			strings.Replace(nothing, "url missing", "url accepted", 1) + "[]"},
		{"roots is null", []string{"roots", `{"roots":null}`}, malformed("roots")},
		{"no roots", []string{"roots", `{"roots":[]}`},
			strings.Replace(nothing, "0 roots false", "0 roots true", 1) + "[]"},
		{"sampling without a model", []string{"sample", `{"role":"assistant","content":{"type":"text","text":"x"}}`}, malformed("sample")},
		{"only some answered", []string{"form", declined, "roots", rooted},
			"form declined, url missing, sampled false, 1 roots true; dropped []"},
		{"good and bad", []string{"url", `7`, "form", accepted, "who", `{}`},
			strings.Replace(nothing, "form missing", "form accepted", 1) +
				"[{url malformed} {who unsolicited}]"},
		{"twice, from a host that lets it through", []string{"form", declined, "form", accepted},
			strings.Replace(nothing, "form missing", "form declined", 1) + "[{form unsolicited}]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serve(t, reader)
			c.ask("form", "url", "sample", "roots").answer(tc.answers...).says(tc.want)
			dropped := all[event.AnswersDropped](c.events)
			if (len(dropped) == 1) != !strings.HasSuffix(tc.want, "[]") || len(dropped) > 1 {
				t.Errorf("events of dropped answers: %+v", dropped)
			}
		})
	}
}

// TestAnsweredKeyReplayed repeats an answer, changed, in a round that did not ask for it.
func TestAnsweredKeyReplayed(t *testing.T) {
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		switch roundtrip.RoundOf(ctx).Number {
		case 1:
			return ask(roundtrip.Elicit[Confirmation]("a", "A?"))
		case 2:
			return ask(roundtrip.Elicit[Confirmation]("b", "B?"))
		}
		return say(fmt.Sprint(replyTo(ctx, "a").Outcome, roundtrip.DroppedAnswers(ctx)))
	})
	for _, cold := range []bool{false, true} {
		c.call = toolCall()
		c.call.AcceptUnsolicited = cold
		c.ask("a").answer("a", declined).ask("b")
		if got, want := c.answer("a", accepted, "b",
			accepted).done(), "declined [{a unsolicited}]"; got != want {
			t.Errorf("cold %v: got %q, want %q", cold, got, want)
		}
	}
}

func TestUnsolicitedAnswers(t *testing.T) {
	for _, tc := range []struct{ name, answer, want string }{
		{"accepted", accepted, "accepted unsolicited"},
		{"declined", declined, "declined unsolicited"},
		{"breaks the schema", `{"action":"accept","content":{}}`, "invalid unsolicited"},
		{"no answer at all", `null`, "invalid unsolicited"},
		{"smuggled", `{"action":"decline","Action":"accept","content":{"reason":"now"}}`, "declined unsolicited"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serve(t, func(ctx context.Context) (protocol.Result, error) {
				reply := replyTo(ctx, "k")
				got := reply.Outcome.String()
				if reply.Unsolicited {
					got += " unsolicited"
				}
				if raw := roundtrip.RawAnswer(ctx, "k"); raw.Outcome == roundtrip.Accepted {
					got += " and raw"
				}
				if _, ok := roundtrip.Roots(ctx, "k"); ok {
					got += " and roots"
				}
				return say(got)
			})
			c.call.AcceptUnsolicited = true
			c.answer("k", tc.answer).says(tc.want)
		})
	}
}

// TestUnsolicitedAnswersAreCarried if they were read.
func TestUnsolicitedAnswersAreCarried(t *testing.T) {
	type other struct {
		Reason string `json:"reason" maxLength:"1"`
	}
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		read := replyTo(ctx, "read")
		if roundtrip.RoundOf(ctx).Number == 1 {
			return ask(elicit("more"))
		}
		unread := replyTo(ctx, "unread")
		changed := roundtrip.Answer[other](ctx, "read")
		return say(fmt.Sprintf("%v %v %v %v", read.Outcome, read.Unsolicited, unread.Outcome,
			changed.Outcome))
	})
	c.call.AcceptUnsolicited = true
	c.answer("read", `{"action":"accept","content":{}}`).ask("more")
	c.answer("more", accepted).says("missing false missing missing")
	c.call = toolCall()
	c.call.AcceptUnsolicited = true
	c.answer("read", accepted, "unread", accepted).ask("more")
	c.call.AcceptUnsolicited = false
	c.answer("more", accepted).says("accepted true missing invalid")
}

// TestManyUnsolicitedAnswersAreDropped: each kept one is compared with all that follow, so a
// megabyte of them once took 15 s.
func TestManyUnsolicitedAnswersAreDropped(t *testing.T) {
	const sent = 50_000
	many := protocol.InputResponses{}
	for i := range sent {
		many = append(many, protocol.KeyedResponse{Key: fmt.Sprint("k", i),
			Result: json.RawMessage(accepted)})
	}
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		_, first := roundtrip.AcceptedContent[Confirmation](ctx, "k0")
		_, last := roundtrip.AcceptedContent[Confirmation](ctx, fmt.Sprint("k", sent-1))
		return say(fmt.Sprintf("first %v, last %v, dropped %d", first, last,
			len(roundtrip.DroppedAnswers(ctx))))
	})
	c.call.AcceptUnsolicited = true
	c.call.Responses = many
	want := fmt.Sprintf("first true, last false, dropped %d", sent-roundtrip.MaxUnsolicited)
	c.says(want)
}

// consent asks for one thing until it is accepted.
func consent(ctx context.Context) (protocol.Result, error) {
	if consents(ctx, "k") {
		return say("done")
	}
	return ask(elicit("k"))
}

// TestClientThatLosesTheState is asked twice, and told why not a third time.
func TestClientThatLosesTheState(t *testing.T) {
	c := serve(t, consent)
	lose := func() *client {
		c.call.State = protocol.RequestState{}
		return c.answer("k", accepted)
	}
	c.ask("k")
	lose().ask("k")
	contains(t, lose().done(), "error: ", "loses the requestState")
	contains(t, lose().done(), "error: ", "loses the requestState")

	c.call.Arguments = json.RawMessage(`{"env":"dev"}`)
	lose().ask("k") // another request has another count

	c.call.Method = protocol.MethodGetPrompt
	c.call.State = protocol.RequestState{}
	c.answer("k", accepted).ask("k")
	c.call.State = protocol.RequestState{}
	contains(t, c.answer("k", accepted).fails(protocol.CodeFlowEnded).Message,
		"loses the requestState")
}

// TestClientWithWrongKeys brings the state, with answers to other keys.
func TestClientWithWrongKeys(t *testing.T) {
	c := serve(t, consent)
	c.ask("k").answer("wrong", accepted).ask("k")
	contains(t, c.answer("wrong", accepted).done(), "error: ", "cannot be used")
	c.ended(words.EndStateLost, 3)

	c = serve(t, consent)
	c.ask("k").answer("k", `{"method":"elicitation/create","result":`+accepted+`}`).ask("k")
	contains(t, c.answer("k", `null`).done(), "error: ", "their shape is wrong")
}

// TestClientThatRecovers sends good answers in between.
func TestClientThatRecovers(t *testing.T) {
	c := serve(t, consent)
	c.ask("k")
	for range 2 {
		c.answer("wrong", accepted).ask("k").answer("k", agreed).ask("k") // counted, if not valid
	}
	c.answer("wrong", accepted, "k", accepted).says("done")

	// A client that brings its state again is removed from the table.
	c = serve(t, consent)
	c.answer("k", accepted).ask("k")
	if n := c.funnel.StatelessCallers(); n != 1 {
		t.Fatalf("%d losers, want 1", n)
	}
	c.answer("k", agreed).ask("k")
	if n := c.funnel.StatelessCallers(); n != 0 {
		t.Errorf("%d losers after the client came back with its state, want none", n)
	}
}

func TestStatelessCallersAreForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, consent)
		for range 5 {
			c.call.State = protocol.RequestState{}
			c.answer("k", accepted).ask("k")
			time.Sleep(roundtrip.StatelessCallerTTL + time.Second)
		}
	})
}

func TestStatelessCallersAreBounded(t *testing.T) {
	c := serve(t, consent)
	for n := range roundtrip.MaxStatelessCallers + 50 {
		c.call = toolCall()
		c.call.Principal.Subject = fmt.Sprint("user", n)
		c.answer("k", accepted).ask("k")
	}
	if n := c.funnel.StatelessCallers(); n != roundtrip.MaxStatelessCallers {
		t.Errorf("%d losers are remembered, want %d", n, roundtrip.MaxStatelessCallers)
	}
}
