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
			if !isResponseError(err) || prompts.Load() != 0 {
				t.Errorf("got %v after %d prompts, want a response error", err, prompts.Load())
			}
		})
	}
}

// Package urlrule tests which URLs are refused. This tests the effect of a refusal.
func TestRefusedQuestionsPromptNobody(t *testing.T) {
	link := func(u string) string {
		text, _ := json.Marshal(u)
		return `{"method":"elicitation/create","params":{"mode":"url","message":"m","url":` +
			string(text) + `}}`
	}
	cases := []struct{ name, question, want string }{
		{"no house of mine", link("https://example.net/"), "not in my house"},
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
			opts := countingForm(&prompts)
			opts.ElicitURL = func(context.Context, *client.URLQuestion) (elicited, error) {
				prompts.Add(1)
				return client.Accept(nil)
			}
			no := errors.New("not in my house")
			if tc.want == no.Error() {
				opts.AllowURL = func(*url.URL) error { return no }
			}
			_, err := callOnce(t, peer, opts)
			if opts.AllowURL != nil && !errors.Is(err, no) {
				t.Errorf("got %v, want %v", err, no)
			}
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

func untilEnd(ctx context.Context, _ *client.URLQuestion) (elicited, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestUnusableAnswersAreNotSent(t *testing.T) {
	sentinel := errors.New("window closed")
	cases := []struct {
		name  string
		opts  *client.Options
		field string
		want  string
	}{
		{"error", formSays(nil, sentinel), "", "window closed"},
		{"nil", formSays(nil, nil), "", "returned nil"},
		{"panic", panicking("boom"), "", "boom"},
		{"panic with an error", panicking(sentinel), "", "window closed"},
		{"end of the goroutine", &client.Options{ElicitForm: func(context.Context,
			*client.FormQuestion) (elicited, error) {
			runtime.Goexit()
			return nil, nil
		}}, "", "did not return"},
		{"action", formSays(&protocol.ElicitResult{Action: "maybe"}, nil), "", "maybe"},
		{"no action", formSays(&protocol.ElicitResult{}, nil), "", "action"},
		{"wrong type", formSays(client.Accept(map[string]any{"name": 7})), "name", "string"},
		{"too short", formSays(client.Accept(map[string]any{"name": "A"})), "name", "name"},
		{"missing", formSays(client.Accept(map[string]any{"size": 1})), "name", "name"},
		{"no content", formSays(client.Accept(nil)), "name", "name"},
		{"not an object", formSays(&protocol.ElicitResult{Action: protocol.ActionAccept,
			Content: json.RawMessage(`[]`)}, nil), "", "object"},
		{"not JSON", formSays(&protocol.ElicitResult{Action: protocol.ActionAccept,
			Content: json.RawMessage(`{"name":`)}, nil), "", "content"},
	}
	for _, tc := range cases {
		for kind, questions := range map[string]string{
			"alone":   `"who":` + nameForm,
			"sibling": `"who":` + nameForm + `,"in":` + visitURL,
		} {
			if tc.want == "did not return" && kind == "alone" {
				continue // it runs on the test's goroutine
			}
			t.Run(tc.name+" "+kind, func(t *testing.T) {
				peer := script(ask(`"inputRequests":{` + questions + `}`))
				opts := *tc.opts
				opts.ElicitURL = untilEnd // ends with its sibling, else the test hangs
				_, err := callOnce(t, peer, &opts)
				failed, ok := errors.AsType[*client.AnswerError](err)
				if !ok || failed.Key != "who" || failed.Field != tc.field ||
					!strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v (%+v), want field %q and %q", err, failed, tc.field, tc.want)
				}
				if tc.name == "error" && !errors.Is(err, sentinel) {
					t.Errorf("got %v, want it to wrap the handler's error", err)
				}
				wantEqual(t, "requests", len(peer.requests()), 1)
			})
		}
	}
}

// The handlers of a round run concurrently, and an answer does not cancel the other handlers. The
// client waits for the later handler, whose failure fails the call.
func TestOneAnswerEndsNoOtherQuestion(t *testing.T) {
	failure := errors.New("the printer is on fire")
	for _, late := range []error{nil, failure} {
		inBubble(t, fmt.Sprint(late), func(t *testing.T) {
			peer := script(ask(`"inputRequests":{"fast":`+nameForm+`,"slow":`+nameForm+`}`), done)
			start := time.Now()
			_, err := callOnce(t, peer, &client.Options{ElicitForm: func(ctx context.Context,
				q *client.FormQuestion) (elicited, error) {
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
				wantEqual(t, "answers in "+got, strings.Count(got, `"Ada"`), 2)
				return
			}
			refused, ok := errors.AsType[*client.AnswerError](err)
			if !ok || refused.Key != "slow" || !errors.Is(err, failure) ||
				errors.Is(err, context.Canceled) || len(peer.requests()) != 1 {
				t.Errorf("got %v after %d requests", err, len(peer.requests()))
			}
		})
	}
}

func TestUnusableModelAndRoots(t *testing.T) {
	model := func(r *protocol.CreateMessageResult) *client.Options {
		return &client.Options{CreateMessage: func(context.Context,
			*client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			return r, nil
		}}
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
		wantOnce(t, peer, roots())
		wantEqual(t, "sent", member(t, peer.requests()[1], "inputResponses"),
			`{"q":{"roots":[]}}`)
	})
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
	for want, declared := range map[string]protocol.SamplingCapability{
		"refused": {}, "": {Tools: true}, "allServers": both,
	} {
		got = nil
		r, err := callOnce(t, script(ask(`"inputRequests":{"q":`+tools+`}`), done),
			&client.Options{CreateMessage: answer, Sampling: declared})
		if want == "refused" {
			if !client.IsUndeclared(err) || got != nil {
				t.Errorf("tools undeclared: got %v, asked %v", err, got != nil)
			}
			continue
		}
		wantDone(t, r, err)
		wantEqual(t, "got includeContext", got.Request.IncludeContext, want)
	}
}

var both = protocol.SamplingCapability{Tools: true, Context: true}

func TestDeclaredCapabilities(t *testing.T) {
	all := allHandlers()
	every := *all
	every.Sampling = both
	cases := []struct {
		name string
		opts *client.Options
		want string
	}{
		{"nothing", nil, `{}`},
		{"options without handlers", &client.Options{Sampling: both}, `{}`},
		{"form", &client.Options{ElicitForm: all.ElicitForm}, `{"elicitation":{"form":{}}}`},
		{"url", &client.Options{ElicitURL: all.ElicitURL}, `{"elicitation":{"url":{}}}`},
		{"sampling", &client.Options{CreateMessage: all.CreateMessage}, `{"sampling":{}}`},
		{"all", &every,
			`{"elicitation":{"form":{},"url":{}},"sampling":{"context":{},"tools":{}},"roots":{}}`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			peer := script(done)
			wantOnce(t, peer, tc.opts)
			meta := protocol.Meta(member(t, peer.requests()[0], "_meta"))
			caps, _ := meta.Get(protocol.MetaClientCapabilities)
			version, _ := meta.Get(protocol.MetaProtocolVersion)
			info, _ := meta.Get(protocol.MetaClientInfo)
			if string(caps) != tc.want || string(version) != `"2026-07-28"` ||
				!strings.Contains(string(info), `"rondo-client"`) {
				t.Errorf("got %s of revision %s and client %s, want %s", caps, version, info, tc.want)
			}
		})
	}
}

// A response of a few megabytes can hold a hundred thousand questions for the user.
func TestTooManyQuestions(t *testing.T) {
	for _, n := range []int{100, 101} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			list, refused := make([]string, n), n > 100
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
			if isResponseError(err) != refused || (err != nil) != refused {
				t.Errorf("got error %v, refused: %v", err, refused)
			}
			wantEqual(t, "asked", asked.Load(), map[bool]int32{false: 100}[refused])
			_, pending, err := newClient(t, script(questions), byHand()).Begin(t.Context(),
				&protocol.CallToolParams{Name: "t"})
			if (err != nil) != refused || (pending == nil) != refused {
				t.Errorf("Begin: got %v and error %v", pending, err)
			}
		})
	}
}

// The value of an input control for an optional field is sent in the form's type.
func TestOptionalFieldsAreSentAsTheFormHasThem(t *testing.T) {
	const who = `{"method":"elicitation/create","params":{"mode":"form","message":"?",` +
		`"requestedSchema":{"type":"object","properties":{"n":{"type":"integer","default":7},` +
		`"e":{"type":"string","format":"email"},"d":{"type":"string","default":"d"}}}}}`
	peer := script(ask(`"inputRequests":{"who":`+who+`}`), done)
	wantOnce(t, peer, &client.Options{ElicitForm: func(_ context.Context,
		q *client.FormQuestion) (elicited, error) {
		content := json.RawMessage(`{"n":"5","e":""}`)
		noError(t, q.Check(content))
		for wrong, field := range map[string]string{`{"n":"five"}`: `"n"`, `{"n":" 5"}`: `"n"`,
			`{"e":"me"}`: `"e"`} {
			if err := q.Check(json.RawMessage(wrong)); err == nil ||
				!strings.Contains(err.Error(), field) {
				t.Errorf("%s: got %v, want an error naming the field", wrong, err)
			}
		}
		return client.Accept(content)
	}})
}
