package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

type serverBug = event.ServerBug

// returns registers a tool, a prompt and a resource whose handlers all return the same.
func returns(build func() (*protocol.InputRequiredResult, error)) func(*server.Server) {
	return func(srv *server.Server) {
		server.AddRawTool(srv, server.Tool{Name: "x"},
			func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
				return outcome[protocol.CallToolOutcome](build())
			})
		server.AddToolOut(srv, server.Tool{Name: "typed"},
			func(context.Context, *server.ToolCall, struct{}) (database, error) {
				asks, err := build()
				if err == nil {
					err = &server.InputRequiredError{Result: asks}
				}
				return database{Region: "nowhere"}, err
			})
		server.AddPrompt(srv, server.Prompt{Name: "x"},
			func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
				return outcome[protocol.GetPromptOutcome](build())
			})
		server.AddResource(srv, server.Resource{URI: "test:x", Name: "x"},
			func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
				return outcome[protocol.ReadResourceOutcome](build())
			})
	}
}

func outcome[O protocol.Result](asks *protocol.InputRequiredResult, err error) (O, error) {
	if err != nil {
		var none O
		return none, err
	}
	return protocol.Result(asks).(O), nil
}

func asking(items ...roundtrip.Item) func() (*protocol.InputRequiredResult, error) {
	return func() (*protocol.InputRequiredResult, error) {
		return roundtrip.InputRequired(items...),
			nil
	}
}

// styles are requests to what returns registers.
var styles = []struct {
	name string
	leg  leg
}{
	{"tool", leg{target: "x"}},
	{"typed tool", leg{target: "typed"}},
	{"prompt", leg{method: "prompts/get", target: "x"}},
	{"resource", leg{method: "resources/read", target: "test:x"}},
}

func eachStyle(t *testing.T, build func() (*protocol.InputRequiredResult, error),
	check func(*testing.T, *wire, leg)) {
	for _, s := range styles {
		t.Run(s.name, func(t *testing.T) { check(t, newWire(t, returns(build)), s.leg) })
	}
}

// TestStateOnlyResultIsNotComplete guards against a defect of another implementation: a result with
// a state and no question went out as complete, with empty content.
func TestStateOnlyResultIsNotComplete(t *testing.T) {
	eachStyle(t, asking(roundtrip.WithState(1)),
		func(t *testing.T, w *wire, l leg) { w.send(l).wantAsked() })
}

// TestTypedStateOnlyResultHasNoStructuredContent guards against a defect of another implementation:
// a typed tool's state-only result became complete with structured content of zero values.
func TestTypedStateOnlyResultHasNoStructuredContent(t *testing.T) {
	w := newWire(t, returns(asking(roundtrip.WithState(1))))
	if r := w.send(leg{target: "typed"}).wantAsked(); r.result["structuredContent"] != nil ||
		r.result["content"] != nil {
		t.Errorf("got %s", r.body)
	}
}

// TestStateOnlyResultIsRetriedUntilReady guards against a defect of another implementation: a
// handler that only asked to come back was answered with an internal error, "server is busy".
func TestStateOnlyResultIsRetriedUntilReady(t *testing.T) {
	w := newWire(t, nil)
	r := w.send(leg{target: "poll"}).wantAsked()
	for range 2 {
		r = w.send(leg{target: "poll", more: `"requestState":` + string(r.result["requestState"])})
	}
	r.wantText("ready")
}

// TestResourceAnswersWithStateOnly guards against a defect of another implementation: a resource's
// state-only result became an error with code 0.
func TestResourceAnswersWithStateOnly(t *testing.T) {
	w := newWire(t, returns(asking(roundtrip.WithState("here"))))
	w.send(leg{method: "resources/read", target: "test:x"}).wantAsked()
}

// TestEmptyQuestionsAreAServerBug guards against a defect of another implementation: an empty map
// of questions without a state went out as input_required with neither.
func TestEmptyQuestionsAreAServerBug(t *testing.T) {
	for name, empty := range map[string]*protocol.InputRequiredResult{
		"nil": {}, "empty": {InputRequests: protocol.InputRequests{}},
	} {
		t.Run(name, func(t *testing.T) {
			build := func() (*protocol.InputRequiredResult, error) { return empty, nil }
			eachStyle(t, build, func(t *testing.T, w *wire,
				l leg) {
				w.wantBug(w.send(l), "at least one")
			})
		})
	}
}

// TestInputRequiredOfNothingIsAServerBug guards against a defect of another implementation: the
// builder, given nothing, made an input_required result with neither questions nor state.
func TestInputRequiredOfNothingIsAServerBug(t *testing.T) {
	eachStyle(t, asking(), func(t *testing.T, w *wire,
		l leg) {
		w.wantBug(w.send(l), "at least one")
	})
}

// TestQuestionsRequireDeclaredCapabilities guards against a defect of another implementation:
// questions went out to clients that had not declared that they can be asked them.
func TestQuestionsRequireDeclaredCapabilities(t *testing.T) {
	tools := servertest.Sampling()
	tools.ToolChoice = &protocol.ToolChoice{Mode: "auto"}
	form := roundtrip.Elicit[confirmation]("q", "?")
	url := roundtrip.ElicitURL("q", "?", "https://example.com/")
	for _, test := range []struct {
		name     string
		question roundtrip.Question
		caps     string
		want     string // the capabilities that are missing, empty when the question may be asked
	}{
		{"form to nothing", form, `{}`, `{"elicitation":{"form":{}}}`},
		{"form to url", form, `{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{}}}`},
		{"form to empty", form, `{"elicitation":{}}`, ``},
		{"form to both", form, `{"elicitation":{"form":{},"url":{}}}`, ``},
		{"url to nothing", url, `{}`, `{"elicitation":{"url":{}}}`},
		{"url to form", url, `{"elicitation":{"form":{}}}`, `{"elicitation":{"url":{}}}`},
		{"url to empty", url, `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`},
		{"sampling to nothing", roundtrip.CreateMessage("q", servertest.Sampling()), `{}`,
			`{"sampling":{}}`},
		{"sampling", roundtrip.CreateMessage("q", servertest.Sampling()), `{"sampling":{}}`, ``},
		{"tools to sampling", roundtrip.CreateMessage("q", tools), `{"sampling":{}}`,
			`{"sampling":{"tools":{}}}`},
		{"roots to nothing", roundtrip.ListRoots("q"), `{}`, `{"roots":{}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachStyle(t, asking(test.question), func(t *testing.T, w *wire, l leg) {
				l.caps = test.caps
				r := w.send(l)
				if test.want == "" {
					r.wantAsked("q")
					return
				}
				r.wantError(http.StatusBadRequest, protocol.CodeMissingRequiredClientCapability)
				if want := `{"requiredCapabilities":` + test.want + `}`; r.err != nil &&
					string(r.err.Data) != want {
					t.Errorf("got data %s, want %s", r.err.Data, want)
				}
			})
		})
	}
	t.Run("all at once", func(t *testing.T) {
		r := newWire(t, nil).send(leg{target: "survey", caps: `{"roots":{}}`}).wantError(
			http.StatusBadRequest, protocol.CodeMissingRequiredClientCapability)
		want := `{"requiredCapabilities":{"elicitation":{"form":{},"url":{}},"sampling":{}}}`
		if r.err != nil && string(r.err.Data) != want {
			t.Errorf("got data %s, want %s", r.err.Data, want)
		}
	})
}

// TestCapabilitiesAreCheckedOnEachRetry guards against a defect of another implementation: no gate
// for forms, URLs and sampling.
func TestCapabilitiesAreCheckedOnEachRetry(t *testing.T) {
	w := newWire(t, nil)
	asked := w.send(leg{target: "wizard"}).wantAsked("region")
	// The retry declares less than the first leg did: the next question may not be asked.
	w.send(leg{target: "wizard", caps: `{"roots":{}}`, more: asked.answered(`{"region":{"action":"accept","content":{"name":"eu"}}}`)}).
		wantError(http.StatusBadRequest, protocol.CodeMissingRequiredClientCapability)
	for target, caps := range map[string]string{
		"deploy": `{"elicitation":{"url":{}}}`, "sign_in": `{"elicitation":{}}`,
		"summarize": `{"elicitation":{}}`, "tidy": `{"sampling":{}}`,
	} {
		t.Run(target, func(t *testing.T) {
			w.t = t
			w.send(leg{target: target, caps: caps, args: `{"env":"x"}`}).wantError(
				http.StatusBadRequest, protocol.CodeMissingRequiredClientCapability)
		})
	}
	if asked := seen[event.InputRequested](w.watch); len(asked) != 1 {
		t.Errorf("%d rounds of questions went out, want 1", len(asked))
	}
}

// TestHandlersMayNameMissingCapabilities guards against a defect of another implementation: a
// handler that said which capability it lacks gave an internal error with status 200 and without
// data.
func TestHandlersMayNameMissingCapabilities(t *testing.T) {
	build := func() (*protocol.InputRequiredResult, error) {
		return nil, protocol.MissingCapabilities(
			protocol.ClientCapabilities{Sampling: &protocol.SamplingCapability{}})
	}
	eachStyle(t, build, func(t *testing.T, w *wire, l leg) {
		r := w.send(l).wantError(http.StatusBadRequest,
			protocol.CodeMissingRequiredClientCapability)
		if want := `{"requiredCapabilities":{"sampling":{}}}`; r.err != nil && string(r.err.Data) != want {
			t.Errorf("got data %s, want %s", r.err.Data, want)
		}
	})
	t.Run("needs", func(t *testing.T) {
		w := newWire(t, func(srv *server.Server) {
			needs := protocol.ClientCapabilities{Sampling: &protocol.SamplingCapability{},
				Roots: &protocol.RootsCapability{}}
			server.AddRawTool(srv, server.Tool{Name: "needy", Needs: needs},
				func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
					return server.Text("ran"), nil
				})
		})
		w.send(leg{target: "needy", caps: `{"sampling":{}}`}).wantError(http.StatusBadRequest,
			protocol.CodeMissingRequiredClientCapability)
		w.send(leg{target: "needy", caps: `{"sampling":{},"roots":{}}`}).wantText("ran")
	})
}

// TestQuestionsHaveNoContentMembersBesideThem guards against a defect of another implementation:
// content, messages or contents, as null, stood in every result that required input.
func TestQuestionsHaveNoContentMembersBesideThem(t *testing.T) {
	eachStyle(t, asking(roundtrip.ListRoots("q")), func(t *testing.T, w *wire, l leg) {
		r := w.send(l).wantAsked("q") // which has looked at the members
		for _, name := range []string{"content", "structuredContent", "messages", "contents",
			"isError"} {
			if r.result[name] != nil {
				t.Errorf("got %s", r.body)
			}
		}
	})
}

// TestTypedValueIsNotSentBesideQuestions guards against a defect of another implementation: content
// and structured content stood beside questions.
func TestTypedValueIsNotSentBesideQuestions(t *testing.T) {
	w := newWire(t, returns(asking(roundtrip.ListRoots("q"))))
	r := w.send(leg{target: "typed"}).wantAsked("q") // its handler returns a value as well
	if strings.Contains(string(r.body), "nowhere") {
		t.Errorf("got %s", r.body)
	}
}

// TestErrorFlagBesideQuestionsIsAServerBug guards against a defect of another implementation:
// isError stood beside questions. Here no value says both; one that is forged by embedding is a
// bug.
func TestErrorFlagBesideQuestionsIsAServerBug(t *testing.T) {
	type forged struct {
		*protocol.CallToolResult
		InputRequests protocol.InputRequests
	}
	w := newWire(t, func(srv *server.Server) {
		server.AddRawTool(srv, server.Tool{Name: "forged"},
			func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
				return forged{server.ErrorText("no"),
					protocol.InputRequests{{Key: "q", Request: &protocol.ListRoots{}}}}, nil
			})
	})
	w.wantBug(w.send(leg{target: "forged"}), "wrong result")
}

// TestQuestionsHaveNoCacheHintsBesideThem guards against a defect of another implementation: a
// resource that asked was cacheable, by everybody.
func TestQuestionsHaveNoCacheHintsBesideThem(t *testing.T) {
	r := newWire(t, nil).send(leg{method: "resources/read",
		target: "vault://codes"}).wantAsked("confirm")
	if r.result["ttlMs"] != nil || r.result["cacheScope"] != nil {
		t.Errorf("got %s", r.body)
	}
}

// TestHandBuiltQuestionsHaveAResultType guards against a defect of another implementation:
// questions that a handler had filled in without saying so went out with resultType complete.
func TestHandBuiltQuestionsHaveAResultType(t *testing.T) {
	build := func() (*protocol.InputRequiredResult, error) {
		return &protocol.InputRequiredResult{InputRequests: protocol.InputRequests{{Key: "q",
			Request: &protocol.ListRoots{}}}}, nil
	}
	eachStyle(t, build, func(t *testing.T, w *wire, l leg) { w.send(l).wantAsked("q") })
}

// TestUnencodableQuestionsAreAServerBug guards against a defect of another implementation: a
// question that could not be encoded left the request without a response until the client gave up.
func TestUnencodableQuestionsAreAServerBug(t *testing.T) {
	for _, test := range []struct {
		name    string
		request protocol.InputRequest
	}{
		{"nil", nil},
		{"typed nil form", (*protocol.ElicitForm)(nil)},
		{"typed nil url", (*protocol.ElicitURL)(nil)},
		{"typed nil sampling", (*protocol.CreateMessage)(nil)},
		{"typed nil roots", (*protocol.ListRoots)(nil)},
		{"form without schema", &protocol.ElicitForm{Message: "?"}},
		{"form with half a schema", &protocol.ElicitForm{Message: "?", Schema: raw(`{"type":`)}},
		{"form with a list as schema", &protocol.ElicitForm{Message: "?", Schema: raw(`[]`)}},
		{"url without url", &protocol.ElicitURL{Message: "?"}},
		{"nil block", &protocol.CreateMessage{MaxTokens: 1,
			Messages: []protocol.SamplingMessage{{Role: protocol.User,
				Content: []protocol.Content{nil}}}}},
		{"no role", &protocol.CreateMessage{MaxTokens: 1,
			Messages: []protocol.SamplingMessage{
				{Content: []protocol.Content{&protocol.TextContent{}}}}}},
		{"half an object as metadata",
			&protocol.CreateMessage{MaxTokens: 1, Metadata: raw(`{"a"`)}},
		{"_meta is a list", &protocol.ListRoots{Meta: protocol.Meta(`[]`)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			build := func() (*protocol.InputRequiredResult, error) {
				return &protocol.InputRequiredResult{
					InputRequests: protocol.InputRequests{{Key: "c", Request: test.request}}}, nil
			}
			eachStyle(t, build, func(t *testing.T, w *wire, l leg) { w.wantBug(w.send(l), "") })
		})
	}
}

// TestInvalidEntriesAreAServerBug guards against a defect of another implementation: an invalid
// entry gave HTTP 200 with an empty body.
func TestInvalidEntriesAreAServerBug(t *testing.T) {
	for name, requests := range map[string]protocol.InputRequests{
		"empty key": {{Key: "", Request: &protocol.ListRoots{}}},
		"twice": {{Key: "a", Request: &protocol.ListRoots{}},
			{Key: "a", Request: &protocol.ListRoots{}}},
		"not UTF-8":   {{Key: "\xff", Request: &protocol.ListRoots{}}},
		"nil":         {{Key: "a"}},
		"one is nil":  {{Key: "a", Request: &protocol.ListRoots{}}, {Key: "b"}},
		"bad grammar": {{Key: "a", Request: &protocol.ElicitForm{Message: "?", Schema: raw(`{"type":"object","properties":{"a":{"type":"object"}}}`)}}},
	} {
		t.Run(name, func(t *testing.T) {
			build := func() (*protocol.InputRequiredResult, error) {
				return &protocol.InputRequiredResult{InputRequests: requests}, nil
			}
			eachStyle(t, build, func(t *testing.T, w *wire, l leg) { w.wantBug(w.send(l), "") })
		})
	}
}

// TestURLErrorBecomesQuestions guards against a defect of another implementation: a handler's URL
// elicitation error left as -32042, which does not exist in this revision.
func TestURLErrorBecomesQuestions(t *testing.T) {
	build := func() (*protocol.InputRequiredResult, error) {
		return nil, &protocol.URLElicitationRequiredError{Elicitations: []*protocol.ElicitURL{
			{Message: "Sign in", URL: "https://example.com/a", ElicitationID: "login"}}}
	}
	eachStyle(t, build, func(t *testing.T, w *wire, l leg) {
		r := w.send(l).wantAsked("login")
		if strings.Contains(string(r.body), "elicitationId") ||
			strings.Contains(string(r.body), "-32042") {
			t.Errorf("got %s", r.body)
		}
	})
	t.Run("the code itself", func(t *testing.T) {
		build := func() (*protocol.InputRequiredResult, error) {
			return nil, protocol.Errorf(protocol.CodeURLElicitationRequired, "go there")
		}
		eachStyle(t, build, func(t *testing.T, w *wire, l leg) { w.wantBug(w.send(l), "-32042") })
	})
}

// TestURLErrorKeepsItsElicitations guards against a defect of another implementation: a URL
// elicitation error became an internal error, and its elicitations were lost.
func TestURLErrorKeepsItsElicitations(t *testing.T) {
	elicit := func(ids ...string) error {
		e := &protocol.URLElicitationRequiredError{}
		for _, id := range ids {
			e.Elicitations = append(e.Elicitations,
				&protocol.ElicitURL{Message: "Visit", URL: "https://example.com/?id=" + id,
					ElicitationID: id})
		}
		return e
	}
	for _, test := range []struct {
		name string
		err  error
		keys []string
	}{
		{"two", elicit("a", "b"), []string{"a", "b"}},
		{"wrapped", errors.Join(errors.New("not yet"), elicit("a")), []string{"a"}},
		{"same id", elicit("a", "a"), []string{"a", "url-elicitation-2"}},
		{"no id", elicit("", ""), []string{"url-elicitation-1", "url-elicitation-2"}},
		{"fallback is taken", elicit("", "url-elicitation-1"),
			[]string{"url-elicitation-1", "url-elicitation-2"}},
		{"prototype", elicit("__proto__"), []string{"__proto__"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			build := func() (*protocol.InputRequiredResult, error) { return nil, test.err }
			eachStyle(t, build, func(t *testing.T, w *wire,
				l leg) {
				w.send(l).wantAsked(test.keys...)
			})
		})
	}
	t.Run("none", func(t *testing.T) {
		build := func() (*protocol.InputRequiredResult, error) { return nil, elicit() }
		eachStyle(t, build, func(t *testing.T, w *wire,
			l leg) {
			w.wantBug(w.send(l), "without elicitations")
		})
	})
}

// TestURLQuestionsNeedNoElicitationID guards against a defect of another implementation: handlers
// of URL questions that were written once failed for want of an elicitationId, which this revision
// has not.
func TestURLQuestionsNeedNoElicitationID(t *testing.T) {
	w := newWire(t, nil)
	r := w.answers(leg{target: "sign_in"},
		`{"login":{"action":"accept"}}`).wantText("visit accepted")
	if strings.Contains(string(r.body), "elicitationId") {
		t.Errorf("got %s", r.body)
	}
}

// TestResourcesAndTypedToolsCanAsk guards against a defect of another implementation: handlers of
// resources, and typed handlers of tools, had no way to ask.
func TestResourcesAndTypedToolsCanAsk(t *testing.T) {
	w := newWire(t, nil)
	yes := `{"confirm":{"action":"accept","content":{"reason":"because"}}}`
	for _, uri := range []string{"vault://codes", "vault://box/7"} {
		r := w.answers(leg{method: "resources/read", target: uri}, yes)
		if !strings.Contains(string(r.result["contents"]), `"opened: because"`) {
			t.Errorf("got %s", r.body)
		}
	}
	r := w.answers(leg{target: "provision"}, `{"region":{"action":"accept","content":{"name":"eu"}}}`)
	if want := `{"region":"eu","cores":2}`; string(r.result["structuredContent"]) != want {
		t.Errorf("got %s, want %s", r.body, want)
	}
}

// TestPanicIsAnsweredAndKeepsTheConnection guards against a defect of another implementation: a
// panic closed the connection without a response.
func TestPanicIsAnsweredAndKeepsTheConnection(t *testing.T) {
	type key struct{}
	build := func() (*protocol.InputRequiredResult, error) { panic(key{}) }
	eachStyle(t, build, func(t *testing.T, w *wire, l leg) {
		w.send(l).wantError(http.StatusOK, protocol.CodeInternalError)
		if panicked := seen[event.HandlerPanicked](w.watch); len(panicked) != 1 ||
			panicked[0].Value != (key{}) || len(panicked[0].Stack) == 0 {
			t.Errorf("got events %+v", panicked)
		}
		// The connection lives, too.
		reused := false
		trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
			reused = info.Reused
		}}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace),
			http.MethodPut, w.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := w.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if !reused || resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("connection used again: %t, status %d", reused, resp.StatusCode)
		}
	})
}
