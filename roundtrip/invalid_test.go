package roundtrip_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

type Payment struct {
	Amount float64 `json:"amount" title:"Amount" minimum:"0.01"`
	Agree  bool    `json:"agree" title:"I agree"`
}

// payFlow asks for a payment in flow style, payGuard in guard style, payUnread in guard style
// without reading the error.
func payFlow(ctx context.Context) (protocol.Result, error) {
	p, err := roundtrip.Ask[Payment](ctx, "pay", "How much?")
	if err != nil {
		return nil, err
	}
	return say(fmt.Sprint("paid ", p.Amount))
}

func payGuard(ctx context.Context) (protocol.Result, error) {
	reply := roundtrip.Answer[Payment](ctx, "pay")
	if reply.Outcome == roundtrip.Accepted {
		return say(fmt.Sprint("paid ", reply.Content.Amount))
	}
	return ask(roundtrip.Elicit[Payment]("pay", "How much?"))
}

func payUnread(ctx context.Context) (protocol.Result, error) {
	if roundtrip.RoundOf(ctx).Number < 3 {
		return ask(roundtrip.Elicit[Payment]("pay", "How much?"))
	}
	return payGuard(ctx)
}

// inTurn answers with each content in turn, then the last, and records the messages.
type inTurn struct {
	contents []string
	messages []string
}

func (s *inTurn) next(q protocol.InputRequest) string {
	s.messages = append(s.messages, q.(*protocol.ElicitForm).Message)
	content := s.contents[min(len(s.messages), len(s.contents))-1]
	return `{"action":"accept","content":` + content + `}`
}

func (s *inTurn) play(t *testing.T, m mode, handler roundtrip.Handler) (string, *events) {
	t.Helper()
	j := newJourney(t, m, roundtrip.Options{}, nil, handler)
	j.human.answer = func(q *pushed) (string, error) { return s.next(q.InputRequest), nil }
	for {
		result, err := j.send()
		asked, more := result.(*protocol.InputRequiredResult)
		noError(t, err)
		if !more {
			return show(result), j.events
		}
		j.call.Responses = answersTo(asked, s.next)
	}
}

func inEveryStyle(t *testing.T, test func(t *testing.T, m mode, handler roundtrip.Handler)) {
	for _, m := range modes {
		for name, handler := range map[string]roundtrip.Handler{"flow": payFlow, "guard": payGuard,
			"unread": payUnread} {
			t.Run(m.name+" "+name, func(t *testing.T) { test(t, m, handler) })
		}
	}
}

// TestRepeatedQuestionSaysWhy: the reason precedes the question, whose identity does not change.
func TestRepeatedQuestionSaysWhy(t *testing.T) {
	inEveryStyle(t, func(t *testing.T, m mode, handler roundtrip.Handler) {
		s := &inTurn{contents: []string{`{"amount":0,"agree":true}`, `{"amount":5}`,
			`{"amount":5,"agree":true}`}}
		got, events := s.play(t, m, handler)
		if got != "paid 5" {
			t.Errorf("got %q", got)
		}
		want := "How much?\nAmount must be at least 0.01. How much?\n" +
			"I agree was not answered: choose yes or no, and decline if you cannot choose no. " +
			"How much?"
		if shown := strings.Join(s.messages, "\n"); shown != want {
			t.Errorf("shown\n%s\nwant\n%s", shown, want)
		}
		var broken []string
		for _, e := range all[event.AnswerInvalid](events) {
			broken = append(broken, e.Key+" "+e.Field+" "+string(e.Rule))
		}
		if got, want := strings.Join(broken,
			", "), "pay amount minimum, pay agree required"; got != want {
			t.Errorf("events %s, want %s", got, want)
		}
		asked := all[event.InputRequested](events)
		digests := map[event.QuestionDigest]bool{}
		for _, e := range asked {
			digests[e.Questions[0].Digest] = true
		}
		for _, e := range all[event.Answered](events) {
			digests[e.QuestionDigest] = true
		}
		if len(digests) != 1 || len(asked) != 3 {
			t.Errorf("%d digests in %d rounds, want one in 3", len(digests), len(asked))
		}
	})
}

func TestFlowEndsAfterThreeInvalidAnswers(t *testing.T) {
	inEveryStyle(t, func(t *testing.T, m mode, handler roundtrip.Handler) {
		s := &inTurn{contents: []string{`{"amount":0,"agree":true}`}}
		got, events := s.play(t, m, handler)
		contains(t, got, "error: not asking again", `3 answers to "pay"`, `the rule "minimum"`,
			"Amount must be at least 0.01")
		if n := len(s.messages); n != 3 {
			t.Errorf("asked %d times, want %d", n, 3)
		}
		if n := len(all[event.AnswerInvalid](events)); n != 3 {
			t.Errorf("%d events, want %d", n, 3)
		}
	})
}

// TestValidAnswersAreNotCounted: only invalid answers in a row count.
func TestValidAnswersAreNotCounted(t *testing.T) {
	for _, m := range modes {
		s := &inTurn{contents: []string{`{"amount":0,"agree":true}`, `{"amount":1,"agree":true}`}}
		got, _ := s.play(t, m, flow(func(ctx context.Context) string {
			for i := range 3 {
				must(roundtrip.Ask[Payment](ctx, fmt.Sprint("pay", i), "How much?"))
				s.contents = append(s.contents, `{"amount":0,"agree":true}`,
					`{"amount":1,"agree":true}`)
			}
			return "paid"
		}))
		if got != "paid" {
			t.Errorf("%s: got %q", m.name, got)
		}
	}
}

func TestGaveUpNamesTheRule(t *testing.T) {
	for _, m := range modes {
		s := &inTurn{contents: []string{`{"amount":0,"agree":true}`}}
		j := newJourney(t, m, roundtrip.Options{Limits: roundtrip.Limits{Rounds: 1}}, nil, payFlow)
		j.human.answer = func(q *pushed) (string, error) { return s.next(q.InputRequest), nil }
		result, err := j.send()
		if asked, ok := result.(*protocol.InputRequiredResult); ok {
			j.call.Responses = answersTo(asked, s.next)
			result, err = j.send()
		}
		noError(t, err)
		contains(t, show(result), "error: gave up after 1 rounds", `the last answer to "pay" broke the rule "minimum": Amount must be at least 0.01`)
	}
}

// TestWordsOfTheAuthorAreNotRepeated: an author's own reason replaces the funnel's.
func TestWordsOfTheAuthorAreNotRepeated(t *testing.T) {
	s := &inTurn{contents: []string{`{"amount":0,"agree":true}`, `{"amount":1,"agree":true}`}}
	s.play(t, modes[0], func(ctx context.Context) (protocol.Result, error) {
		reply := roundtrip.Answer[Payment](ctx, "pay")
		switch reply.Outcome {
		case roundtrip.Accepted:
			return say("paid")
		case roundtrip.Invalid:
			return ask(roundtrip.Elicit[Payment]("pay",
				"Sorry, Amount must be at least 0.01. Again?"))
		}
		return ask(roundtrip.Elicit[Payment]("pay", "How much?"))
	})
	if s.messages[1] != "Sorry, Amount must be at least 0.01. Again?" {
		t.Errorf("shown %q", s.messages[1])
	}
}

// TestVisitsAreNotInvalid: an unfinished visit is asked for again unchanged.
func TestVisitsAreNotInvalid(t *testing.T) {
	c := serve(t, func(context.Context) (protocol.Result, error) {
		return ask(roundtrip.ElicitURL("visit", "Sign in", "https://id.example/"))
	})
	c.ask("visit")
	for range 5 {
		asked := c.answer("visit", agreed).ask("visit").asked
		if m := asked.InputRequests[0].Request.(*protocol.ElicitURL).Message; m != "Sign in" {
			t.Errorf("shown %q", m)
		}
	}
	if n := len(all[event.AnswerInvalid](c.events)); n != 0 {
		t.Errorf("%d events", n)
	}
}

// TestInvalidAnswersStayInvalid: an invalid answer stays invalid when read again, in any round.
func TestInvalidAnswersStayInvalid(t *testing.T) {
	var outcomes []roundtrip.Outcome
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		for range 2 {
			reply := replyTo(ctx, "k")
			outcomes = append(outcomes, reply.Outcome)
			if reply.Outcome == roundtrip.Invalid &&
				(reply.Err == nil || reply.Content.Reason != "") {
				t.Errorf("reply %+v", reply)
			}
		}
		if roundtrip.RoundOf(ctx).Number == 1 {
			return ask(elicit("k"))
		}
		return say("done")
	})
	c.ask("k").answer("k", form("x")).done()
	want := []roundtrip.Outcome{roundtrip.Missing, roundtrip.Missing, roundtrip.Invalid,
		roundtrip.Invalid}
	for i, outcome := range outcomes {
		if len(outcomes) != len(want) || outcome != want[i] {
			t.Fatalf("got %v, want %v", outcomes, want)
		}
	}
}
