//lint:file-ignore SA1019 sampling and roots are deprecated, and supported: they are to be tried for as long as they are

package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// What handlers of the SDK can return that is wrong, or comes out wrong, and
// what is sent instead. Each test is named for the defect it keeps away.

func TestStateAloneIsNoHollowSuccess(t *testing.T) {
	w := dialWire(t, single(t, asks(&mcp.CallToolResult{RequestState: "1"})))
	first := w.call("t", "")
	first.wantAsks()
	w.retry("t", first, "{}").wantText(`0 answers, state \"1\"`)
}

func TestStateAloneOfAPrompt(t *testing.T) {
	server := single(t, nil)
	server.AddPrompt(&mcp.Prompt{Name: "p"}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		if req.Params.RequestState == "1" {
			return promptText("done"), nil
		}
		return &mcp.GetPromptResult{RequestState: "1"}, nil
	})
	dialWire(t, server).send(protocol.MethodGetPrompt, `{"name":"p"}`).wantAsks()
}

func TestStateAloneOfATypedTool(t *testing.T) {
	type out struct{ Deleted bool }
	server := single(t, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "t"}, func(_ context.Context, req *toolRequest, _ map[string]any) (*mcp.CallToolResult, out, error) {
		if req.Params.RequestState == "1" {
			return nil, out{true}, nil
		}
		return &mcp.CallToolResult{RequestState: "1"}, out{}, nil
	})
	w := dialWire(t, server)
	first := w.call("t", "")
	first.wantAsks()
	if got := w.retry("t", first, "{}"); string(got.member("structuredContent")) != `{"Deleted":true}` {
		t.Errorf("got %s", got.body)
	}
}

// With the builder it does not matter either that the zero value of the output
// does not fit its own schema.
func TestBuilderOfATypedTool(t *testing.T) {
	type out struct {
		Names []string `json:"names"`
	}
	server := single(t, nil)
	schema := raw(`{"type":"object","properties":{"names":{"type":"array","minItems":1}},"required":["names"]}`)
	mcp.AddTool(server, &mcp.Tool{Name: "t", OutputSchema: schema}, func(ctx context.Context, _ *toolRequest, _ map[string]any) (*mcp.CallToolResult, out, error) {
		if roundtrip.RawAnswer(ctx, "q").Outcome == roundtrip.Accepted {
			return nil, out{[]string{"a"}}, nil
		}
		result, err := gosdk.CallToolResult(ctx, roundtrip.InputRequired(roundtrip.RawForm("q", "Sure?", raw(reasonForm))))
		return result, out{}, err
	})
	w := dialWire(t, server)
	first := w.call("t", "")
	first.wantAsks("q")
	if got := w.retry("t", first, `{"q":{"action":"accept","content":{"reason":"because"}}}`); string(got.member("structuredContent")) != `{"names":["a"]}` {
		t.Errorf("got %s", got.body)
	}
}

func TestMistakesOfHandlers(t *testing.T) {
	tests := map[string]*mcp.CallToolResult{
		"an empty map":             {InputRequests: mcp.InputRequestMap{}},
		"a failure that asks":      {IsError: true, InputRequests: mcp.InputRequestMap{"q": formQuestion()}},
		"a nil question":           {InputRequests: mcp.InputRequestMap{"q": nil}},
		"a nil form":               {InputRequests: mcp.InputRequestMap{"q": (*mcp.ElicitParams)(nil)}},
		"a form without schema":    {InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: "Sure?"}}},
		"a form with nested parts": {InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: "Sure?", RequestedSchema: raw(`{"type":"object","properties":{"a":{"type":"object"}}}`)}}},
		"what cannot be encoded":   {InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: "Sure?", RequestedSchema: func() {}}}},
		"nothing":                  nil,
	}
	for name, result := range tests {
		t.Run(name, func(t *testing.T) {
			var bugs observer
			server := single(t, asks(result), gosdk.WithFunnel(roundtrip.Options{Observer: &bugs}))
			dialWire(t, server).call("t", "").wantError(protocol.CodeInternalError, http.StatusOK)
			if bugs.count(func(e roundtrip.Event) bool { _, ok := e.(roundtrip.ServerBug); return ok }) != 1 {
				t.Errorf("the observer saw %v, want one mistake", bugs.all())
			}
			who := newPerson(t, nil)
			c, _ := routes()[4].open(t, server, who, false) // the SDK's client, in a session
			if got, err := c.do(within(t), "t"); err == nil || !strings.Contains(err.Error(), "internal error") {
				t.Errorf("in a session: got %q, %v", got, err)
			}
		})
	}
}

// The SDK itself refuses these, in both eras.
func TestContentThatAsks(t *testing.T) {
	both := &mcp.CallToolResult{Content: toolText("x").Content, InputRequests: mcp.InputRequestMap{"q": formQuestion()}}
	dialWire(t, single(t, asks(both))).call("t", "").wantError(protocol.CodeInternalError, http.StatusOK)
}

func TestCapabilityGate(t *testing.T) {
	sample := &mcp.CreateMessageWithToolsParams{MaxTokens: 1, Messages: []*mcp.SamplingMessageV2{}, Tools: []*mcp.Tool{{Name: "x", InputSchema: raw(`{"type":"object"}`)}}}
	tests := []struct {
		name, declared string
		asked          mcp.InputRequestMap
		missing        string
	}{
		{"form, nothing declared", `{}`, mcp.InputRequestMap{"q": formQuestion()}, `{"elicitation":{}}`},
		{"form, URLs only", `{"elicitation":{"url":{}}}`, mcp.InputRequestMap{"q": formQuestion()}, `{"elicitation":{"form":{}}}`},
		{"URL, forms only", `{"elicitation":{"form":{}}}`, mcp.InputRequestMap{"q": &mcp.ElicitParams{Mode: "url", Message: "m", URL: "https://example.com"}}, `{"elicitation":{"url":{}}}`},
		{"tools, sampling only", `{"sampling":{}}`, mcp.InputRequestMap{"q": sample}, `{"sampling":{"tools":{}}}`},
		{"all at once", `{}`, mcp.InputRequestMap{"a": formQuestion(), "b": &mcp.ListRootsParams{}}, `{"elicitation":{},"roots":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := dialWire(t, single(t, asks(&mcp.CallToolResult{InputRequests: tt.asked})))
			w.capabilities = tt.declared
			got := w.call("t", "")
			got.wantError(protocol.CodeMissingRequiredClientCapability, http.StatusBadRequest)
			var data struct{ RequiredCapabilities json.RawMessage }
			if got.Error != nil {
				_ = json.Unmarshal(got.Error.Data, &data)
			}
			if missing, err := protocol.DecodeClientCapabilities(data.RequiredCapabilities); err != nil || missing.IsZero() {
				t.Errorf("got %s, want %s", got.body, tt.missing)
			}
		})
	}
}

// On an event stream the status must have been decided before it begins.
func TestCapabilityGateOnAStream(t *testing.T) {
	endpoint, recorder := serve(t, gosdk.Handler(single(t, asks(&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}})), nil))
	w := &wire{t: t, endpoint: endpoint, client: &http.Client{Transport: recorder}, capabilities: "{}"}
	w.call("t", "").wantError(protocol.CodeMissingRequiredClientCapability, http.StatusBadRequest)
}

func TestURLErrorIsAQuestion(t *testing.T) {
	needs := func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
		return nil, mcp.URLElicitationRequiredError([]*mcp.ElicitParams{{Mode: "url", Message: "Sign in", URL: "https://example.com", ElicitationID: "in"}})
	}
	server := single(t, func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		if outcome := roundtrip.Visited(ctx, "in"); outcome != roundtrip.Missing {
			return toolText("visit " + outcome.String()), nil
		}
		return needs(ctx, req)
	})
	w := dialWire(t, server)
	first := w.call("t", "")
	first.wantAsks("in")
	w.retry("t", first, `{"in":{"action":"accept"}}`).wantText("visit accepted")

	c, _ := routes()[4].open(t, server, newPerson(t, nil), false)
	_, err := c.do(within(t), "t")
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != protocol.CodeURLElicitationRequired {
		t.Errorf("in a session: got %v, want code -32042", err)
	}
}

// A resource's questions say nothing about how long they may be kept.
func TestQuestionsOfAResource(t *testing.T) {
	for _, s := range styles() {
		t.Run(s.name, func(t *testing.T) {
			dialWire(t, serverOf(t, s)).send(protocol.MethodReadResource, `{"uri":"vault://codes"}`).
				onlyKey()
		})
	}
}

// What took an answer is for nobody else, and not for later: clients are known
// to keep what they may not.
func TestAnsweredResourceIsNotKept(t *testing.T) {
	read := func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		if _, err := gosdk.Elicit(ctx, req.Session, formQuestion()); err != nil {
			return nil, err
		}
		result := resourceText(req.Params.URI, "secret")
		result.Cacheable = mcp.Cacheable{TTLMs: 60_000, CacheScope: "public"}
		return result, nil
	}
	server := single(t, nil)
	server.AddResource(&mcp.Resource{Name: "r", URI: "vault://codes"}, read)
	w := dialWire(t, server)
	first := w.send(protocol.MethodReadResource, `{"uri":"vault://codes"}`)
	got := w.send(protocol.MethodReadResource, `{"uri":"vault://codes","inputResponses":`+accepts(first.onlyKey())+`,"requestState":`+string(first.member("requestState"))+`}`)
	if string(got.member("cacheScope")) != `"private"` || string(got.member("ttlMs")) != "0" {
		t.Errorf("got %s", got.body)
	}
	for _, revision := range []string{modern, legacy} {
		who := newPerson(t, map[string]string{"Sure?": `{"reason":"because"}`})
		c := sdkOver(t, server, who, revision)
		for range 2 {
			if got, err := c.do(within(t), "vault://codes"); err != nil || got != "secret" {
				t.Errorf("%s: got %q, %v", revision, got, err)
			}
		}
		who.wantAsked(2)
	}
}

func TestStateAloneOfAResource(t *testing.T) {
	read := func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		if n, _ := roundtrip.State[int](ctx); n == 1 {
			return resourceText(req.Params.URI, "done"), nil
		}
		if req.Params.URI == "state://returned" {
			return &mcp.ReadResourceResult{RequestState: "1"}, nil
		}
		return gosdk.ReadResourceResult(ctx, roundtrip.InputRequired(roundtrip.WithState(1)))
	}
	server := single(t, nil)
	server.AddResource(&mcp.Resource{Name: "r", URI: "state://built"}, read)
	server.AddResource(&mcp.Resource{Name: "r", URI: "state://returned"}, read)
	w := dialWire(t, server)
	w.send(protocol.MethodReadResource, `{"uri":"state://built"}`).wantAsks()
	// The SDK fails before middleware sees the state; the code is one that exists.
	w.send(protocol.MethodReadResource, `{"uri":"state://returned"}`).wantError(protocol.CodeHandlerError, http.StatusOK)
}

// Answers that a handler of the SDK gets to see are to questions that it asked,
// of the right kind, and fit the form.
func TestAnswersThatCount(t *testing.T) {
	server := single(t, func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		if answer, ok := req.Params.InputResponses["q"].(*mcp.ElicitResult); ok {
			text, _ := json.Marshal(answer)
			return toolText("saw " + string(text)), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}, nil
	})
	const good = `{"action":"accept","content":{"reason":"because"}}`
	tests := []struct{ name, answers, want string }{
		{"good", `{"q":` + good + `}`, `"action":"accept"`},
		{"declined", `{"q":{"action":"decline"}}`, `"action":"decline"`},
		{"declined with a form", `{"q":{"action":"decline","content":{"reason":"because"}}}`, `"action":"decline"}`},
		{"wrong type", `{"q":{"action":"accept","content":{"reason":1}}}`, ""},
		{"too short", `{"q":{"action":"accept","content":{"reason":"x"}}}`, ""},
		{"what was not asked for", `{"q":{"action":"accept","content":{"evil":true}}}`, ""},
		{"accepted without a form", `{"q":{"action":"accept"}}`, ""},
		{"another case beside", `{"q":{"action":"decline","Action":"accept"}}`, `"action":"decline"`},
		{"another case", `{"q":{"ACTION":"accept","content":{"reason":"because"}}}`, ""},
		{"unknown action", `{"q":{"action":"bogus"}}`, ""},
		{"another kind", `{"q":{"roots":[]}}`, ""},
		{"a member of another kind", `{"q":{"action":"accept","content":{"reason":"because"},"roots":[]}}`, `"action":"accept"`},
		{"wrapped", `{"q":{"method":"elicitation/create","result":` + good + `}}`, ""},
		{"null", `{"q":null}`, ""},
		{"an unknown key", `{"other":` + good + `}`, ""},
		{"an unknown key beside", `{"other":{"what":"ever"},"q":` + good + `}`, `"action":"accept"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := dialWire(t, server)
			got := w.retry("t", w.call("t", ""), tt.answers)
			if tt.want == "" {
				got.wantAsks("q")
				return
			}
			var content []struct{ Text string }
			if err := json.Unmarshal(got.member("content"), &content); err != nil || len(content) != 1 || !strings.Contains(content[0].Text, tt.want) {
				t.Errorf("got %s, want %s", got.body, tt.want)
			}
		})
	}
}

func TestRequestsThatCannotBeRead(t *testing.T) {
	w := dialWire(t, single(t, asks(&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}})))
	for name, rest := range map[string]string{
		"state of a number":      `,"requestState":1`,
		"answers in a list":      `,"inputResponses":[]`,
		"answers that are null":  `,"inputResponses":null`,
		"a state that is forged": `,"requestState":"forged"`,
		"an empty state":         `,"requestState":""`,
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.call("t", rest).wantError(protocol.CodeInvalidParams, http.StatusBadRequest)
		})
	}
	t.Run("answers twice", func(t *testing.T) {
		w.t = t
		w.call("t", `,"inputResponses":{"q":{"action":"decline"}},"inputResponses":{}`).wantError(protocol.CodeParseError, http.StatusBadRequest)
	})
}

// The way in which the SDK's documentation reads answers ends the process when
// somebody declines. Here it ends the request.
func TestPanicsOfHandlers(t *testing.T) {
	server := single(t, func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		if len(req.Params.InputResponses) == 0 {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}, nil
		}
		name := req.Params.InputResponses["q"].(*mcp.ElicitResult).Content["reason"].(string)
		return toolText(name), nil
	})
	w := dialWire(t, server)
	w.retry("t", w.call("t", ""), `{"q":{"action":"decline"}}`).wantError(protocol.CodeInternalError, http.StatusOK)
	w.retry("t", w.call("t", ""), `{"q":{"action":"accept","content":{"reason":"because"}}}`).wantText("because")
}

// Answers to what was not asked are no consent.
func TestForgedFirstShot(t *testing.T) {
	w := dialWire(t, single(t, asks(&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}})))
	w.call("t", `,"inputResponses":{"q":{"action":"accept","content":{"reason":"because"}}}`).wantAsks("q")
}

// States are of one call: of its arguments, its tool, its user.
func TestStateOfAnotherCall(t *testing.T) {
	server := serverOf(t, guarded())
	w := dialWire(t, server)
	first := w.call("deploy", "")
	const yes = `,"inputResponses":{"confirm":{"action":"accept","content":{"reason":"because"}}},"requestState":`
	other := w.send(protocol.MethodCallTool, `{"name":"deploy","arguments":{"env":"test"}`+yes+string(first.member("requestState"))+`}`)
	other.wantError(protocol.CodeInvalidParams, http.StatusBadRequest)
	if other.Error == nil || !strings.Contains(string(other.Error.Data), "invalid_request_state") {
		t.Errorf("got %s", other.body)
	}
	w.send(protocol.MethodCallTool, `{"name":"fail","arguments":{"env":"prod"}`+yes+string(first.member("requestState"))+`}`).
		wantError(protocol.CodeInvalidParams, http.StatusBadRequest)
	w.send(protocol.MethodCallTool, `{"name":"deploy","arguments":{"env":"prod"}`+yes+string(first.member("requestState"))+`}`).
		wantText("done: because")
}

// A person who has declined is not asked again.
func TestNoNagging(t *testing.T) {
	server := single(t, func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		if answer, ok := req.Params.InputResponses["q"].(*mcp.ElicitResult); ok && answer.Action == "accept" {
			return toolText("done"), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}, nil
	})
	w := dialWire(t, server)
	got := w.retry("t", w.call("t", ""), `{"q":{"action":"decline"}}`)
	if got.wantText("declined: q"); string(got.member("isError")) != "true" {
		t.Errorf("got %s", got.body)
	}
}

// A handler that never has enough comes to an end.
func TestRoundCap(t *testing.T) {
	for _, s := range []string{modern, legacy} {
		t.Run(s, func(t *testing.T) {
			runs := 0
			server := single(t, func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
				runs++
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}, nil
			}, gosdk.WithFunnel(roundtrip.Options{MaxRounds: 3}))
			who := newPerson(t, map[string]string{"Sure?": `{"reason":"because"}`})
			c := sdkOver(t, server, who, s)
			if got, err := c.do(within(t), "t"); err != nil || !strings.Contains(got, "gave up after 3 rounds") {
				t.Errorf("got %q, %v", got, err)
			}
			who.wantAsked(3)
		})
	}
}

func TestErrorsOfHandlers(t *testing.T) {
	plain := errors.New("the disk is full")
	w := dialWire(t, single(t, func(context.Context, *toolRequest) (*mcp.CallToolResult, error) { return nil, plain }))
	if got := w.call("t", ""); string(got.member("isError")) != "true" || !strings.Contains(string(got.member("content")), "disk") {
		t.Errorf("got %s", got.body)
	}
	w.call("nowhere", "").wantError(protocol.CodeInvalidParams, http.StatusBadRequest)
	own := &protocol.Error{Code: 4711, Message: "own", Data: raw(`{"a":1}`)}
	server := single(t, func(context.Context, *toolRequest) (*mcp.CallToolResult, error) { return nil, own })
	if got := dialWire(t, server).call("t", ""); got.Error == nil || got.Error.Code != 4711 || string(got.Error.Data) != `{"a":1}` {
		t.Errorf("got %s", got.body)
	}
}

// The error that a typed tool returns is the one that the client gets, where
// the handler has chosen it.
func TestErrorsOfTypedTools(t *testing.T) {
	server := single(t, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "t"}, func(ctx context.Context, _ *toolRequest, _ map[string]any) (*mcp.CallToolResult, any, error) {
		if roundtrip.Visited(ctx, "in") == roundtrip.Accepted {
			return nil, nil, &protocol.Error{Code: 4711, Message: "own"}
		}
		return nil, nil, &protocol.URLElicitationRequiredError{Elicitations: []*protocol.ElicitURL{
			{Message: "Sign in", URL: "https://example.com", ElicitationID: "in"}}}
	})
	w := dialWire(t, server)
	first := w.call("t", "")
	first.wantAsks("in")
	if got := w.retry("t", first, `{"in":{"action":"accept"}}`); got.Error == nil || got.Error.Code != 4711 {
		t.Errorf("got %s", got.body)
	}
}
