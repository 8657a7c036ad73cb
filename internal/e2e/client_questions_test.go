package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestMalformedQuestionsAreUnusable guards against a defect of another implementation: a question
// that is null killed the client.
func TestMalformedQuestionsAreUnusable(t *testing.T) {
	for _, questions := range []string{
		`{"c":null}`, `{"c":{}}`, `{"c":[]}`, `{"c":"x"}`, `{"c":{"method":null}}`,
		`{"c":{"method":"elicitation/create"}}`,
		`{"c":{"method":"elicitation/create","params":null}}`, `{"c":{"method":"elicitation/create","params":{}}}`,
		`{"c":{"method":"elicitation/create","params":{"message":"?","requestedSchema":null}}}`,
		`{"c":{"method":"sampling/createMessage","params":{"messages":null,"maxTokens":1}}}`,
		`{"c":{"method":"sampling/createMessage","params":{"messages":[null],"maxTokens":1}}}`,
		`{"c":{"method":"tools/call","params":{"name":"x"}}}`, `{"":` + nameForm + `}`, `null`, `[]`, `"x"`,
		`{"c":` + nameForm + `,"d":null}`,
	} {
		t.Run(questions[:min(len(questions), 60)], func(t *testing.T) {
			h, who := newScripted(t,
				ask(`"inputRequests":`+questions+`,"requestState":"s"`)), &ada{}
			_, err := h.call(who.options())
			wantUnusable(t, err)
			h.wantRequests(1)
			who.wantAsked(t, 0)
		})
	}
}

// TestRootsQuestionMayHaveNoParams guards against a defect of another implementation: roots/list
// without params, which another implementation sends, could not be read.
func TestRootsQuestionMayHaveNoParams(t *testing.T) {
	for _, question := range []string{`{"method":"roots/list"}`,
		`{"method":"roots/list","params":{}}`} {
		t.Run(question, func(t *testing.T) {
			h := newScripted(t, ask(`"inputRequests":{"c":`+question+`}`), done)
			if _, err := h.call(person{}.options()); err != nil {
				t.Error(err)
			}
			h.wantRequests(2)
		})
	}
}

// TestUndeclaredAndUnsafeQuestionsAreRefused guards against a defect of another implementation: a
// client was handed what it had not declared, a javascript: URL among it.
func TestUndeclaredAndUnsafeQuestionsAreRefused(t *testing.T) {
	who := &ada{}
	form := who.options()
	url := &client.Options{ElicitURL: func(context.Context,
		*client.URLQuestion) (*protocol.ElicitResult, error) {
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
			h := newScripted(t,
				ask(`"inputRequests":{"a":`+nameForm+`,"c":`+test.question+`}`), done)
			if test.opts == url {
				h = newScripted(t, ask(`"inputRequests":{"c":`+test.question+`}`), done)
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

// TestRoundLimitIsCheckedBeforePrompting guards against a defect of another implementation: the
// person was asked once more than counted, the cap was fixed and the error had no type.
func TestRoundLimitIsCheckedBeforePrompting(t *testing.T) {
	for _, test := range []struct{ rounds, asked int }{{0, 10}, {3, 3},
		{-1, 0}} {
		t.Run(fmt.Sprint("limit ", test.rounds), func(t *testing.T) {
			h, who := newScripted(t,
				ask(`"inputRequests":{"c":`+nameForm+`},"requestState":"s"`)), &ada{}
			opts := who.options()
			opts.MaxRounds = test.rounds
			_, err := h.call(opts)
			exceeded, ok := errors.AsType[*client.RoundsExceededError](err)
			if !ok || exceeded.Rounds != test.asked || exceeded.Last == nil ||
				len(exceeded.Last.InputRequests) != 1 {
				t.Errorf("MaxRounds %d: got %v", test.rounds, err)
			}
			who.wantAsked(t, test.asked)
			h.wantRequests(test.asked + 1) // each answer was sent
		})
	}
}

// TestMisbehavingHandlerIsAnAnswerError guards against a defect of another implementation: a
// handler that returned nil panicked in a goroutine and took the program with it.
func TestMisbehavingHandlerIsAnAnswerError(t *testing.T) {
	type handler = func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error)
	broken := errors.New("broken")
	for name, f := range map[string]handler{
		"nil, nil": func(context.Context, *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			return nil, nil
		},
		"panic": func(context.Context, *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			panic("at the disco")
		},
		"error": func(context.Context, *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			return nil, broken
		},
		"no action": func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return &protocol.ElicitResult{}, nil
		},
		"half an object": func(context.Context, *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			return &protocol.ElicitResult{Action: protocol.ActionAccept,
				Content: raw(`{"name":`)}, nil
		},
		"no content": func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return &protocol.ElicitResult{Action: protocol.ActionAccept}, nil
		},
		"wrong content": func(context.Context, *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			return client.Accept(map[string]any{"name": 7})
		},
	} {
		for _, several := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/several %t", name, several), func(t *testing.T) {
				questions := `"c":` + nameForm
				if several {
					questions += `,"d":` + nameForm + `,"e":` + nameForm
				}
				h := newScripted(t, ask(`"inputRequests":{`+questions+`}`), done)
				_, err := h.call(&client.Options{ElicitForm: f})
				if _, ok := errors.AsType[*client.AnswerError](err); !ok {
					t.Errorf("got %v, want an AnswerError", err)
				}
				h.wantRequests(1)
			})
		}
	}
}

// TestCallersContextBoundsTheWaitForAPerson guards against a defect of another implementation:
// nothing bounded the wait for a person who does not answer. The caller's context does.
func TestCallersContextBoundsTheWaitForAPerson(t *testing.T) {
	h := newScripted(t, ask(`"inputRequests":{"c":`+nameForm+`}`), done)
	ctx, cancel := context.WithCancel(t.Context())
	c := h.dial(&client.Options{ElicitForm: func(ctx context.Context,
		_ *client.FormQuestion) (*protocol.ElicitResult, error) {
		cancel() // the caller gives up while the person thinks
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if _, err := c.CallTool(ctx, "x", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	h.wantRequests(1)
}
