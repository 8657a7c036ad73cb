package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// wantUnusable holds an error against what a client says of a response that is none.
func wantUnusable(t testing.TB, err error) {
	t.Helper()
	if _, ok := errors.AsType[*client.ResponseError](err); !ok {
		t.Errorf("got %v, want a ResponseError", err)
	}
}

// Defect: a question that is null killed the client.
func TestG24NullQuestion(t *testing.T) {
	for _, questions := range []string{
		`{"c":null}`, `{"c":{}}`, `{"c":[]}`, `{"c":"x"}`, `{"c":{"method":null}}`, `{"c":{"method":"elicitation/create"}}`,
		`{"c":{"method":"elicitation/create","params":null}}`, `{"c":{"method":"elicitation/create","params":{}}}`,
		`{"c":{"method":"elicitation/create","params":{"message":"?","requestedSchema":null}}}`,
		`{"c":{"method":"sampling/createMessage","params":{"messages":null,"maxTokens":1}}}`,
		`{"c":{"method":"sampling/createMessage","params":{"messages":[null],"maxTokens":1}}}`,
		`{"c":{"method":"tools/call","params":{"name":"x"}}}`, `{"":` + nameForm + `}`, `null`, `[]`, `"x"`,
		`{"c":` + nameForm + `,"d":null}`,
	} {
		t.Run(questions[:min(len(questions), 60)], func(t *testing.T) {
			h, who := newHostile(t, ask(`"inputRequests":`+questions+`,"requestState":"s"`)), &ada{}
			_, err := h.call(who.options())
			wantUnusable(t, err)
			h.wantRequests(1)
			who.wantAsked(t, 0)
		})
	}
}

// Defect: the result of a retried resources/read was cached, and later reads were served without asking.
func TestG25RetriedReadsAreNotCached(t *testing.T) {
	question := ask(`"inputRequests":{"c":` + nameForm + `}`)
	h, who := newHostile(t, question, completeRead, question, completeRead), &ada{}
	c := h.dial(who.options())
	for range 2 {
		if _, err := c.ReadResource(within(t, patience), "u:x"); err != nil {
			t.Fatal(err)
		}
	}
	h.wantRequests(4)
	who.wantAsked(t, 2)
}

// Defect: with manual answers input_required was cached, and the retry never reached the wire.
func TestG26ManualRetriesReachTheWire(t *testing.T) {
	h := newHostile(t, completeRead)
	c := h.dial(nil)
	p := &protocol.ReadResourceParams{URI: "u:x"}
	p.InputResponses = protocol.InputResponses{{Key: "c", Result: raw(`{"action":"accept","content":{"name":"Ada"}}`)}}
	p.RequestState = protocol.StateText("s")
	for range 2 {
		if _, err := c.ReadResourceParams(within(t, patience), p); err != nil {
			t.Fatal(err)
		}
	}
	for _, sent := range h.wantRequests(2) {
		if string(sent["requestState"]) != `"s"` || string(sent["inputResponses"]) != `{"c":{"action":"accept","content":{"name":"Ada"}}}` {
			t.Errorf("got %s and %s", sent["requestState"], sent["inputResponses"])
		}
	}
}

// Defect: a result that only asks to come back was returned as final, without an error.
func TestG27StateOnlyIsNotFinal(t *testing.T) {
	h := newHostile(t, ask(`"requestState":"s"`), done)
	r, err := h.call(nil)
	if err != nil || textOf(r.Content) != "done" {
		t.Errorf("got %+v, %v", r, err)
	}
	if sent := h.wantRequests(2); string(sent[1]["requestState"]) != `"s"` || sent[1]["inputResponses"] != nil {
		t.Errorf("got a retry with %q", names(sent[1]))
	}
}

// Defect: input_required with neither questions nor state was final.
func TestG28NeitherQuestionsNorState(t *testing.T) {
	for _, result := range []string{`{"resultType":"input_required"}`, ask(`"inputRequests":{}`), ask(`"_meta":{}`)} {
		h := newHostile(t, result)
		r, err := h.call(nil)
		if r != nil {
			t.Errorf("got %+v", r)
		}
		wantUnusable(t, err)
		h.wantRequests(1)
	}
}

// Defect: an unknown resultType was an empty result without an error.
func TestG29UnknownResultType(t *testing.T) {
	for _, kind := range []string{`"partial"`, `""`, `"Complete"`, `null`, `1`, `{}`} {
		h := newHostile(t, `{"resultType":`+kind+`}`)
		_, err := h.call(nil)
		wantUnusable(t, err)
		h.wantRequests(1)
	}
}

// Defect: a complete result that also has questions made the client loop; the resultType decides.
func TestG30TheResultTypeDecides(t *testing.T) {
	for _, kind := range []string{`"resultType":"complete",`, ``} { // absent means complete
		h, who := newHostile(t, `{`+kind+`"content":[{"type":"text","text":"done"}],"inputRequests":{"c":`+nameForm+`},"requestState":"s"}`), &ada{}
		r, err := h.call(who.options())
		if err != nil || textOf(r.Content) != "done" {
			t.Errorf("got %+v, %v", r, err)
		}
		h.wantRequests(1)
		who.wantAsked(t, 0)
	}
}

// Defect: the empty state was not echoed.
func TestG31EmptyStateIsEchoed(t *testing.T) {
	for _, state := range []string{``, ` `, `a\u0000b`, `\ud83d\ude00\"\\`, strings.Repeat("x", 60<<10)} {
		h := newHostile(t, ask(`"inputRequests":{"c":`+nameForm+`},"requestState":"`+state+`"`), done)
		if _, err := h.call((&ada{}).options()); err != nil {
			t.Fatal(err)
		}
		sent := h.wantRequests(2)
		want := parse(t, []byte(`{"s":"`+state+`"}`))
		if got := unquote(t, sent[1]["requestState"]); got != unquote(t, want["s"]) {
			t.Errorf("got state %.40q, want %.40q", got, unquote(t, want["s"]))
		}
	}
	t.Run("absent", func(t *testing.T) {
		h := newHostile(t, ask(`"inputRequests":{"c":`+nameForm+`},"requestState":"s"`), ask(`"inputRequests":{"c":`+nameForm+`}`), done)
		if _, err := h.call((&ada{}).options()); err != nil {
			t.Fatal(err)
		}
		if sent := h.wantRequests(3); sent[2]["requestState"] != nil {
			t.Errorf("the state of an earlier round was sent: %s", sent[2]["requestState"])
		}
	})
}

// Defect: roots/list without params, which another implementation sends, could not be read.
func TestG32RootsWithoutParams(t *testing.T) {
	for _, question := range []string{`{"method":"roots/list"}`, `{"method":"roots/list","params":{}}`} {
		h := newHostile(t, ask(`"inputRequests":{"c":`+question+`}`), done)
		if _, err := h.call(person{}.options()); err != nil {
			t.Errorf("%s: %v", question, err)
		}
		h.wantRequests(2)
	}
}

// Defect: requests were repeated three times in 5 ms, then given up.
func TestG33StateOnlyRoundsArePaced(t *testing.T) {
	wait := ask(`"requestState":"s"`)
	h := newHostile(t, wait, wait, wait, wait, wait, done)
	const pause = 20 * time.Millisecond
	if _, err := h.call(&client.Options{MinPause: pause, MaxPause: 2 * pause}); err != nil {
		t.Fatal(err)
	}
	h.wantRequests(6)
	for i := 1; i < len(h.at); i++ {
		// The request was sent after the answer to the one before, which this server has timed a little earlier.
		if gap := h.at[i].Sub(h.at[i-1]); gap < pause {
			t.Errorf("request %d came %v after the one before, want %v at least", i+1, gap, pause)
		}
	}
}

// Defect: the person was asked once more than counted, the cap was fixed and the error had no type.
func TestG34NobodyIsAskedInVain(t *testing.T) {
	for _, test := range []struct{ rounds, asked int }{{0, client.DefaultMaxRounds}, {3, 3}, {-1, 0}} {
		h, who := newHostile(t, ask(`"inputRequests":{"c":`+nameForm+`},"requestState":"s"`)), &ada{}
		opts := who.options()
		opts.MaxRounds = test.rounds
		_, err := h.call(opts)
		exceeded, ok := errors.AsType[*client.RoundsExceededError](err)
		if !ok || exceeded.Rounds != test.asked || exceeded.Last == nil || len(exceeded.Last.InputRequests) != 1 {
			t.Errorf("MaxRounds %d: got %v", test.rounds, err)
		}
		who.wantAsked(t, test.asked)
		h.wantRequests(test.asked + 1) // each answer was sent
	}
}

// Defect: a client was handed what it had not declared, a javascript: URL among it.
func TestG35OnlyWhatIsDeclaredIsAsked(t *testing.T) {
	who := &ada{}
	form := who.options()
	url := &client.Options{ElicitURL: func(context.Context, *client.URLQuestion) (*protocol.ElicitResult, error) {
		t.Error("a person was shown the URL")
		return client.Decline(), nil
	}}
	for _, test := range []struct {
		name, question string
		opts           *client.Options
		undeclared     bool
	}{
		{"url to form", fmt.Sprintf(visit, `"https://example.com/"`), form, true},
		{"form to url", nameForm, url, true},
		{"form to nobody", nameForm, nil, true},
		{"roots", `{"method":"roots/list"}`, form, true},
		{"sampling", `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`, form, true},
		{"javascript", fmt.Sprintf(visit, `"javascript:alert(1)"`), url, false},
		{"JavaScript", fmt.Sprintf(visit, `"JavaScript:alert(1)"`), url, false},
		{"data", fmt.Sprintf(visit, `"data:text/html,x"`), url, false},
		{"file", fmt.Sprintf(visit, `"file:///etc/passwd"`), url, false},
		{"http", fmt.Sprintf(visit, `"http://example.com/"`), url, false},
		{"relative", fmt.Sprintf(visit, `"/login"`), url, false},
		{"no host", fmt.Sprintf(visit, `"https:///login"`), url, false},
		{"credentials", fmt.Sprintf(visit, `"https://example.com@evil.example/"`), url, false},
		{"backslash", fmt.Sprintf(visit, `"https:\\\\evil.example/"`), url, false},
		{"bidi", fmt.Sprintf(visit, `"https://example.com/\u202e"`), url, false},
		{"newline", fmt.Sprintf(visit, `"https://example.com/\n"`), url, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			// Beside a question that could be asked: nobody is asked that one either.
			h := newHostile(t, ask(`"inputRequests":{"a":`+nameForm+`,"c":`+test.question+`}`), done)
			if test.opts == url {
				h = newHostile(t, ask(`"inputRequests":{"c":`+test.question+`}`), done)
			}
			_, err := h.call(test.opts)
			refused, ok := errors.AsType[*client.QuestionError](err)
			if !ok || errors.Is(err, client.ErrUndeclared) != test.undeclared {
				t.Errorf("got %v, want a QuestionError", err)
			} else if test.opts != nil && refused.Key != "c" {
				t.Errorf("got key %q", refused.Key)
			}
			h.wantRequests(1)
		})
	}
	who.wantAsked(t, 0)
}

// Defect: a handler that returned nil panicked in a goroutine and took the program with it.
func TestG36HandlersMayMisbehave(t *testing.T) {
	type handler = func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error)
	broken := errors.New("broken")
	for name, f := range map[string]handler{
		"nil, nil": func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) { return nil, nil },
		"panic":    func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) { panic("at the disco") },
		"error":    func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) { return nil, broken },
		"no action": func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return &protocol.ElicitResult{}, nil
		},
		"half an object": func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return &protocol.ElicitResult{Action: protocol.ActionAccept, Content: raw(`{"name":`)}, nil
		},
		"no content": func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return &protocol.ElicitResult{Action: protocol.ActionAccept}, nil
		},
		"wrong content": func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(map[string]any{"name": 7})
		},
	} {
		for _, several := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/several %t", name, several), func(t *testing.T) {
				questions := `"c":` + nameForm
				if several {
					questions += `,"d":` + nameForm + `,"e":` + nameForm
				}
				h := newHostile(t, ask(`"inputRequests":{`+questions+`}`), done)
				_, err := h.call(&client.Options{ElicitForm: f})
				if _, ok := errors.AsType[*client.AnswerError](err); !ok {
					t.Errorf("got %v, want an AnswerError", err)
				}
				h.wantRequests(1)
			})
		}
	}
}

// Defect: the caller's _meta was changed.
func TestG37CallersParamsStay(t *testing.T) {
	question := ask(`"inputRequests":{"c":` + nameForm + `},"requestState":"s"`)
	h := newHostile(t, question, done, question, done)
	c := h.dial((&ada{}).options())
	p := &protocol.CallToolParams{Name: "x", Arguments: raw(`{"a":1}`)}
	p.Extra = protocol.Meta(`{"traceparent":"00-1"}`)
	before := fmt.Sprintf("%+v", *p)
	for range 2 {
		if _, err := c.CallToolParams(within(t, patience), p); err != nil {
			t.Fatal(err)
		}
	}
	if after := fmt.Sprintf("%+v", *p); after != before {
		t.Errorf("params changed from %s to %s", before, after)
	}
	sent := h.wantRequests(4)
	for i, params := range sent {
		if has := params["inputResponses"] != nil; has != (i%2 == 1) {
			t.Errorf("request %d: has answers: %t", i+1, has)
		}
		if string(parse(t, params["_meta"])["traceparent"]) != `"00-1"` {
			t.Errorf("request %d: got _meta %s", i+1, params["_meta"])
		}
	}
	ids := map[string]bool{}
	for _, id := range h.ids {
		ids[id] = true
	}
	if len(ids) != 4 {
		t.Errorf("got ids %q, want four different ones", h.ids)
	}
}

// Defect: -32042 was never handled. This revision does not have it: the caller gets it as the server's error, data and all.
func TestG38URLErrorOfAnotherRevision(t *testing.T) {
	h := newRespond(t, `"error":{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url","elicitationId":"1","url":"javascript:x","message":"?"}]}}`)
	_, err := h.call(person{"1": "{}"}.options())
	e, ok := protocol.AsError(err)
	if !ok || e.Code != protocol.CodeURLElicitationRequired || !strings.Contains(string(e.Data), "elicitations") {
		t.Errorf("got %v", err)
	}
}
