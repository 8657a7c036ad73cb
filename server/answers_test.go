package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// answerCount asks for the count and answers it with raw.
func answerCount(t *testing.T, raw string) (*harness, reply) {
	t.Helper()
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "ask"}, asksCount)
	first := h.call("ask", "")
	first.asks("n")
	return h, h.call("ask", "", answers(raw), first.state())
}

func TestAnswersOfTheWrongShapeAreAskedForAgain(t *testing.T) {
	for name, answer := range map[string]string{
		"unknown": `"other":{"action":"accept","content":{"n":1}}`,
		"wrapped": `"n":{"method":"elicitation/create","result":{"action":"accept","content":{"n":1}}}`,
		"null":    `"n":null`,
		"list":    `"n":[]`,
		"string":  `"n":"accept"`,
		"nothing": ``,
	} {
		t.Run(name, func(t *testing.T) {
			_, second := answerCount(t, answer)
			second.asks("n")
		})
	}
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "ask"}, asksCount)
	for _, state := range []string{`5`, `null`, `{}`, `["x"]`} {
		h.call("ask", "", `"requestState":`+state).refused(protocol.CodeInvalidParams,
			"requestState")
	}
}

func TestAcceptedContentMustFitTheForm(t *testing.T) {
	for _, content := range []string{`{"n":"not a number","evil":1}`, `{"n":1.5}`, `{"n":null}`,
		`{}`, `[]`} {
		_, second := answerCount(t, `"n":{"action":"accept","content":`+content+`}`)
		second.asks("n")
	}
	_, second := answerCount(t, `"n":{"action":"accept","content":{"n":1}}`)
	second.text(`{"n":1}`)
}

func TestAcceptingWithoutContentIsAskedForAgain(t *testing.T) {
	_, second := answerCount(t, `"n":{"action":"accept"}`)
	second.asks("n")
}

func TestMembersOfAnswersAreCaseSensitive(t *testing.T) {
	_, second := answerCount(t, `"n":{"action":"decline","Action":"accept","content":{"n":1}}`)
	second.text("declined")
	for _, answer := range []string{
		`"n":{"ACTION":"accept","content":{"n":1}}`,
		`"n":{"action":"accept","Content":{"n":1}}`,
	} {
		_, second := answerCount(t, answer)
		second.asks("n")
	}
	// The same member twice is no JSON that anyone should act upon.
	_, second = answerCount(t, `"n":{"action":"decline","action":"accept","content":{"n":1}}`)
	second.refused(protocol.CodeParseError)
}

func TestUnknownActionsAreAskedForAgain(t *testing.T) {
	for _, action := range []string{`"bogus"`, `"Accept"`, `""`, `true`, `null`} {
		_, second := answerCount(t, `"n":{"action":`+action+`,"content":{"n":1}}`)
		second.asks("n")
	}
}

func TestAnswersAreReadAsTheQuestionWasAsked(t *testing.T) {
	_, second := answerCount(t, `"n":{"action":"accept","content":{"n":4},"roots":[],"role":"user"}`)
	second.text(`{"n":4}`)
}

func TestAnyAnswerIsSurvived(t *testing.T) {
	// The guard of the examples that crashed: any answer at all, then a read.
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "greet"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			if name, ok := roundtrip.AcceptedContent[struct {
				Name string `json:"name"`
			}](ctx, "user_name"); ok {
				return server.Text("hello " + name.Name), nil
			}
			return roundtrip.InputRequired(roundtrip.Elicit[struct {
				Name string `json:"name"`
			}]("user_name", "Who are you?")), nil
		})
	for _, answer := range []string{
		`"user_name":{"action":"accept","content":{"name":5}}`,
		`"unrelated":{"action":"accept"}`,
		`"user_name":{"roots":[]}`,
		`"user_name":{"role":"assistant","content":{"type":"text","text":"x"},"model":"m"}`,
	} {
		first := h.call("greet", "")
		h.call("greet", "", answers(answer), first.state()).asks("user_name")
	}
	first := h.call("greet", "")
	h.call("greet", "", answers(`"user_name":{"action":"decline"}`),
		first.state()).failed("declined: user_name")
	first = h.call("greet", "")
	h.call("greet", "", answers(`"user_name":{"action":"accept","content":{"name":"Ann"}}`), first.state()).text("hello Ann")
	if h.events.panicked() {
		t.Error("a handler panicked")
	}
}

func TestUnsolicitedAnswersAreDropped(t *testing.T) {
	h := newHarness(t, nil)
	var dropped []event.Dropped
	server.AddRawTool(h.Server, server.Tool{Name: "ask"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			dropped = roundtrip.DroppedAnswers(ctx)
			return asksCount(ctx, call)
		})
	forged := answers(`"n":{"action":"accept","content":{"n":1}}`)
	h.call("ask", "", forged).asks("n")
	if want := (event.Dropped{Key: "n",
		Reason: event.DropUnsolicited}); len(dropped) != 1 || dropped[0] != want {
		t.Errorf("dropped answers are %v, want %v", dropped, want)
	}
	// A tool may accept them for clients that lose the state.
	server.AddRawTool(h.Server, server.Tool{Name: "cold", AcceptUnsolicited: true}, asksCount)
	h.call("cold", "", forged).text(`{"n":1}`)
}

func TestWhatIsNoAnswerIsAskedForAgain(t *testing.T) {
	for _, answer := range []string{`null`, `{"foo":1}`, `{"result":{"action":"accept","content":{"n":1}}}`, `{}`} {
		_, second := answerCount(t, `"n":`+answer)
		second.asks("n")
	}
}

func TestRequestStateIsCaseSensitive(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "ask"}, asksCount)
	first := h.call("ask", "")
	wrong := strings.Replace(first.state(), "requestState", "RequestState", 1)
	h.call("ask", "", answers(`"n":{"action":"accept","content":{"n":1}}`), wrong).asks("n")
}

func TestInvalidAnswersAreAskedForAgain(t *testing.T) {
	for _, answer := range []string{
		`{"action":"accept","content":{"n":"x"}}`, `{"action":"accept"}`, `{"action":"bogus","content":{"n":1}}`,
	} {
		_, second := answerCount(t, `"n":`+answer)
		second.asks("n")
	}
}

func TestRetryMembersOfTheWrongTypeAreRefused(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "ask"}, asksCount)
	for _, member := range []string{`"inputResponses":[]`, `"inputResponses":"x"`,
		`"inputResponses":null`, `"requestState":1`} {
		h.call("ask", "", member).refused(protocol.CodeInvalidParams, strings.Split(member, `"`)[1])
	}
}

func TestDeclineThenCancel(t *testing.T) {
	h := newHarness(t, nil)
	runs := 0
	question := roundtrip.MustQuestion[confirmation]("ok")
	server.AddRawTool(h.Server, server.Tool{Name: "nag"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			runs++
			if a, ok := question.AcceptedContent(ctx); ok && a.OK {
				return server.Text("done"), nil
			}
			return roundtrip.InputRequired(question.Elicit("Go on?")), nil
		})
	for action, refusal := range map[string]string{"decline": "declined: ok",
		"cancel": "cancelled: ok"} {
		t.Run(action, func(t *testing.T) {
			runs = 0
			first := h.call("nag", "")
			first.asks("ok")
			h.call("nag", "", answers(`"ok":{"action":"`+action+`"}`),
				first.state()).failed(refusal)
			if runs != 2 {
				t.Errorf("%s: the handler ran %d times, want once a leg", action, runs)
			}
		})
	}
}

func TestDeclineIsRemembered(t *testing.T) {
	h := newHarness(t, nil)
	var seen []string
	server.AddRawTool(h.Server, server.Tool{Name: "x"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			a, b := roundtrip.Answer[confirmation](ctx, "a"), roundtrip.Answer[count](ctx, "b")
			seen = append(seen, a.Outcome.String()+"/"+b.Outcome.String())
			switch {
			case a.Outcome == roundtrip.Missing:
				return roundtrip.InputRequired(roundtrip.Elicit[confirmation]("a", "Really?")), nil
			case b.Outcome == roundtrip.Missing:
				return roundtrip.InputRequired(roundtrip.Elicit[count]("b", "How many?")), nil
			}
			return server.Text("done"), nil
		})
	first := h.call("x", "")
	first.asks("a")
	second := h.call("x", "", answers(`"a":{"action":"decline"}`), first.state())
	second.asks("b")
	third := h.call("x", "", answers(`"b":{"action":"accept","content":{"n":1}}`), second.state())
	third.text("done")
	if got, want := strings.Join(seen,
		" "), "missing/missing declined/missing declined/accepted"; got != want {
		t.Errorf("the handler saw %q, want %q", got, want)
	}
}

// TestNestedServerSeesNoOuterAnswers: a handler that asks another server in
// process, under its own context, does not lend it the answers it was given.
func TestNestedServerSeesNoOuterAnswers(t *testing.T) {
	inner := newHarness(t, nil)
	look := func(ctx context.Context) string {
		_, accepted := roundtrip.AcceptedContent[count](ctx, "n")
		_, state := roundtrip.State[int](ctx)
		return fmt.Sprintf("accepted %v, state %v, round %d", accepted, state,
			roundtrip.RoundOf(ctx).Number)
	}
	server.AddRawTool(inner.Server, server.Tool{Name: "look"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			return server.Text(look(ctx)), nil
		})
	server.AddPrompt(inner.Server, server.Prompt{
		Name: "look",
		Complete: func(ctx context.Context, _ *server.CompleteCall) ([]string, error) {
			return []string{look(ctx)}, nil
		},
	}, func(ctx context.Context, _ *server.PromptCall) (protocol.GetPromptOutcome, error) {
		return &protocol.GetPromptResult{Description: look(ctx)}, nil
	})
	meta := fmt.Sprintf(`"_meta":{"%s":"2026-07-28","%s":{}}`, protocol.MetaProtocolVersion,
		protocol.MetaClientCapabilities)

	outer := newHarness(t, nil)
	var tool, prompt, completion reply
	server.AddRawTool(outer.Server, server.Tool{Name: "ask"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			if _, ok := roundtrip.AcceptedContent[count](ctx, "n"); !ok {
				return roundtrip.InputRequired(roundtrip.Elicit[count]("n", "How many?"),
					roundtrip.WithState(7)), nil
			}
			tool = inner.raw(ctx, protocol.MethodCallTool, `{"name":"look",`+meta+`}`)
			prompt = inner.raw(ctx, protocol.MethodGetPrompt, `{"name":"look",`+meta+`}`)
			completion = inner.raw(ctx, protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":"look"},"argument":{"name":"a","value":""},`+meta+`}`)
			return server.Text("done"), nil
		})
	first := outer.call("ask", "")
	outer.call("ask", "", first.state(), answers(`"n":{"action":"accept","content":{"n":1}}`)).text("done")

	tool.text("accepted false, state false, round 1")
	if got, want := at(prompt.result,
		"description"), any("accepted false, state false, round 1"); got != want {
		t.Errorf("prompt sees %v, want %v", got, want)
	}
	values, _ := json.Marshal(at(completion.result, "completion", "values"))
	if got, want := string(values), `["accepted false, state false, round 0"]`; got != want {
		t.Errorf("completer sees %s, want %s", got, want)
	}
}
