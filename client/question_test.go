package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestInvalidQuestionsPromptNobody(t *testing.T) {
	for name, questions := range map[string]string{
		"null": `{"c":null}`, "number": `{"c":1}`, "null params": `{"c":{"method":"elicitation/create","params":null}}`,
		"no method": `{"c":{}}`, "null map": `null`, "list": `[]`, "unknown kind": `{"c":{"method":"tools/call","params":{}}}`,
		"beside a good one": `{"who":` + nameForm + `,"c":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			var prompts atomic.Int32
			_, err := callOnce(t, script(ask(`"inputRequests":`+questions)), countingForm(&prompts))
			if _, ok := errors.AsType[*client.ResponseError](err); !ok || prompts.Load() != 0 {
				t.Errorf("got %v after %d prompts, want a response error", err, prompts.Load())
			}
		})
	}
}

// Package urlrule tests which URLs are refused.
func TestRefusedQuestionsPromptNobody(t *testing.T) {
	link := func(u string) string {
		text, _ := json.Marshal(u)
		return `{"method":"elicitation/create","params":{"mode":"url","message":"m","url":` +
			string(text) + `}}`
	}
	cases := []struct{ name, question, want string }{
		{"javascript", link("javascript:alert(1)"), "never opened"},
		{"credentials", link("https://user:hunter2@example.com/"), "credentials"},
		{"http elsewhere", link("http://example.com/"), "loopback"},
		{"relative", link("/path"), "not absolute"},
		{"right to left", link("https://example.com/\u202egnp"), "character"},
		{"undeclared sampling", sampling, "sampling"},
		{"undeclared roots", listRoots, "roots"},
		{"schema is no form",
			strings.Replace(nameForm, `"type":"integer"`, `"type":"object"`, 1), "size"},
		{"schema type", strings.Replace(nameForm, `"type":"object",`, `"type":"array",`, 1),
			"requestedSchema"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var prompts atomic.Int32
			peer := script(
				ask(`"inputRequests":{"fine":` + nameForm + `,"bad":` + tc.question + `}`))
			_, err := callOnce(t, peer, &client.Options{
				ElicitForm: func(ctx context.Context,
					q *client.FormQuestion) (*protocol.ElicitResult, error) {
					prompts.Add(1)
					return acceptName(ctx, q)
				},
				ElicitURL: func(context.Context, *client.URLQuestion) (*protocol.ElicitResult,
					error) {
					prompts.Add(1)
					return client.Accept(nil)
				},
			})
			refused, ok := errors.AsType[*client.QuestionError](err)
			if !ok || refused.Key != "bad" || !strings.Contains(err.Error(), tc.want) ||
				strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want a question error on bad with %q", err, tc.want)
			}
			if n := prompts.Load(); n != 0 || len(peer.requests()) != 1 {
				t.Errorf("got %d prompts and %d requests, want none and 1", n, len(peer.requests()))
			}
		})
	}
}

func TestAllowURLDecides(t *testing.T) {
	no := errors.New("not in my house")
	peer := script(ask(`"inputRequests":{"in":` + visitURL + `}`))
	_, err := callOnce(t, peer, &client.Options{
		ElicitURL: func(context.Context, *client.URLQuestion) (*protocol.ElicitResult, error) {
			t.Error("asked")
			return client.Decline(), nil
		},
		AllowURL: func(*url.URL) error { return no },
	})
	if !errors.Is(err, no) {
		t.Errorf("got %v, want %v", err, no)
	}
}

func TestUnusableAnswersAreNotSent(t *testing.T) {
	sentinel := errors.New("window closed")
	cases := []struct {
		name   string
		handle func() (*protocol.ElicitResult, error)
		field  string
		want   string
	}{
		{"error", func() (*protocol.ElicitResult, error) { return nil, sentinel }, "",
			"window closed"},
		{"nil", func() (*protocol.ElicitResult, error) { return nil, nil }, "", "returned nil"},
		{"panic", func() (*protocol.ElicitResult, error) { panic("boom") }, "", "boom"},
		{"panic with an error", func() (*protocol.ElicitResult, error) { panic(sentinel) }, "",
			"window closed"},
		{"action", func() (*protocol.ElicitResult, error) {
			return &protocol.ElicitResult{Action: "maybe"}, nil
		},
			"", "maybe"},
		{"no action", func() (*protocol.ElicitResult, error) {
			return &protocol.ElicitResult{},
				nil
		}, "",
			"action"},
		{"wrong type", func() (*protocol.ElicitResult, error) {
			return client.Accept(map[string]any{"name": 7})
		},
			"name", "string"},
		{"too short", func() (*protocol.ElicitResult, error) {
			return client.Accept(map[string]any{"name": "A"})
		},
			"name", "name"},
		{"missing", func() (*protocol.ElicitResult, error) {
			return client.Accept(map[string]any{"size": 1})
		},
			"name", "name"},
		{"no content", func() (*protocol.ElicitResult, error) { return client.Accept(nil) }, "name",
			"name"},
		{"not an object", func() (*protocol.ElicitResult, error) {
			return &protocol.ElicitResult{Action: protocol.ActionAccept,
				Content: json.RawMessage(`[]`)}, nil
		}, "", "object"},
		{"not JSON", func() (*protocol.ElicitResult, error) {
			return &protocol.ElicitResult{
				Action: protocol.ActionAccept, Content: json.RawMessage(`{"name":`),
			}, nil
		}, "", "content"},
	}
	for _, tc := range cases {
		for kind, questions := range map[string]string{
			"alone":   `"who":` + nameForm,
			"sibling": `"who":` + nameForm + `,"in":` + visitURL,
		} {
			t.Run(tc.name+" "+kind, func(t *testing.T) {
				peer := script(ask(`"inputRequests":{` + questions + `}`))
				_, err := callOnce(t, peer, &client.Options{
					ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult,
						error) {
						return tc.handle()
					},
					ElicitURL: func(ctx context.Context,
						_ *client.URLQuestion) (*protocol.ElicitResult, error) {
						<-ctx.Done() // sibling cancel, or the test hangs
						return nil, ctx.Err()
					},
				})
				failed, ok := errors.AsType[*client.AnswerError](err)
				if !ok || failed.Key != "who" || failed.Field != tc.field ||
					!strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v (%+v), want field %q and %q", err, failed, tc.field, tc.want)
				}
				if n := len(peer.requests()); n != 1 {
					t.Errorf("got %d requests, want 1", n)
				}
			})
		}
	}
	t.Run("cause", func(t *testing.T) {
		_, err := callOnce(t, script(ask(`"inputRequests":{"who":`+nameForm+`}`)), &client.Options{
			ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult,
				error) {
				return nil, sentinel
			},
		})
		if !errors.Is(err, sentinel) {
			t.Errorf("got %v, want it to wrap the handler's error", err)
		}
	})
}

// The handlers of a round run concurrently, and an answer does not cancel the
// others: the client waits for the later one, and a failure of it fails the
// call.
func TestOneAnswerEndsNoOtherQuestion(t *testing.T) {
	failure := errors.New("the printer is on fire")
	for _, late := range []error{nil, failure} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peer := script(ask(`"inputRequests":{"fast":`+nameForm+`,"slow":`+nameForm+`}`),
					done)
				start := time.Now()
				_, err := callOnce(t, peer, &client.Options{ElicitForm: func(ctx context.Context,
					q *client.FormQuestion) (*protocol.ElicitResult, error) {
					if q.Key == "slow" {
						time.Sleep(time.Second)
						if ctx.Err() != nil || late != nil {
							return nil, errors.Join(context.Cause(ctx), late)
						}
					}
					return acceptName(ctx, q)
				}})
				if time.Since(start) < time.Second {
					t.Errorf("it took %v: the slow question was not waited for", time.Since(start))
				}
				if late == nil {
					noError(t, err)
					got := member(t, peer.requests()[1], "inputResponses")
					if strings.Count(got, `"Ada"`) != 2 {
						t.Errorf("got %s, want two answers", got)
					}
					return
				}
				refused, ok := errors.AsType[*client.AnswerError](err)
				if !ok || refused.Key != "slow" || !errors.Is(err, failure) ||
					errors.Is(err, context.Canceled) || len(peer.requests()) != 1 {
					t.Errorf("got %v after %d requests", err, len(peer.requests()))
				}
			})
		})
	}
}

func TestHandlerThatEndsItsGoroutine(t *testing.T) {
	peer := script(ask(`"inputRequests":{"who":` + nameForm + `,"in":` + visitURL + `}`))
	_, err := callOnce(t, peer, &client.Options{
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			runtime.Goexit()
			return nil, nil
		},
		ElicitURL: func(ctx context.Context, _ *client.URLQuestion) (*protocol.ElicitResult,
			error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	if err == nil || !strings.Contains(err.Error(), "did not return") {
		t.Errorf("got %v", err)
	}
}

func TestUnusableModelAndRoots(t *testing.T) {
	model := func(r *protocol.CreateMessageResult) *client.Options {
		return &client.Options{
			CreateMessage: func(context.Context,
				*client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
				return r, nil
			},
		}
	}
	text := []protocol.Content{&protocol.TextContent{Text: "x"}}
	roots := func(r ...protocol.Root) *client.Options {
		return &client.Options{
			ListRoots: func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
				return r, nil
			},
		}
	}
	cases := []struct {
		name, question string
		opts           *client.Options
	}{
		{"model nil", sampling, model(nil)},
		{"no model", sampling,
			model(&protocol.CreateMessageResult{Role: protocol.Assistant, Content: text})},
		{"no role", sampling, model(&protocol.CreateMessageResult{Model: "m", Content: text})},
		{"nil block", sampling, model(&protocol.CreateMessageResult{
			Role: protocol.Assistant, Model: "m", Content: []protocol.Content{nil},
		})},
		{"root without URI", listRoots, roots(protocol.Root{})},
		{"root not a file", listRoots, roots(protocol.Root{URI: "https://example.com"})},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			peer := script(ask(`"inputRequests":{"q":` + tc.question + `}`))
			_, err := callOnce(t, peer, tc.opts)
			if _, ok := errors.AsType[*client.AnswerError](err); !ok || len(peer.requests()) != 1 {
				t.Errorf("got %v after %d requests", err, len(peer.requests()))
			}
		})
	}
	t.Run("no roots", func(t *testing.T) {
		peer := script(ask(`"inputRequests":{"q":`+listRoots+`}`), done)
		r, err := callOnce(t, peer, roots())
		wantDone(t, r, err)
		if got, want := member(t, peer.requests()[1], "inputResponses"),
			`{"q":{"roots":[]}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestQuestionCheck(t *testing.T) {
	peer := script(ask(`"inputRequests":{"who":`+nameForm+`}`), done)
	r, err := callOnce(t, peer, &client.Options{ElicitForm: func(ctx context.Context,
		q *client.FormQuestion) (*protocol.ElicitResult, error) {
		if err := q.Check(json.RawMessage(`{"name":"A"}`)); err == nil ||
			!strings.Contains(err.Error(), "name") {
			t.Errorf("got %v, want an error naming the field", err)
		}
		if err := q.Check(json.RawMessage(`{"name":"Ada"}`)); err != nil {
			t.Errorf("got %v for a valid form", err)
		}
		return acceptName(ctx, q)
	}})
	wantDone(t, r, err)
}

func TestSamplingFieldsNeedDeclaration(t *testing.T) {
	tools := strings.Replace(
		sampling, `"maxTokens"`, `"toolChoice":{"mode":"auto"},"includeContext":"allServers","maxTokens"`,
		1,
	)
	var got *client.SamplingQuestion
	answer := func(_ context.Context, q *client.SamplingQuestion) (*protocol.CreateMessageResult,
		error) {
		got = q
		return &protocol.CreateMessageResult{
			Role: protocol.Assistant, Model: "m",
			Content: []protocol.Content{&protocol.TextContent{Text: "x"}},
		}, nil
	}
	_, err := callOnce(t, script(ask(`"inputRequests":{"q":`+tools+`}`)),
		&client.Options{CreateMessage: answer})
	if !errors.Is(err, client.ErrUndeclared) || got != nil {
		t.Errorf("tools undeclared: got %v, asked %v", err, got != nil)
	}
	r, err := callOnce(t, script(ask(`"inputRequests":{"q":`+tools+`}`), done),
		&client.Options{CreateMessage: answer, Sampling: protocol.SamplingCapability{Tools: true}})
	wantDone(t, r, err)
	if got.Request.IncludeContext != "" {
		t.Errorf("got includeContext %q, want it dropped", got.Request.IncludeContext)
	}
	r, err = callOnce(t, script(ask(`"inputRequests":{"q":`+tools+`}`), done), &client.Options{
		CreateMessage: answer, Sampling: both,
	})
	wantDone(t, r, err)
	if got.Request.IncludeContext != "allServers" {
		t.Errorf("got includeContext %q, want it kept", got.Request.IncludeContext)
	}
}

// both are the features of sampling that a client may declare.
var both = protocol.SamplingCapability{Tools: true, Context: true}

func TestDeclaredCapabilities(t *testing.T) {
	form := acceptName
	link := func(context.Context, *client.URLQuestion) (*protocol.ElicitResult, error) {
		return client.Decline(), nil
	}
	model := func(context.Context, *client.SamplingQuestion) (*protocol.CreateMessageResult,
		error) {
		return nil, nil
	}
	roots := func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
		return nil,
			nil
	}
	cases := []struct {
		name string
		opts *client.Options
		want string
	}{
		{"nothing", nil, `{}`},
		{"options without handlers", &client.Options{Sampling: both}, `{}`},
		{"form", &client.Options{ElicitForm: form}, `{"elicitation":{"form":{}}}`},
		{"url", &client.Options{ElicitURL: link}, `{"elicitation":{"url":{}}}`},
		{"sampling", &client.Options{CreateMessage: model}, `{"sampling":{}}`},
		{"all", &client.Options{
			ElicitForm: form, ElicitURL: link, CreateMessage: model, Sampling: both,
			ListRoots: roots,
		},
			`{"elicitation":{"form":{},"url":{}},"sampling":{"context":{},"tools":{}},"roots":{}}`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			peer := script(done)
			r, err := callOnce(t, peer, tc.opts)
			wantDone(t, r, err)
			var meta map[string]json.RawMessage
			if err := json.Unmarshal([]byte(member(t, peer.requests()[0], "_meta")),
				&meta); err != nil {
				t.Fatal(err)
			}
			if got := string(meta[protocol.MetaClientCapabilities]); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if got := string(meta[protocol.MetaProtocolVersion]); got != `"2026-07-28"` {
				t.Errorf("got version %s", got)
			}
			got := string(meta[protocol.MetaClientInfo])
			if !strings.Contains(got, `"rondo-client"`) {
				t.Errorf("got info %s", got)
			}
		})
	}
}

// A response of a few megabytes can hold a hundred thousand questions, each of
// which would be put to a person.
func TestTooManyQuestions(t *testing.T) {
	for _, tc := range []struct {
		name    string
		n       int
		refused bool
	}{
		{"as many as allowed", 100, false},
		{"one more", 100 + 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := make([]string, tc.n)
			for i := range list {
				list[i] = fmt.Sprintf(`"k%d":{"method":"roots/list"}`, i)
			}
			questions := ask(`"inputRequests":{` + strings.Join(list, ",") + `}`)
			var asked atomic.Int32
			_, err := callOnce(t, script(questions, done), &client.Options{
				ListRoots: func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
					asked.Add(1)
					return nil, nil
				},
			})
			_, unusable := errors.AsType[*client.ResponseError](err)
			if unusable != tc.refused || (err != nil) != tc.refused {
				t.Errorf("%d questions: got error %v, refused: %v", tc.n, err, tc.refused)
			}
			if want := int32(tc.n); !tc.refused && asked.Load() != want || tc.refused &&
				asked.Load() != 0 {
				t.Errorf("%d questions: %d were asked", tc.n, asked.Load())
			}

			c, err := client.New(script(questions), &client.Options{
				Manual: &protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}},
			})
			noError(t, err)
			_, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "t"})
			if (err != nil) != tc.refused || (pending == nil) != tc.refused {
				t.Errorf("Begin with %d questions: got %v and error %v", tc.n, pending, err)
			}
			_ = c.Close()
		})
	}
}

// What an input gives for a field that need not be filled in is sent as the form has it.
func TestOptionalFieldsAreSentAsTheFormHasThem(t *testing.T) {
	const who = `{"method":"elicitation/create","params":{"mode":"form","message":"?",` +
		`"requestedSchema":{"type":"object","properties":{"n":{"type":"integer","default":7},` +
		`"e":{"type":"string","format":"email"},"d":{"type":"string","default":"d"}}}}}`
	peer := script(ask(`"inputRequests":{"who":`+who+`}`), done)
	r, err := callOnce(t, peer, &client.Options{ElicitForm: func(_ context.Context,
		q *client.FormQuestion) (*protocol.ElicitResult, error) {
		content := json.RawMessage(`{"n":"5","e":""}`)
		if err := q.Check(content); err != nil {
			t.Error(err)
		}
		for _, wrong := range []string{`{"n":"five"}`, `{"n":" 5"}`, `{"e":"me"}`} {
			if q.Check(json.RawMessage(wrong)) == nil {
				t.Errorf("%s is valid", wrong)
			}
		}
		return client.Accept(content)
	}})
	wantDone(t, r, err)
}
