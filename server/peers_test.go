package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// The tests of this file are named after defects that were found in servers of
// other makes: G by the one, M by the other. Each says what must happen instead.

type confirmation struct {
	OK bool `json:"ok"`
}

type count struct {
	N int `json:"n"`
}

// outcome is a handler that always answers the same.
func outcome(result protocol.CallToolOutcome, err error) func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
	return func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) { return result, err }
}

// asksCount asks for a number and reports what became of the question.
func asksCount(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	reply := roundtrip.Answer[count](ctx, "n")
	switch reply.Outcome {
	case roundtrip.Accepted:
		data, _ := json.Marshal(reply.Content)
		return server.Text(string(data)), nil
	case roundtrip.Declined, roundtrip.Cancelled:
		return server.Text(reply.Outcome.String()), nil
	}
	return roundtrip.InputRequired(roundtrip.Elicit[count]("n", "How many?")), nil
}

// answerCount asks for the count and answers it with raw.
func answerCount(t *testing.T, raw string) (*harness, reply) {
	t.Helper()
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "ask"}, asksCount)
	first := h.call("ask", "")
	first.asks("n")
	return h, h.call("ask", "", answers(raw), first.state())
}

func TestG1RequestStateOnly(t *testing.T) {
	h := newHarness(t, nil)
	later := func() *protocol.InputRequiredResult { return roundtrip.InputRequired(roundtrip.WithState(7)) }
	server.AddRawTool(h.Server, server.Tool{Name: "later"}, func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
		if n, ok := roundtrip.State[int](ctx); ok && n == 7 {
			return server.Text("done"), nil
		}
		return later(), nil
	})
	server.AddPrompt(h.Server, server.Prompt{Name: "later"}, func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
		return later(), nil
	})
	first := h.call("later", "")
	first.asks()
	h.call("later", "", first.state()).text("done")
	prompt := h.send(protocol.MethodGetPrompt, `"name":"later"`)
	prompt.asks()
	prompt.state()
}

func TestG2TypedRequestStateOnly(t *testing.T) {
	h := newHarness(t, nil)
	server.AddToolOut(h.Server, server.Tool{Name: "later"}, func(context.Context, *server.ToolCall, none) (count, error) {
		return count{}, &server.InputRequiredError{Result: roundtrip.InputRequired(roundtrip.WithState(7))}
	})
	first := h.call("later", "")
	first.asks()
	first.state()
}

func TestG3EmptyInputRequests(t *testing.T) {
	empty := &protocol.InputRequiredResult{InputRequests: protocol.InputRequests{}}
	h := askers(t, empty)
	for _, send := range askingMethods {
		send(h).refused(protocol.CodeInternalError)
	}
	h.wantBug("at least one of")
}

// askers registers a tool, a prompt and a resource that all answer with asks.
func askers(t *testing.T, asks *protocol.InputRequiredResult) *harness {
	t.Helper()
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "x"}, outcome(asks, nil))
	server.AddPrompt(h.Server, server.Prompt{Name: "x"}, func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
		return asks, nil
	})
	server.AddResource(h.Server, server.Resource{URI: "x:", Name: "x"}, func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
		return asks, nil
	})
	return h
}

// askingMethods send the three requests that may be answered with questions.
var askingMethods = []func(h *harness) reply{
	func(h *harness) reply { return h.call("x", "") },
	func(h *harness) reply { return h.send(protocol.MethodGetPrompt, `"name":"x"`) },
	func(h *harness) reply { return h.send(protocol.MethodReadResource, `"uri":"x:"`) },
}

func TestG4CapabilityGate(t *testing.T) {
	form := roundtrip.Elicit[count]("n", "How many?")
	url := roundtrip.ElicitURL("u", "Sign in", "https://example.com")
	sample := roundtrip.CreateMessage("s", &protocol.CreateMessage{
		MaxTokens: 1,
		Messages:  []protocol.SamplingMessage{{Role: protocol.User, Content: []protocol.Content{&protocol.TextContent{Text: "hi"}}}},
		Tools:     []protocol.Tool{{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}},
	})
	tests := []struct {
		name         string
		items        []roundtrip.Item
		capabilities string
		missing      string
	}{
		{"form to a client that declares nothing", []roundtrip.Item{form}, `{}`, `{"elicitation":{"form":{}}}`},
		{"form to a client with URL mode only", []roundtrip.Item{form}, `{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{}}}`},
		{"URL to a client with form mode only", []roundtrip.Item{url}, `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`},
		{"tools to plain sampling", []roundtrip.Item{sample}, `{"sampling":{}}`, `{"sampling":{"tools":{}}}`},
		{"all that is missing in one error", []roundtrip.Item{form, url, roundtrip.ListRoots("r")}, `{"elicitation":{}}`,
			`{"elicitation":{"url":{}},"roots":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := askers(t, roundtrip.InputRequired(tt.items...))
			h.capabilities = tt.capabilities
			for _, send := range askingMethods {
				r := send(h)
				r.refused(protocol.CodeMissingRequiredClientCapability)
				if r.err != nil && string(r.err.Data) != `{"requiredCapabilities":`+tt.missing+`}` {
					t.Errorf("data is %s, want %s", r.err.Data, tt.missing)
				}
			}
		})
	}
}

func TestG5NoNullContentBesideQuestions(t *testing.T) {
	h := askers(t, roundtrip.InputRequired(roundtrip.Elicit[count]("n", "How many?")))
	for _, send := range askingMethods {
		r := send(h)
		r.asks("n")
		if strings.Contains(r.raw, "null") {
			t.Errorf("null on the wire: %s", r.raw)
		}
	}
}

// forged is complete and input required at once, which embedding permits.
type forged struct {
	*protocol.CallToolResult
	InputRequests protocol.InputRequests
}

func TestG6NoErrorFlagBesideQuestions(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "x"}, outcome(&forged{CallToolResult: server.ErrorText("no")}, nil))
	h.call("x", "").refused(protocol.CodeInternalError)
	h.wantBug("forged")
}

func TestG7NilEntry(t *testing.T) {
	for name, question := range map[string]protocol.InputRequest{
		"nil": nil, "typed nil": (*protocol.ElicitForm)(nil), "invalid schema": &protocol.ElicitForm{Message: "m", Schema: json.RawMessage(`{`)},
	} {
		t.Run(name, func(t *testing.T) {
			h := askers(t, &protocol.InputRequiredResult{InputRequests: protocol.InputRequests{{Key: "k", Request: question}}})
			for _, send := range askingMethods {
				send(h).refused(protocol.CodeInternalError)
			}
			h.wantBug("k")
		})
	}
}

func TestG8URLElicitationError(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "x"}, outcome(nil, &protocol.URLElicitationRequiredError{
		Elicitations: []*protocol.ElicitURL{{Message: "Sign in", URL: "https://example.com/1", ElicitationID: "e1"}},
	}))
	r := h.call("x", "")
	r.asks("e1")
	if strings.Contains(r.raw, "-32042") || strings.Contains(r.raw, "elicitationId") {
		t.Errorf("what exists in 2025-11-25 only is on the wire: %s", r.raw)
	}
}

func TestG9MalformedAnswers(t *testing.T) {
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
		h.call("ask", "", `"requestState":`+state).refused(protocol.CodeInvalidParams, "requestState")
	}
}

func TestG10NoCacheHintsBesideQuestions(t *testing.T) {
	h := askers(t, roundtrip.InputRequired(roundtrip.Elicit[count]("n", "How many?")))
	r := h.send(protocol.MethodReadResource, `"uri":"x:"`)
	r.asks("n") // and nothing but what input_required may carry
}

func TestG11ResourceStateOnly(t *testing.T) {
	h := askers(t, roundtrip.InputRequired(roundtrip.WithState("s")))
	r := h.send(protocol.MethodReadResource, `"uri":"x:"`)
	r.asks()
	r.state()
}

func TestG12AnswersAreValidated(t *testing.T) {
	for _, content := range []string{`{"n":"not a number","evil":1}`, `{"n":1.5}`, `{"n":null}`, `{}`, `[]`} {
		_, second := answerCount(t, `"n":{"action":"accept","content":`+content+`}`)
		second.asks("n")
	}
	_, second := answerCount(t, `"n":{"action":"accept","content":{"n":1}}`)
	second.text(`{"n":1}`)
}

func TestG13AcceptWithoutContent(t *testing.T) {
	_, second := answerCount(t, `"n":{"action":"accept"}`)
	second.asks("n")
}

func TestG14SmuggledActions(t *testing.T) {
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

func TestG15BogusAction(t *testing.T) {
	for _, action := range []string{`"bogus"`, `"Accept"`, `""`, `true`, `null`} {
		_, second := answerCount(t, `"n":{"action":`+action+`,"content":{"n":1}}`)
		second.asks("n")
	}
}

func TestG16KindFollowsTheQuestion(t *testing.T) {
	_, second := answerCount(t, `"n":{"action":"accept","content":{"n":4},"roots":[],"role":"user"}`)
	second.text(`{"n":4}`)
}

func TestG17HostileAnswersDoNotCrash(t *testing.T) {
	// The guard of the examples that crashed: any answer at all, then a read.
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "greet"}, func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
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
	h.call("greet", "", answers(`"user_name":{"action":"decline"}`), first.state()).failed("declined: user_name")
	first = h.call("greet", "")
	h.call("greet", "", answers(`"user_name":{"action":"accept","content":{"name":"Ann"}}`), first.state()).text("hello Ann")
	if h.events.panicked() {
		t.Error("a handler panicked")
	}
}

func TestG18UnsolicitedAnswers(t *testing.T) {
	h := newHarness(t, nil)
	var dropped []roundtrip.Dropped
	server.AddRawTool(h.Server, server.Tool{Name: "ask"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		dropped = roundtrip.DroppedAnswers(ctx)
		return asksCount(ctx, call)
	})
	forged := answers(`"n":{"action":"accept","content":{"n":1}}`)
	h.call("ask", "", forged).asks("n")
	if want := (roundtrip.Dropped{Key: "n", Reason: roundtrip.DropUnsolicited}); len(dropped) != 1 || dropped[0] != want {
		t.Errorf("dropped answers are %v, want %v", dropped, want)
	}
	// A tool may accept them for clients that lose the state.
	server.AddRawTool(h.Server, server.Tool{Name: "cold", AcceptCold: true}, asksCount)
	h.call("cold", "", forged).text(`{"n":1}`)
}

func TestM1NothingRequired(t *testing.T) {
	h := askers(t, roundtrip.InputRequired())
	for _, send := range askingMethods {
		send(h).refused(protocol.CodeInternalError)
	}
	h.wantBug("at least one")
}

func TestM2ResultTypeCannotBeForgotten(t *testing.T) {
	h := askers(t, &protocol.InputRequiredResult{InputRequests: protocol.InputRequests{
		{Key: "r", Request: &protocol.ListRoots{}},
	}})
	for _, send := range askingMethods {
		send(h).asks("r")
	}
}

func TestM3NoContentBesideQuestions(t *testing.T) {
	h := newHarness(t, nil)
	schema := json.RawMessage(`{"type":"object","required":["n"]}`)
	server.AddRawTool(h.Server, server.Tool{Name: "x", OutputSchema: schema},
		outcome(roundtrip.InputRequired(roundtrip.Elicit[count]("n", "How many?")), nil))
	h.call("x", "").asks("n")
}

func TestM4CapabilityGateOfSampling(t *testing.T) {
	h := askers(t, roundtrip.InputRequired(roundtrip.CreateMessage("s", &protocol.CreateMessage{
		MaxTokens: 1,
		Messages:  []protocol.SamplingMessage{{Role: protocol.User, Content: []protocol.Content{&protocol.TextContent{Text: "hi"}}}},
	})))
	for _, send := range askingMethods {
		send(h).asks("s")
	}
	h.capabilities = `{"elicitation":{},"roots":{}}`
	for _, send := range askingMethods {
		send(h).refused(protocol.CodeMissingRequiredClientCapability, "sampling")
	}
}

func TestM5InvalidEntryIsAnswered(t *testing.T) {
	bad := &protocol.InputRequiredResult{InputRequests: protocol.InputRequests{
		{Key: "", Request: &protocol.ListRoots{}},
	}}
	twice := &protocol.InputRequiredResult{InputRequests: protocol.InputRequests{
		{Key: "k", Request: &protocol.ListRoots{}}, {Key: "k", Request: &protocol.ListRoots{}},
	}}
	for _, asks := range []*protocol.InputRequiredResult{bad, twice} {
		h := askers(t, asks)
		for _, send := range askingMethods {
			send(h).refused(protocol.CodeInternalError)
		}
		h.wantBug("key")
	}
}

func TestM6URLElicitationsAreKept(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "x"}, outcome(nil, &protocol.URLElicitationRequiredError{
		Elicitations: []*protocol.ElicitURL{
			{Message: "one", URL: "https://example.com/1"},
			{Message: "two", URL: "https://example.com/2", ElicitationID: "url-elicitation-1"},
			{Message: "three", URL: "https://example.com/3", ElicitationID: "url-elicitation-1"},
		},
	}))
	r := h.call("x", "")
	r.asks("url-elicitation-1", "url-elicitation-2", "url-elicitation-3")
	if got := at(r.result, "inputRequests", "url-elicitation-1", "params", "url"); got != "https://example.com/2" {
		t.Errorf("the id that the author chose asks for %v", got)
	}
	server.AddRawTool(h.Server, server.Tool{Name: "none"}, outcome(nil, &protocol.URLElicitationRequiredError{}))
	h.call("none", "").refused(protocol.CodeInternalError)
}

func TestM7HandlersCapabilityError(t *testing.T) {
	h := newHarness(t, nil)
	missing := protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}
	server.AddRawTool(h.Server, server.Tool{Name: "x"}, outcome(nil, protocol.MissingCapabilities(missing)))
	r := h.call("x", "")
	r.refused(protocol.CodeMissingRequiredClientCapability, "roots")
	if r.err != nil && string(r.err.Data) != `{"requiredCapabilities":{"roots":{}}}` {
		t.Errorf("data is %s", r.err.Data)
	}
}

func TestM8WhatIsNoAnswer(t *testing.T) {
	for _, answer := range []string{`null`, `{"foo":1}`, `{"result":{"action":"accept","content":{"n":1}}}`, `{}`} {
		_, second := answerCount(t, `"n":`+answer)
		second.asks("n")
	}
}

func TestM9WrongCaseState(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "ask"}, asksCount)
	first := h.call("ask", "")
	wrong := strings.Replace(first.state(), "requestState", "RequestState", 1)
	h.call("ask", "", answers(`"n":{"action":"accept","content":{"n":1}}`), wrong).asks("n")
}

func TestM10AnswersAreValidated(t *testing.T) {
	for _, answer := range []string{
		`{"action":"accept","content":{"n":"x"}}`, `{"action":"accept"}`, `{"action":"bogus","content":{"n":1}}`,
	} {
		_, second := answerCount(t, `"n":`+answer)
		second.asks("n")
	}
}

func TestM11WrongTypes(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "ask"}, asksCount)
	for _, member := range []string{`"inputResponses":[]`, `"inputResponses":"x"`, `"inputResponses":null`, `"requestState":1`} {
		h.call("ask", "", member).refused(protocol.CodeInvalidParams, strings.Split(member, `"`)[1])
	}
}

func TestM12ResourcesAndTypedToolsCanAsk(t *testing.T) {
	h := newHarness(t, nil)
	server.AddResource(h.Server, server.Resource{URI: "x:", Name: "x"}, func(ctx context.Context, _ *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
		if a, ok := roundtrip.AcceptedContent[confirmation](ctx, "ok"); ok && a.OK {
			return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{{Text: "secret"}}}, nil
		}
		return roundtrip.InputRequired(roundtrip.Elicit[confirmation]("ok", "Show it?")), nil
	})
	server.AddToolOut(h.Server, server.Tool{Name: "x"}, func(ctx context.Context, _ *server.ToolCall, _ none) (count, error) {
		if a, ok := roundtrip.AcceptedContent[count](ctx, "n"); ok {
			return count{a.N * 2}, nil
		}
		return count{}, &server.InputRequiredError{Result: roundtrip.InputRequired(roundtrip.Elicit[count]("n", "How many?"))}
	})
	first := h.send(protocol.MethodReadResource, `"uri":"x:"`)
	first.asks("ok")
	second := h.send(protocol.MethodReadResource, `"uri":"x:",`+answers(`"ok":{"action":"accept","content":{"ok":true}}`)+","+first.state())
	if list, _ := second.result["contents"].([]any); len(list) != 1 || at(list[0], "text") != "secret" || at(list[0], "uri") != "x:" {
		t.Errorf("result is %s", second.raw)
	}
	first = h.call("x", "")
	first.asks("n")
	second = h.call("x", "", answers(`"n":{"action":"accept","content":{"n":2}}`), first.state())
	second.text(`{"n":4}`)
	if at(second.result, "structuredContent", "n") != 4.0 {
		t.Errorf("structuredContent is %v", second.result["structuredContent"])
	}
}

func TestM13Panic(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "x"}, func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
		panic("secret of the server")
	})
	server.AddRawTool(h.Server, server.Tool{Name: "y"}, outcome(server.Text("alive"), nil))
	r := h.call("x", "")
	r.refused(protocol.CodeInternalError)
	if strings.Contains(r.raw, "secret") {
		t.Errorf("the client learns what a panic says: %s", r.raw)
	}
	if !h.events.panicked() {
		t.Error("the observer is not told")
	}
	h.call("y", "").text("alive")
}

func TestNilOutcomes(t *testing.T) {
	for name, result := range map[string]protocol.CallToolOutcome{
		"nil": nil, "typed nil result": (*protocol.CallToolResult)(nil), "typed nil question": (*protocol.InputRequiredResult)(nil),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil)
			server.AddRawTool(h.Server, server.Tool{Name: "x"}, outcome(result, nil))
			h.call("x", "").refused(protocol.CodeInternalError)
			h.wantBug("nil")
		})
	}
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "x"}, outcome(server.Text("a", "b"), nil))
	server.AddRawTool(h.Server, server.Tool{Name: "typed nil error"}, outcome(nil, (*protocol.Error)(nil)))
	server.AddRawTool(h.Server, server.Tool{Name: "nil block"}, outcome(&protocol.CallToolResult{Content: []protocol.Content{nil}}, nil))
	server.AddRawTool(h.Server, server.Tool{Name: "empty"}, outcome(&protocol.CallToolResult{}, nil))
	server.AddToolOut(h.Server, server.Tool{Name: "asks nothing"}, func(context.Context, *server.ToolCall, none) (count, error) {
		return count{}, &server.InputRequiredError{}
	})
	h.call("x", "").text("a")
	h.call("nil block", "").refused(protocol.CodeInternalError)
	h.wantBug("content[0]")
	h.call("asks nothing", "").refused(protocol.CodeInternalError)
	if r := h.call("empty", ""); !strings.Contains(r.raw, `"content":[]`) {
		t.Errorf("absent content is not an empty list: %s", r.raw)
	}
	if r := h.call("typed nil error", ""); r.err == nil && r.result["isError"] != true {
		t.Errorf("a typed nil error became a success: %s", r.raw)
	}
}

func TestDeclineThenCancel(t *testing.T) {
	h := newHarness(t, nil)
	runs := 0
	question := roundtrip.MustQuestion[confirmation]("ok")
	server.AddRawTool(h.Server, server.Tool{Name: "nag"}, func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
		runs++
		if a, ok := question.AcceptedContent(ctx); ok && a.OK {
			return server.Text("done"), nil
		}
		return roundtrip.InputRequired(question.Elicit("Go on?")), nil
	})
	for action, refusal := range map[string]string{"decline": "declined: ok", "cancel": "cancelled: ok"} {
		runs = 0
		first := h.call("nag", "")
		first.asks("ok")
		h.call("nag", "", answers(`"ok":{"action":"`+action+`"}`), first.state()).failed(refusal)
		if runs != 2 {
			t.Errorf("%s: the handler ran %d times, want once a leg", action, runs)
		}
	}
}

func TestDeclineIsRemembered(t *testing.T) {
	h := newHarness(t, nil)
	var seen []string
	server.AddRawTool(h.Server, server.Tool{Name: "x"}, func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
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
	if got, want := strings.Join(seen, " "), "missing/missing declined/missing declined/accepted"; got != want {
		t.Errorf("the handler saw %q, want %q", got, want)
	}
}

func TestPushedRequestsFail(t *testing.T) {
	h := newHarness(t, nil)
	var failures []error
	server.AddRawTool(h.Server, server.Tool{Name: "x"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
		_, form := call.Elicit(ctx, &protocol.ElicitForm{})
		_, url := call.ElicitURL(ctx, &protocol.ElicitURL{})
		_, sample := call.CreateMessage(ctx, &protocol.CreateMessage{})
		_, roots := call.ListRoots(ctx)
		failures = []error{form, url, sample, roots}
		return server.Text("deleted"), nil
	})
	h.call("x", "").failed("nobody could be asked")
	for i, err := range failures {
		if _, ok := errors.AsType[*roundtrip.PushError](err); !ok {
			t.Errorf("push %d: error is %v, want a *roundtrip.PushError", i, err)
		}
	}
}
