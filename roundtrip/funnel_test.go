package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// A forged result embeds a real one.
type forged struct{ *protocol.CallToolResult }

type forgedQuestion struct{ *protocol.ElicitForm }

// authorsError is an error that cannot be nil.
type authorsError struct{ text string }

func (e *authorsError) Error() string { return e.text }

type nested struct {
	Inner struct{ A string } `json:"inner"`
}

type secretive struct {
	Password string `json:"password"`
}

// TestServerBugs: the client gets an internal error, the observer a hint where to look.
func TestServerBugs(t *testing.T) {
	var noQuestion *protocol.CreateMessage
	form, mebibyte := elicit("k"), strings.Repeat("m", 1<<20)
	raw := func(schema string) roundtrip.Handler {
		return asks(roundtrip.ElicitSchema("k", "?", json.RawMessage(schema)))
	}
	changed := func(mod func(*protocol.InputRequiredResult)) roundtrip.Handler {
		return func(context.Context) (protocol.Result, error) {
			r := roundtrip.InputRequired(form)
			mod(r)
			return r, nil
		}
	}
	for _, tc := range []struct {
		name    string
		handler roundtrip.Handler
		want    string // separated by bars
	}{
		{"nil", returns(nil, nil), "nil or wrong result|<nil>"},
		{"typed nil", returns((*protocol.CallToolResult)(nil), nil), "*protocol.CallToolResult"},
		{"typed nil questions", returns((*protocol.InputRequiredResult)(nil), nil),
			"*protocol.InputRequiredResult"},
		{"forged", returns(forged{&protocol.CallToolResult{}}, nil), "roundtrip_test.forged"},
		{"result of another method", returns(&protocol.GetPromptResult{}, nil),
			"*protocol.GetPromptResult"},
		{"result of no method here", returns(&protocol.EmptyResult{}, nil),
			"*protocol.EmptyResult"},
		{"nothing asked", asks(), "at least one question or WithState"},
		{"nothing in a hand-built one", returns(&protocol.InputRequiredResult{}, nil),
			"at least one"},
		{"nil item", asks(form, nil), "nil item"},
		{"repeated key", asks(form, roundtrip.ListRoots("k")), `"k"|twice`},
		{"empty key", asks(roundtrip.ListRoots("")), "empty key"},
		{"key that is not UTF-8", asks(roundtrip.ListRoots("\xff")), "UTF-8"},
		{"zero question", asks(roundtrip.Question{}), "empty key"},
		{"CreateMessage(nil)", asks(roundtrip.CreateMessage("k", nil)), `"k"|nil request`},
		{"CreateMessage(typed nil)", asks(roundtrip.CreateMessage("k", noQuestion)),
			`"k"|nil request`},
		{"CreateMessage with junk", asks(roundtrip.CreateMessage("k",
			&protocol.CreateMessage{Messages: []protocol.SamplingMessage{{}}})), `"k"|role`},
		{"message is empty", asks(roundtrip.ElicitURL("k", "", "https://example.com/")),
			`"k"|message is empty`},
		{"message is blank", asks(elicit("l"), roundtrip.Elicit[struct{}]("k", " \n")),
			`"k"|message is empty`},
		{"message of a mebibyte", asks(elicit("l"), roundtrip.Elicit[struct{}]("k", mebibyte)),
			`"k"|1048576 bytes|limit of 65536`},
		{"hand-built with one", returns(&protocol.InputRequiredResult{
			InputRequests: protocol.InputRequests{{Key: "k",
				Request: &protocol.ElicitURL{Message: mebibyte, URL: "https://example.com/"}}}},
			nil), `"k"|1048576 bytes|limit of 65536`},
		{"flow style with one", func(ctx context.Context) (protocol.Result, error) {
			return nil, roundtrip.AskURL(ctx, "k", mebibyte, "https://example.com/")
		}, `"k"|1048576 bytes|limit of 65536`},
		{"URL is empty", asks(roundtrip.ElicitURL("k", "?", "")), `"k"|url`},
		{"inexpressible form", asks(roundtrip.Elicit[nested]("k", "?")), `"k"|"inner"`},
		{"form of no struct", asks(roundtrip.Elicit[[]string]("k", "?")), `"k"|struct`},
		{"secret", asks(roundtrip.Elicit[secretive]("k", "?")), `"k"|"password"|URL`},
		{"mistaken tag", asks(roundtrip.Elicit[mistaken]("k", "?")),
			`"k"|mistaken.Amount|minumum:"1"`},
		{"raw form that is no JSON", raw(`{`), `"k"|not valid`},
		{"raw form, keyword outside the grammar", raw(`{"type":"object","properties":{"a":{"type":"string","pattern":"x"}}}`), `"a"|"pattern"`},
		{"raw form, secret", raw(`{"type":"object","properties":{"apiKey":{"type":"string"}}}`), `"apiKey"|URL`},
		{"state that does not encode", asks(roundtrip.WithState(make(chan int))), "state"},
		{"hand-built with a nil question", returns(&protocol.InputRequiredResult{
			InputRequests: protocol.InputRequests{{Key: "k"}}}, nil), `"k"|nil`},
		{"hand-built with a forged question", returns(&protocol.InputRequiredResult{
			InputRequests: protocol.InputRequests{
				{Key: "k", Request: forgedQuestion{&protocol.ElicitForm{}}}}}, nil),
			`"k"|unknown type`},
		{"hand-built with a broken form", returns(&protocol.InputRequiredResult{
			InputRequests: protocol.InputRequests{
				{Key: "k", Request: &protocol.ElicitForm{Schema: json.RawMessage(`7`)}}}}, nil),
			`"k"|object`},
		{"hand-built with broken _meta", returns(&protocol.InputRequiredResult{
			InputRequests: protocol.InputRequests{
				{Key: "k", Request: &protocol.ListRoots{Meta: protocol.Meta(`[]`)}}}}, nil),
			`"k"|_meta`},
		{"changed: key repeated", changed(func(r *protocol.InputRequiredResult) {
			r.InputRequests = append(r.InputRequests, r.InputRequests[0])
		}), "twice"},
		{"changed: question taken out",
			changed(func(r *protocol.InputRequiredResult) { r.InputRequests[0].Request = nil }),
			"nil"},
		{"changed: nothing left",
			changed(func(r *protocol.InputRequiredResult) { r.InputRequests = nil }),
			"at least one"},
		{"-32042 by hand", returns(nil,
			protocol.Errorf(protocol.CodeURLElicitationRequired, "go there")), "-32042"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, v := range []protocol.Version{protocol.V20260728, protocol.V20250618} {
				c, h := serveAs(t, v, tc.handler)
				contains(t, c.bug(), strings.Split(tc.want, "|")...)
				if c.call.State != (protocol.RequestState{}) || h.traffic() > 0 {
					t.Errorf("%s: a state was sealed, or something was asked", v)
				}
			}
		})
	}
}

func TestBugEndsTheFlow(t *testing.T) {
	for name, fail := range map[string]roundtrip.Handler{
		"bug": returns(nil, nil), "error": returns(nil, errors.New("no")),
		"panic": func(context.Context) (protocol.Result, error) { panic("no") },
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, rounds(asks(elicit("k")), fail))
			_, _ = c.ask("k").answer("k", accepted).send()
			c.ended(words.EndFailed, 2)
		})
	}
}

// TestResultChangedAfterwards seals the questions really asked, and the state set on the result.
func TestResultChangedAfterwards(t *testing.T) {
	changed := roundtrip.InputRequired(elicit("a"), roundtrip.WithState("kept"))
	changed.InputRequests[0].Key = "b"
	changed.InputRequests = append(changed.InputRequests,
		protocol.KeyedRequest{Key: "c", Request: &protocol.ListRoots{}})
	own := roundtrip.InputRequired(elicit("b"))
	own.RequestState = protocol.StateText("mine")
	read := func(ctx context.Context) (protocol.Result, error) {
		state, _ := roundtrip.State[string](ctx)
		_, roots := roundtrip.Roots(ctx, "c")
		return say(fmt.Sprintf("%v %v %v %s", replyTo(ctx, "a").Outcome,
			replyTo(ctx, "b").Outcome, roots, state))
	}
	c := serve(t, rounds(returns(changed, nil), read)).ask("b", "c")
	c.answer("a", accepted, "b", accepted, "c", rooted).says("missing accepted true kept")

	c = serve(t, rounds(returns(own, nil), read)).ask("b")
	if text, _ := c.asked.RequestState.Text(); text == "mine" {
		t.Error("the state went out unsealed")
	}
	c.answer("b", declined).says("missing declined false mine")
}

// The form mistaken has a misspelled bound.
type mistaken struct {
	Amount int `json:"amount" minumum:"1"`
}

func TestMustQuestionPanics(t *testing.T) {
	for want, build := range map[string]func(){
		`"k"|"inner"`:    func() { roundtrip.MustQuestion[nested]("k") },
		`"k"|"password"`: func() { roundtrip.MustQuestion[secretive]("k") },
		`"k"|roundtrip_test.mistaken.Amount|minumum:"1"|minimum`: func() {
			roundtrip.MustQuestion[mistaken]("k")
		},
		"empty key": func() { roundtrip.MustQuestion[Confirmation]("") },
	} {
		t.Run(want, func(t *testing.T) {
			defer func() { contains(t, fmt.Sprint(recover()), strings.Split(want, "|")...) }()
			build()
		})
	}
}

func TestAllowSecrets(t *testing.T) {
	question := roundtrip.MustQuestion[secretive]("k", roundtrip.AllowSecrets())
	schema := json.RawMessage(`{"type":"object","properties":{"pin":{"type":"integer"}}}`)
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		if answer, ok := question.AcceptedContent(ctx); ok {
			return say(answer.Password + string(roundtrip.RawAnswer(ctx, "raw").Content))
		}
		return ask(question.Elicit("?"),
			roundtrip.ElicitSchema("raw", "?", schema, roundtrip.AllowSecrets()))
	})
	c.ask("k", "raw").answer("k", accept(`{"password":"x"}`), "raw", accept(`{"pin":1}`))
	c.says(`x{"pin":1}`)
	if _, err := roundtrip.Form[secretive](); err == nil {
		t.Error("Form lets a secret through")
	}
	if _, err := roundtrip.Form[secretive](roundtrip.AllowSecrets()); err != nil {
		t.Error(err)
	}
}

// TestOtherMethods: these may not ask, but otherwise pass. Their states and answers are ignored.
func TestOtherMethods(t *testing.T) {
	send := func(method string, handler roundtrip.Handler) *client {
		c := serve(t, handler)
		c.call.Method, c.call.State = method, protocol.StateText("junk")
		return c
	}
	for _, method := range []string{protocol.MethodListTools, protocol.MethodComplete,
		protocol.MethodDiscover, "x/unknown"} {
		contains(t, send(method, asks(roundtrip.ListRoots("k"))).bug(), method)
		contains(t, send(method, returns(nil, nil)).bug(), "nil")
	}
	send(protocol.MethodListTools, returns(nil, errors.New("no"))).fails(protocol.CodeHandlerError)
	c := send(protocol.MethodListTools, func(ctx context.Context) (protocol.Result, error) {
		if roundtrip.RoundOf(ctx).Number != 0 {
			t.Error("there is a round")
		}
		return &protocol.ListToolsResult{}, nil
	})
	if _, err := c.send(); err != nil {
		t.Error(err)
	}
}

// TestRoundsDoNotLeakInwards serves a list from within a round, like a server in the same process.
func TestRoundsDoNotLeakInwards(t *testing.T) {
	c := serve(t, nil)
	_, err := c.funnel.Do(t.Context(), toolCall(),
		func(ctx context.Context) (protocol.Result, error) {
			inner := toolCall()
			inner.Method = protocol.MethodListTools
			return c.funnel.Do(ctx, inner, func(ctx context.Context) (protocol.Result, error) {
				if n := roundtrip.RoundOf(ctx).Number; n != 0 {
					t.Errorf("the inner request is in round %d of the outer one", n)
				}
				return &protocol.ListToolsResult{}, nil
			})
		})
	if err == nil {
		t.Error("a list came out of a tool")
	}
}

// TestPanics: panics are recovered, reported with their stack, and hidden from the client.
func TestPanics(t *testing.T) {
	var nilError *authorsError
	var nilURLs *protocol.URLElicitationRequiredError
	var nilProtocol *protocol.Error
	for name, handler := range map[string]roundtrip.Handler{
		"handler":          func(context.Context) (protocol.Result, error) { panic("a secret") },
		"nil":              func(context.Context) (protocol.Result, error) { panic(nil) },
		"typed nil error":  returns(nil, nilError),
		"nil URL error":    returns(nil, nilURLs),
		"nil *Error":       returns(nil, nilProtocol),
		"nil *Error, wrap": returns(nil, errors.Join(nilProtocol, nilURLs)),
		"nested nil in ask": func(context.Context) (protocol.Result, error) {
			return ask(struct{ roundtrip.Item }{})
		},
	} {
		for _, method := range []string{protocol.MethodCallTool, protocol.MethodGetPrompt,
			protocol.MethodListTools} {
			t.Run(name+" "+method, func(t *testing.T) {
				c := serve(t, handler)
				c.call.Method = method
				if e := c.fails(protocol.CodeInternalError); e.Message != "internal error" ||
					e.Data != nil {
					t.Errorf("the client learns %q %s", e.Message, e.Data)
				}
				p := one[event.HandlerPanicked](t, c.events)
				if p.Value == nil || !strings.Contains(string(p.Stack), "roundtrip") ||
					p.Method != method {
					t.Errorf("event %+v", p)
				}
			})
		}
	}
}

func TestErrors(t *testing.T) {
	plain := errors.New("disk full")
	own := protocol.Errorf(4711, "mine").WithData(map[string]int{"n": 1})
	for _, tc := range []struct {
		name, method string
		err          error
		code         int64 // 0: a tool's error
		text         string
	}{
		{"tool, plain", protocol.MethodCallTool, plain, 0, "error: disk full"},
		{"prompt, plain", protocol.MethodGetPrompt, plain, protocol.CodeHandlerError, "disk full"},
		{"resource, plain", protocol.MethodReadResource, plain, protocol.CodeHandlerError,
			"disk full"},
		{"tool, own", protocol.MethodCallTool, own, 4711, "mine"},
		{"tool, own wrapped", protocol.MethodCallTool, fmt.Errorf("while: %w", own), 4711, "mine"},
		{"prompt, own", protocol.MethodGetPrompt, own, 4711, "mine"},
		{"resource not found, modern", protocol.MethodReadResource,
			protocol.ResourceNotFound("file:///x"), protocol.CodeInvalidParams, "file:///x"},
		{"resource not found, legacy", protocol.MethodReadResource,
			protocol.Errorf(protocol.CodeResourceNotFound, "gone"), protocol.CodeInvalidParams,
			"gone"},
		{"text that looks like a verb", protocol.MethodGetPrompt, errors.New("100%d"),
			protocol.CodeHandlerError, "100%d"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serve(t, returns(nil, tc.err))
			c.call.Method = tc.method
			if tc.code == 0 {
				c.says(tc.text)
				return
			}
			e := c.fails(tc.code)
			contains(t, e.Message, tc.text)
			if tc.code == 4711 && string(e.Data) != `{"n":1}` {
				t.Errorf("data %s", e.Data)
			}
		})
	}
	legacy := protocol.Errorf(protocol.CodeResourceNotFound, "gone")
	serve(t, returns(nil, legacy)).fails(protocol.CodeInvalidParams)
	if legacy.Code != protocol.CodeResourceNotFound || own.Code != 4711 {
		t.Error("the author's error was changed")
	}
}

func TestCheckOutput(t *testing.T) {
	check := func(structured json.RawMessage) error {
		if structured == nil {
			return errors.New("must be present")
		}
		return nil
	}
	for _, tc := range []struct {
		name    string
		handler roundtrip.Handler
		bug     bool
	}{
		{"fits", returns(&protocol.CallToolResult{StructuredContent: json.RawMessage(`{}`)}, nil),
			false},
		{"absent", returns(&protocol.CallToolResult{}, nil), true},
		{"error result", returns(&protocol.CallToolResult{IsError: true}, nil), false},
		{"plain error", returns(nil, errors.New("no")), false},
		{"questions", asks(roundtrip.ListRoots("k")), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serve(t, tc.handler)
			c.call.CheckOutput = check
			if tc.bug {
				contains(t, c.bug(), "structuredContent", "must be present")
			} else if _, err := c.send(); err != nil {
				t.Error(err)
			}
		})
	}
	c := serve(t, returns(&protocol.CallToolResult{}, nil))
	c.call.CheckOutput = func(json.RawMessage) error { panic("check") }
	c.fails(protocol.CodeInternalError)
	one[event.HandlerPanicked](t, c.events)
}

// TestHandBuilt returns a gateway's result: its upstream's questions and state.
func TestHandBuilt(t *testing.T) {
	upstream := &protocol.InputRequiredResult{
		InputRequests: protocol.InputRequests{
			{Key: "form", Request: &protocol.ElicitForm{Message: "?", Schema: json.RawMessage(
				`{"type":"object","properties":{"n":{"type":"integer"},"pin":{"type":"string","pattern":"^[0-9]+$"}},"additionalProperties":false}`)}},
			{Key: "roots", Request: &protocol.ListRoots{}},
		},
		RequestState: protocol.StateText("the upstream's"),
		Meta:         protocol.Meta(`{"a":1}`),
	}
	c := serve(t, rounds(returns(upstream, nil), func(ctx context.Context) (protocol.Result, error) {
		state, _ := roundtrip.State[string](ctx)
		form := roundtrip.RawAnswer(ctx, "form")
		_, roots := roundtrip.Roots(ctx, "roots")
		return say(fmt.Sprintf("%s %v %s %v", state, form.Outcome, form.Content, roots))
	}))
	asked := c.ask("form", "roots").asked
	text, _ := asked.RequestState.Text()
	if strings.Contains(text, "upstream") || string(asked.Meta) != `{"a":1}` {
		t.Errorf("state %q, _meta %s", text, asked.Meta)
	}
	retry := c.call
	c.answer("form", accept(`{"n":1,"pin":"12"}`), "roots", rooted)
	c.says(`the upstream's accepted {"n":1,"pin":"12"} true`)
	c.call = retry
	contains(t, c.answer("form", accept(`{"pin":"x"}`)).done(), "invalid")
	if text, _ := upstream.RequestState.Text(); text != "the upstream's" ||
		rpc.Attached(upstream) != nil {
		t.Error("the handler's result was changed")
	}
}

// TestGate asks questions for which the client lacks several capabilities. Nothing is sealed.
func TestGate(t *testing.T) {
	form, url := elicit("f"), roundtrip.ElicitURL("u", "?", "https://id.example")
	sample, roots := roundtrip.CreateMessage("s", &protocol.CreateMessage{}),
		roundtrip.ListRoots("r")
	for _, tc := range []struct {
		name, declared string
		items          []roundtrip.Item
		missing        string // "" if the question may be asked
	}{
		{"form to {}", `{"elicitation":{}}`, []roundtrip.Item{form}, ""},
		{"several, some missing", `{"elicitation":{},"roots":{}}`, []roundtrip.Item{form, sample, roots, url}, `{"elicitation":{"url":{}},"sampling":{}}`},
		{"state only", `{}`, []roundtrip.Item{roundtrip.WithState(1)}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sealed := false
			names := keys.EphemeralKeyring()
			sealer := &fakeSealer{seal: func(b []byte) (string, error) {
				sealed = true
				return names.Seal(t.Context(), b)
			}}
			c := newClient(t, roundtrip.Options{Sealer: sealer}, asks(tc.items...))
			declared, err := protocol.DecodeClientCapabilities([]byte(tc.declared))
			noError(t, err)
			c.call.Capabilities = declared
			if tc.missing == "" {
				if _, err := c.send(); err != nil || !sealed {
					t.Errorf("refused: %v, or not sealed", err)
				}
				return
			}
			e := c.fails(protocol.CodeMissingRequiredClientCapability)
			required, ok := e.RequiredCapabilities()
			want, _ := protocol.DecodeClientCapabilities([]byte(tc.missing))
			if !ok || required.String() != want.String() {
				t.Errorf("missing %s (%s), want %s", required, e.Data, want)
			}
			if sealed {
				t.Error("state was sealed for a question that is not asked")
			}
			if e := one[event.CapabilityRefused](t, c.events); e.Missing.String() != want.String() {
				t.Errorf("event %+v", e)
			}
		})
	}
}

// TestIncludeContext: the member is dropped, on a copy, for clients that do not declare it.
func TestIncludeContext(t *testing.T) {
	for _, tc := range []struct {
		name     string
		sampling protocol.SamplingCapability
		in, want string
	}{
		{"no context", protocol.SamplingCapability{}, "allServers", ""},
		{"tools without context", protocol.SamplingCapability{Tools: true}, "thisServer", ""},
		{"none", protocol.SamplingCapability{}, "none", "none"},
		{"context", protocol.SamplingCapability{Context: true}, "allServers", "allServers"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			request := &protocol.CreateMessage{IncludeContext: tc.in, SystemPrompt: "kept"}
			returned := roundtrip.InputRequired(roundtrip.CreateMessage("a", request),
				roundtrip.CreateMessage("b", request))
			c := serve(t, returns(returned, nil))
			c.call.Capabilities.Sampling = &tc.sampling
			for _, q := range c.ask("a", "b").asked.InputRequests {
				if got := q.Request.(*protocol.CreateMessage); got.IncludeContext != tc.want ||
					got.SystemPrompt != "kept" {
					t.Errorf("%+v: %s becomes %q, want %q", tc.sampling, tc.in, got.IncludeContext,
						tc.want)
				}
			}
			if request.IncludeContext != tc.in || returned.InputRequests[0].Request != request {
				t.Error("the author's request was changed")
			}
		})
	}
}

type ctxKey struct{}

func TestContext(t *testing.T) {
	observer := observeFunc(func(ctx context.Context, e event.Event) {
		if ctx.Value(ctxKey{}) != "value" {
			t.Errorf("the context of %T lacks the request's value", e)
		}
	})
	c := newClient(t, roundtrip.Options{Observer: observer}, nil)
	ctx := context.WithValue(t.Context(), ctxKey{}, "value")
	result, err := c.funnel.Do(ctx, toolCall(), func(ctx context.Context) (protocol.Result, error) {
		if ctx.Value(ctxKey{}) != "value" {
			t.Error("the handler's context lacks the request's value")
		}
		return ask(roundtrip.ListRoots("k"))
	})
	if err != nil {
		t.Fatal(result, err)
	}
}

// TestOneFunnelManyGoroutines: each goroutine has flows of its own.
func TestOneFunnelManyGoroutines(t *testing.T) {
	question := roundtrip.MustQuestion[Confirmation]("k")
	funnel, err := roundtrip.NewFunnel(&roundtrip.Options{Guard: store.NewMemoryGuard(0),
		Observer: &events{}})
	noError(t, err)
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() {
			handler := func(ctx context.Context) (protocol.Result, error) {
				var inner sync.WaitGroup
				for range 2 {
					inner.Go(func() { question.Answer(ctx) })
				}
				inner.Wait()
				if answer, ok := question.AcceptedContent(ctx); ok {
					state, _ := roundtrip.State[int](ctx)
					return say(fmt.Sprint(answer.Reason, state))
				}
				return ask(question.Elicit("?"), roundtrip.WithState(n))
			}
			call := toolCall()
			call.Arguments = json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))
			result, err := funnel.Do(t.Context(), call, handler)
			if err != nil {
				t.Error(err)
				return
			}
			call.State = result.(*protocol.InputRequiredResult).RequestState
			call.Responses = answers("k", form(fmt.Sprintf("r%d-", n)))
			result, err = funnel.Do(t.Context(), call, handler)
			if got, want := show(result), fmt.Sprintf("r%d-%d", n, n); err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
	wg.Wait()
}

// TestCallersDataStaysAsItIs compares the call's data after two legs.
func TestCallersDataStaysAsItIs(t *testing.T) {
	c := newClient(t, roundtrip.Options{RestartExpired: true}, consent)
	c.call.Arguments = json.RawMessage(` { "b" : 1.0, "a" : [ 2 ] } `)
	c.ask("k").answer("other", `null`, "k", ` {"content":{"reason" : "now"},"action":"accept"} `)
	arguments := slices.Clone(c.call.Arguments)
	before := fmt.Sprintf("%#v", c.call)
	c.done()
	if after := fmt.Sprintf("%#v", c.call); after != before ||
		string(arguments) != string(c.call.Arguments) {
		t.Errorf("the call was changed\n from %s\n to   %s", before, after)
	}
}

// TestAddedQuestionsKeepTheOthers: adding a question to a result in middleware changes no option of
// the first.
func TestAddedQuestionsKeepTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, func(context.Context) (protocol.Result, error) {
			asks := roundtrip.InputRequired(roundtrip.Elicit[Confirmation]("k",
				"?", roundtrip.AskAgain(), roundtrip.AnswerWithin(time.Minute)))
			asks.InputRequests = append(asks.InputRequests,
				protocol.KeyedRequest{Key: "added", Request: &protocol.ListRoots{}})
			return asks, nil
		})
		c.ask("k", "added")
		c.answer("k", declined, "added", `{"roots":[]}`).ask("k", "added") // not a refusal
		time.Sleep(time.Minute)
		frozen(t, c.answer("k", accepted, "added", `{"roots":[]}`), words.ReasonExpired)
	})
}
