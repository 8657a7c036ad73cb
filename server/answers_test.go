package server_test

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
	"github.com/rondo-mcp/rondo/server"
)

func answerCount(t *testing.T, raw string) (*harness, reply) {
	t.Helper()
	h := newHarness(t, nil)
	h.tool("ask", asksCount)
	first := h.call("ask", "")
	first.asks("n")
	return h, h.call("ask", "", answers(raw), first.state())
}

func TestWhatIsNoAnswerIsAskedForAgain(t *testing.T) {
	for name, answer := range map[string]string{
		"unknown":        `"other":{"action":"accept","content":{"n":1}}`,
		"wrapped":        `"n":{"result":{"action":"accept","content":{"n":1}}}`,
		"null":           `"n":null`,
		"no object":      `"n":"accept"`,
		"nothing":        ``,
		"unknown action": `"n":{"action":"Accept","content":{"n":1}}`,
		"no content":     `"n":{"action":"accept"}`,
		"bad content":    `"n":{"action":"accept","content":{"n":1.5}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, second := answerCount(t, answer)
			second.asks("n")
		})
	}
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
	// Duplicate members are invalid JSON.
	_, second = answerCount(t, `"n":{"action":"decline","action":"accept","content":{"n":1}}`)
	second.refused(protocol.CodeParseError)
}

func TestUnsolicitedAnswersAreDropped(t *testing.T) {
	h := newHarness(t, nil)
	var dropped []event.Dropped
	h.tool("ask", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		dropped = roundtrip.DroppedAnswers(ctx)
		return asksCount(ctx, call)
	})
	forged := answers(`"n":{"action":"accept","content":{"n":1}}`)
	h.call("ask", "", forged).asks("n")
	if want := (event.Dropped{Key: "n",
		Reason: words.DropUnsolicited}); len(dropped) != 1 || dropped[0] != want {
		t.Errorf("dropped answers are %v, want %v", dropped, want)
	}
	// A tool may accept unsolicited answers from clients that lose the state.
	server.AddRawTool(h.Server, server.Tool{Name: "cold", AcceptUnsolicited: true}, asksCount)
	h.call("cold", "", forged).text(`{"n":1}`)
}

func TestRequestStateIsCaseSensitive(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("ask", asksCount)
	first := h.call("ask", "")
	wrong := strings.Replace(first.state(), "requestState", "RequestState", 1)
	h.call("ask", "", answers(`"n":{"action":"accept","content":{"n":1}}`), wrong).asks("n")
}

func TestRetryMembersOfTheWrongTypeAreRefused(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("ask", asksCount)
	for _, member := range []string{`"inputResponses":[]`, `"inputResponses":"x"`,
		`"inputResponses":null`, `"requestState":1`, `"requestState":null`, `"requestState":{}`} {
		h.call("ask", "", member).refused(protocol.CodeInvalidParams, strings.Split(member, `"`)[1])
	}
}

// A server called in process by a handler does not see the handler's answers.
func TestNestedServerSeesNoOuterAnswers(t *testing.T) {
	inner := newHarness(t, nil)
	look := func(ctx context.Context) string {
		_, accepted := roundtrip.AcceptedContent[count](ctx, "n")
		_, state := roundtrip.State[int](ctx)
		return fmt.Sprintf("accepted %v, state %v, round %d", accepted, state,
			roundtrip.RoundOf(ctx).Number)
	}
	inner.tool("look", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
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
	addTool(outer.Server, "ask",
		func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
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
	wantEqual(t, "completer sees", string(values), `["accepted false, state false, round 0"]`)
}
