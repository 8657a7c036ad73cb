package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

type confirmation struct {
	OK bool `json:"ok"`
}

type count struct {
	N int `json:"n"`
}

func outcome(result protocol.CallToolOutcome,
	err error) func(context.Context, *server.ToolCall) (toolOutcome, error) {
	return func(context.Context, *server.ToolCall) (toolOutcome, error) {
		return result, err
	}
}

// asksCount asks for a number and returns the outcome.
func asksCount(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
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

func TestHandlersMayReturnStateWithoutQuestions(t *testing.T) {
	h := newHarness(t, nil)
	later := func() *protocol.InputRequiredResult {
		return roundtrip.InputRequired(roundtrip.WithState(7))
	}
	h.tool("later", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		if n, ok := roundtrip.State[int](ctx); ok && n == 7 {
			return server.Text("done"), nil
		}
		return later(), nil
	})
	server.AddPrompt(h.Server, server.Prompt{Name: "later"},
		func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return later(), nil
		})
	first := h.call("later", "")
	first.asks()
	h.call("later", "", first.state()).text("done")
	prompt := h.send(protocol.MethodGetPrompt, `"name":"later"`)
	prompt.asks()
	prompt.state()
}

// The function askers registers a tool, a prompt and a resource, all of which return asks.
func askers(t *testing.T, asks *protocol.InputRequiredResult) *harness {
	t.Helper()
	h := newHarness(t, nil)
	h.tool("x", outcome(asks, nil))
	server.AddPrompt(h.Server, server.Prompt{Name: "x"},
		func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return asks, nil
		})
	server.AddResource(h.Server, server.Resource{URI: "x:", Name: "x"},
		func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return asks, nil
		})
	return h
}

var askingMethods = []func(h *harness) reply{
	func(h *harness) reply { return h.call("x", "") },
	func(h *harness) reply { return h.send(protocol.MethodGetPrompt, `"name":"x"`) },
	func(h *harness) reply { return h.send(protocol.MethodReadResource, `"uri":"x:"`) },
}

func TestQuestionsNeedTheirCapability(t *testing.T) {
	form := roundtrip.Elicit[count]("n", "How many?")
	url := roundtrip.ElicitURL("u", "Sign in", "https://example.com")
	sample := roundtrip.CreateMessage("s", &protocol.CreateMessage{
		MaxTokens: 1,
		Messages: []protocol.SamplingMessage{{Role: protocol.User,
			Content: []protocol.Content{&protocol.TextContent{Text: "hi"}}}},
		Tools: []protocol.Tool{{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}},
	})
	tests := []struct {
		name         string
		items        []roundtrip.Item
		capabilities string
		missing      string
	}{
		{"form to a client that declares nothing", []roundtrip.Item{form}, `{}`, `{"elicitation":{"form":{}}}`},
		{"form to a client with URL mode only", []roundtrip.Item{form},
			`{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{}}}`},
		{"URL to a client with form mode only", []roundtrip.Item{url}, `{"elicitation":{}}`,
			`{"elicitation":{"url":{}}}`},
		{"sampling", []roundtrip.Item{sample}, `{"elicitation":{},"roots":{}}`,
			`{"sampling":{"tools":{}}}`},
		{"tools to plain sampling", []roundtrip.Item{sample}, `{"sampling":{}}`,
			`{"sampling":{"tools":{}}}`},
		{"all that is missing in one error", []roundtrip.Item{form, url, roundtrip.ListRoots("r")},
			`{"elicitation":{}}`,
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

func TestQuestionsCarryNoNulls(t *testing.T) {
	h := askers(t, roundtrip.InputRequired(roundtrip.Elicit[count]("n", "How many?")))
	for _, send := range askingMethods {
		r := send(h)
		r.asks("n")
		wantNoPart(t, "null on the wire", r.raw, ":null")
	}
}

// A forged result is complete and asks for input at once, which embedding permits.
type forged struct {
	*protocol.CallToolResult
	InputRequests protocol.InputRequests
}

func TestForgedOutcomesAreBugs(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("x", outcome(&forged{CallToolResult: server.ErrorText("no")}, nil))
	h.call("x", "").refused(protocol.CodeInternalError)
	h.wantBug("forged")
}

func TestInvalidQuestionsAreBugs(t *testing.T) {
	for name, question := range map[string]protocol.InputRequest{
		"nil": nil, "typed nil": (*protocol.ElicitForm)(nil),
		"invalid schema": &protocol.ElicitForm{Message: "m", Schema: json.RawMessage(`{`)},
	} {
		t.Run(name, func(t *testing.T) {
			wantBugs(t, "k", protocol.InputRequests{{Key: "k", Request: question}})
		})
	}
	roots := &protocol.ListRoots{}
	wantBugs(t, "key", protocol.InputRequests{{Key: "", Request: roots}})
	twice := protocol.InputRequests{{Key: "k", Request: roots}, {Key: "k", Request: roots}}
	wantBugs(t, "key", twice)
}

// wantBugs checks that the questions are reported as a server bug.
func wantBugs(t *testing.T, word string, questions protocol.InputRequests) {
	t.Helper()
	h := askers(t, &protocol.InputRequiredResult{InputRequests: questions})
	for _, send := range askingMethods {
		send(h).refused(protocol.CodeInternalError)
	}
	h.wantBug(word)
}

func TestURLElicitationErrorsBecomeQuestions(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("x", outcome(nil, &protocol.URLElicitationRequiredError{
		Elicitations: []*protocol.ElicitURL{{Message: "Sign in", URL: "https://example.com/1",
			ElicitationID: "e1"}},
	}))
	r := h.call("x", "")
	r.asks("e1")
	if strings.Contains(r.raw, "-32042") || strings.Contains(r.raw, "elicitationId") {
		t.Errorf("what exists in 2025-11-25 only is on the wire: %s", r.raw)
	}
}

func TestInputRequiredWithoutInputIsABug(t *testing.T) {
	h := askers(t, roundtrip.InputRequired())
	for _, send := range askingMethods {
		send(h).refused(protocol.CodeInternalError)
	}
	h.wantBug("at least one")
}

func TestOutputSchemaDoesNotApplyToQuestions(t *testing.T) {
	h := newHarness(t, nil)
	schema := json.RawMessage(`{"type":"object","required":["n"]}`)
	server.AddRawTool(h.Server, server.Tool{Name: "x", OutputSchema: schema},
		outcome(roundtrip.InputRequired(roundtrip.Elicit[count]("n", "How many?")), nil))
	h.call("x", "").asks("n")
}

func TestURLElicitationErrorsKeepEachURL(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("x", outcome(nil, &protocol.URLElicitationRequiredError{
		Elicitations: []*protocol.ElicitURL{
			{Message: "one", URL: "https://example.com/1"},
			{Message: "two", URL: "https://example.com/2", ElicitationID: "url-elicitation-1"},
			{Message: "three", URL: "https://example.com/3", ElicitationID: "url-elicitation-1"},
		},
	}))
	r := h.call("x", "")
	r.asks("url-elicitation-1", "url-elicitation-2", "url-elicitation-3")
	if got := at(r.result, "inputRequests", "url-elicitation-1", "params",
		"url"); got != "https://example.com/2" {
		t.Errorf("the id that the author chose asks for %v", got)
	}
	h.tool("none", outcome(nil, &protocol.URLElicitationRequiredError{}))
	h.call("none", "").refused(protocol.CodeInternalError)
}

func TestCapabilityErrorsOfHandlersReachTheClient(t *testing.T) {
	h := newHarness(t, nil)
	missing := protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}
	h.tool("x", outcome(nil, protocol.MissingCapabilities(missing)))
	r := h.call("x", "")
	r.refused(protocol.CodeMissingRequiredClientCapability, "roots")
	if r.err != nil && string(r.err.Data) != `{"requiredCapabilities":{"roots":{}}}` {
		t.Errorf("data is %s", r.err.Data)
	}
}

func TestResourcesAndTypedToolsCanAsk(t *testing.T) {
	h := newHarness(t, nil)
	server.AddResource(h.Server, server.Resource{URI: "x:", Name: "x"},
		func(ctx context.Context, _ *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			if a, ok := roundtrip.AcceptedContent[confirmation](ctx, "ok"); ok && a.OK {
				return &protocol.ReadResourceResult{
					Contents: []protocol.ResourceContents{{Text: "secret"}}}, nil
			}
			return roundtrip.InputRequired(roundtrip.Elicit[confirmation]("ok", "Show it?")), nil
		})
	server.AddToolOut(h.Server, server.Tool{Name: "x"},
		func(ctx context.Context, _ *server.ToolCall, _ none) (count, error) {
			if a, ok := roundtrip.AcceptedContent[count](ctx, "n"); ok {
				return count{a.N * 2}, nil
			}
			return count{}, &server.InputRequiredError{
				Result: roundtrip.InputRequired(roundtrip.Elicit[count]("n", "How many?"))}
		})
	first := h.send(protocol.MethodReadResource, `"uri":"x:"`)
	first.asks("ok")
	second := h.send(protocol.MethodReadResource, `"uri":"x:",`+answers(`"ok":{"action":"accept","content":{"ok":true}}`)+","+first.state())
	if list, _ := second.result["contents"].([]any); len(list) != 1 ||
		at(list[0], "text") != "secret" || at(list[0], "uri") != "x:" {
		t.Errorf("result is %s", second.raw)
	}
	first = h.call("x", "")
	first.asks("n")
	second = h.call("x", "", answers(`"n":{"action":"accept","content":{"n":2}}`), first.state())
	second.text(`{"n":4}`)
	wantEqual(t, "n", at(second.result, "structuredContent", "n"), 4.0)
}

// A result that is returned although ErrPending was ignored is dropped.
func TestZeroOfATypedHandler(t *testing.T) {
	h := newHarness(t, nil)
	server.AddToolOut(h.Server, server.Tool{Name: "x"},
		func(ctx context.Context, _ *server.ToolCall, _ none) (count, error) {
			_, _ = roundtrip.Ask[count](ctx, "n", "How many?")
			return count{4711}, nil
		})
	first := h.call("x", "")
	first.asks("n")
	wantNoPart(t, "beside the question", first.raw, "4711")
	h.call("x", "", answers(`"n":{"action":"accept","content":{"n":2}}`), first.state()).text(
		`{"n":4711}`)
}

func TestNilOutcomes(t *testing.T) {
	for name, result := range map[string]protocol.CallToolOutcome{
		"nil": nil, "typed nil result": (*protocol.CallToolResult)(nil),
		"typed nil question": (*protocol.InputRequiredResult)(nil),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil)
			h.tool("x", outcome(result, nil))
			h.call("x", "").refused(protocol.CodeInternalError)
			h.wantBug("nil")
		})
	}
	h := newHarness(t, nil)
	h.tool("x", says("a", "b"))
	h.tool("typed nil error", outcome(nil, (*protocol.Error)(nil)))
	h.tool("nil block", outcome(&protocol.CallToolResult{Content: []protocol.Content{nil}}, nil))
	h.tool("empty", outcome(&protocol.CallToolResult{}, nil))
	server.AddToolOut(h.Server, server.Tool{Name: "asks nothing"},
		func(context.Context, *server.ToolCall, none) (count, error) {
			return count{}, &server.InputRequiredError{}
		})
	h.call("x", "").text("a")
	h.call("nil block", "").refused(protocol.CodeInternalError)
	h.wantBug("content[0]")
	h.call("asks nothing", "").refused(protocol.CodeInternalError)
	wantPart(t, "absent content is not an empty list", h.call("empty", "").raw, `"content":[]`)
	if r := h.call("typed nil error", ""); r.err == nil && r.result["isError"] != true {
		t.Errorf("a typed nil error became a success: %s", r.raw)
	}
}

// Questions of middleware would bypass the capability check and have no state.
func TestMiddlewareCannotAsk(t *testing.T) {
	drafted := roundtrip.InputRequired(roundtrip.Elicit[count]("n", "How many?"))
	built := &protocol.InputRequiredResult{InputRequests: drafted.InputRequests,
		RequestState: protocol.StateText("x")}
	for _, tc := range []struct {
		name         string
		capabilities string
		result       *protocol.InputRequiredResult
		bug          string
	}{
		{"drafted", allCapabilities, drafted, "not by middleware"},
		{"built by hand", `{}`, built, "does not support: elicitation.form"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t, &server.Options{
				Middleware: []server.Middleware{func(server.Handler) server.Handler {
					return func(context.Context, *server.Request) (protocol.Result,
						error) {
						return tc.result, nil
					}
				}}})
			h.tool("t", asksCount)
			h.capabilities = tc.capabilities
			h.call("t", "").refused(protocol.CodeInternalError)
			h.wantBug(tc.bug)
		})
	}
}

// In flow style the same question ends the call or is skipped, in every era; CanAsk tells which.
func TestOptionalQuestions(t *testing.T) {
	for _, optional := range []bool{false, true} {
		h := newHarness(t, nil)
		var can bool
		h.tool("t", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
			can = roundtrip.CanAsk(ctx, protocol.KindElicitForm)
			var opts []roundtrip.QuestionOption
			if optional {
				opts = append(opts, roundtrip.IfPossible())
			}
			answer, err := roundtrip.Ask[Reason](ctx, "sure", "Sure?", opts...)
			if _, cannot := errors.AsType[*roundtrip.PushError](err); cannot && optional {
				return server.Text("without"), nil
			}
			if err != nil {
				return nil, err
			}
			return server.Text("because " + answer.Reason), nil
		})
		unable := h.enter(protocol.V20251125, "{}").call("t", "{}")
		if can || optional && unable != "without" || !optional &&
			!strings.Contains(unable, "the client does not support: elicitation") {
			t.Errorf("optional %v, legacy, unable: got %q, can %v", optional, unable, can)
		}
		c := h.enter(protocol.V20251125, allCapabilities)
		c.answer = answerAll
		if got := c.call("t", "{}"); got != "because now" || !can {
			t.Errorf("optional %v, legacy: got %q, can %v", optional, got, can)
		}
		h.call("t", "{}").asks("sure")
		h.capabilities = "{}"
		if r := h.call("t", "{}"); optional {
			r.text("without")
		} else {
			r.refused(protocol.CodeMissingRequiredClientCapability)
		}
		if n := len(failedPushes(h.events)); optional && n != 2 || !optional && n != 0 {
			t.Errorf("optional %v: %d events", optional, n)
		}
	}
	if roundtrip.CanAsk(t.Context(), protocol.KindElicitForm) {
		t.Error("somebody can be asked outside of a handler")
	}
}

// URL errors of middleware bypass the handler, but reach the same user.
func TestURLErrorsOfMiddlewareAreChecked(t *testing.T) {
	link := ""
	h := newHarness(t, &server.Options{
		Roundtrip: roundtrip.Options{AllowURL: func(u *url.URL) error {
			if u.Hostname() == "blocked.example" {
				return errors.New("not on the list")
			}
			return nil
		}},
		Middleware: []server.Middleware{func(next server.Handler) server.Handler {
			return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
				if request.Message.Method != protocol.MethodCallTool {
					return next(ctx, request)
				}
				e, err := (&protocol.URLElicitationRequiredError{
					Elicitations: []*protocol.ElicitURL{
						{Message: "Sign in", URL: link, ElicitationID: "login"},
					}}).Legacy()
				return nil, errors.Join(err, e)
			}
		}},
	})
	h.tool("x", says("never"))
	c := h.enter(protocol.V20251125, allCapabilities)
	for _, tt := range []struct {
		name, link string
		code       int64
	}{
		{"another host", "https://id.example/", protocol.CodeURLElicitationRequired},
		{"this host", "http://127.0.0.1:8080/", protocol.CodeURLElicitationRequired},
		{"script", "javascript:alert(1)", protocol.CodeInternalError},
		{"blocked host", "https://blocked.example/", protocol.CodeInternalError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			link = tt.link
			r := c.request(protocol.MethodCallTool, `{"name":"x"}`)
			if r.Error == nil || r.Error.Code != tt.code {
				t.Fatalf("%s: got %v, %s, want %d", link, r.Error, r.Result, tt.code)
			}
			named := strings.Contains(r.Error.Message, `"login"`)
			if named != (tt.code == protocol.CodeInternalError) {
				t.Errorf("%s: the client gets %v", link, r.Error)
			}
		})
	}
	h.wantBug("not on the list")
}
