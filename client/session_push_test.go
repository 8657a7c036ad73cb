package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

func panicking(with any) *client.Options {
	return &client.Options{ElicitForm: func(context.Context,
		*client.FormQuestion) (elicited, error) {
		panic(with)
	}}
}

// answerToPush makes a tool push a question, and returns the client and its answer.
func answerToPush(t *testing.T, way string, s *legacyServer, opts *client.Options,
	method, params string) (got legacyMessage, c *client.Client) {
	t.Helper()
	s.call = func(_ legacyMessage, push pusher) string {
		got = push(pushed(`"q1"`, method, params))
		return legacyDone
	}
	c = s.reach(t, way, opts)
	wantCall(t, c, "greet")
	return got, c
}

func TestLegacyPushes(t *testing.T) {
	url := `{"mode":"url","message":"Sign in","url":"%s","elicitationId":"e1"}`
	tests := []struct {
		name, method, params string
		opts                 *client.Options
		want                 string
	}{
		{"ping", "ping", "", &client.Options{}, `{}`},
		{"form with defaults", "elicitation/create", nameParams, allHandlers(),
			`{"action":"accept","content":{"name":"Ada","size":3}}`},
		{"form that names its mode", "elicitation/create", `{"mode":"form",` + nameParams[1:],
			allHandlers(), `{"action":"accept","content":{"name":"Ada","size":3}}`},
		{"URL", "elicitation/create", fmt.Sprintf(url, "https://example.com/in"), allHandlers(),
			`{"action":"accept"}`},
		{"sampling", "sampling/createMessage", askedModel, allHandlers(),
			`{"role":"assistant","content":{"type":"text","text":"hello"},"model":"m"}`},
		{"roots", "roots/list", "", allHandlers(), `{"roots":[{"uri":"file:///work"}]}`},

		{"elicitation undeclared", "elicitation/create", nameParams, &client.Options{}, "-32601"},
		{"sampling undeclared", "sampling/createMessage", askedModel, &client.Options{}, "-32601"},
		{"roots undeclared", "roots/list", "", &client.Options{}, "-32601"},
		{"mode undeclared", "elicitation/create", fmt.Sprintf(url, "https://example.com/in"),
			&client.Options{ElicitForm: acceptName}, "-32602"},
		{"tools undeclared", "sampling/createMessage",
			`{"tools":[],"toolChoice":{"mode":"auto"},` + askedModel[1:], allHandlers(), "-32602"},
		{"unknown method", "elicitation/destroy", "{}", allHandlers(), "-32601"},
		{"unknown mode", "elicitation/create", `{"mode":"telepathy",` + nameParams[1:],
			allHandlers(),
			"-32602"},
		{"no form", "elicitation/create", `{"message":"Who?"}`, allHandlers(), "-32602"},
		{"a form that is none", "elicitation/create",
			`{"message":"Who?","requestedSchema":{"type":"object","properties":{"a":{"type":"object"}}}}`,
			allHandlers(), "-32602"},
		{"javascript", "elicitation/create", fmt.Sprintf(url, "javascript:alert(1)"), allHandlers(),
			"-32602"},
		{"http", "elicitation/create", fmt.Sprintf(url, "http://example.com/in"), allHandlers(),
			"-32602"},
		{"URL without id", "elicitation/create",
			`{"mode":"url","message":"m","url":"https://example.com/"}`, allHandlers(), "-32602"},
		{"no params", "elicitation/create", "", allHandlers(), "-32602"},
		{"null params", "elicitation/create", "null", allHandlers(), "-32602"},
		{"array params", "roots/list", "[]", allHandlers(), "-32600"},

		{"handler fails", "elicitation/create", nameParams,
			formSays(nil, errors.New("the secret reason")), "-32603"},
		{"handler says why", "elicitation/create", nameParams,
			formSays(nil, protocol.Errorf(-1, "person is out")), "-1"},
		{"handler panics", "elicitation/create", nameParams, panicking("oh"), "-32603"},
		{"handler panics with an error of the protocol", "elicitation/create", nameParams,
			panicking(protocol.Errorf(-1, "oh")), "-32603"},
		{"handler answers nil", "elicitation/create", nameParams, formSays(nil, nil), "-32603"},
		{"answer is not valid", "elicitation/create", nameParams,
			formSays(client.Accept(map[string]any{"name": "A"})), "-32603"},
		{"accept without content", "elicitation/create", nameParams, formSays(client.Accept(nil)),
			"-32603"},
		{"declined", "elicitation/create", nameParams, formSays(client.Decline(), nil),
			`{"action":"decline"}`},
	}
	overEach(t, func(t *testing.T, way string) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				opts, warned := *test.opts, ""
				opts.Era = protocol.Legacy
				opts.Warn = func(_ context.Context, err error) { warned += fmt.Sprintf("%T", err) }
				got, _ := answerToPush(t, way, &legacyServer{}, &opts, test.method, test.params)
				wantEqual(t, "the result", got.answer(), test.want)
				wantWarned := map[string]string{"-32603": "*client.AnswerError",
					"-1": "*client.AnswerError"}[test.want]
				switch test.name {
				case "mode undeclared", "tools undeclared", "a form that is none", "javascript",
					"http":
					wantWarned = "*client.QuestionError"
				}
				wantEqual(t, "warned of", warned, wantWarned)
				if got.Error != nil && strings.Contains(got.Error.Message, "secret") {
					t.Errorf("server learns too much: %s", got.Error.Message)
				}
			})
		}
	})
}

// A question that a revision does not define is refused in sessions of that revision.
func TestLegacyPushesByRevision(t *testing.T) {
	url := `{"mode":"url","message":"Sign in","url":"https://example.com/","elicitationId":"e1"}`
	accepted := `{"action":"accept","content":{"name":"Ada","size":3}}`
	for _, test := range []struct{ name, version, method, params, want string }{
		{"form of 2024-11-05", "2024-11-05", "elicitation/create", nameParams, "-32601"},
		{"form of 2025-03-26", "2025-03-26", "elicitation/create", nameParams, "-32601"},
		{"form of 2025-06-18", "2025-06-18", "elicitation/create", nameParams, accepted},
		{"URL of 2025-06-18", "2025-06-18", "elicitation/create", url, "-32602"},
		{"roots of 2024-11-05", "2024-11-05", "roots/list", "",
			`{"roots":[{"uri":"file:///work"}]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			overEach(t, func(t *testing.T, way string) {
				got, c := answerToPush(t, way, &legacyServer{version: test.version}, allHandlers(),
					test.method, test.params)
				if got.answer() != test.want {
					t.Errorf("%s in %s: got %s, want %s", test.method, test.version, got.answer(),
						test.want)
				}
				wantEqual(t, "negotiated", c.Negotiated(), protocol.Version(test.version))
			})
		})
	}
}

func TestLegacyPushesAreConcurrentAndBounded(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		const most, all = 100, 110
		// A question stays open until each of all has reached a handler or was refused.
		var open, decided atomic.Int32
		release := make(chan struct{})
		decide := func() {
			if decided.Add(1) == all {
				close(release)
			}
		}
		opts := &client.Options{
			ElicitForm: func(ctx context.Context, _ *client.FormQuestion) (elicited, error) {
				open.Add(1)
				decide()
				<-release
				return client.Accept(map[string]any{"name": "Ada"})
			}}
		var mu sync.Mutex
		got := map[string]int{}
		s := &legacyServer{call: func(_ legacyMessage, push pusher) string {
			var wait sync.WaitGroup
			for i := range all {
				wait.Go(func() {
					m := push(pushed(fmt.Sprint(i), "elicitation/create", nameParams))
					if m.Error != nil {
						decide()
					}
					mu.Lock()
					got[m.answer()]++
					mu.Unlock()
				})
			}
			wait.Wait()
			return legacyDone
		}}
		wantCall(t, s.reach(t, way, opts), "greet")
		if open.Load() != most || got[fmt.Sprint(protocol.CodeBusy)] != all-most || len(got) != 2 {
			t.Errorf("%d were open at once, answers %v", open.Load(), got)
		}
	})
}

// If a server floods its client, it gets an answer to every question, and the call gets its result.
func TestFloodOfPushesIsBounded(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		flood := 2000
		if way != "lines" {
			flood = 500 // over HTTP each answer is a request
		}
		s := &legacyServer{call: func(_ legacyMessage, push pusher) string {
			var wait sync.WaitGroup
			slots := make(chan struct{}, 200)
			for i := range flood {
				slots <- struct{}{}
				wait.Go(func() {
					push(pushed(fmt.Sprint(i), "elicitation/create", nameParams))
					<-slots
				})
			}
			wait.Wait()
			return legacyDone
		}}
		wantCall(t, s.reach(t, way, allHandlers()), "greet")
	})
}

func TestLegacyCancelledByServer(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		asked, cause := make(chan struct{}), make(chan error, 1)
		opts := &client.Options{ElicitForm: func(ctx context.Context,
			_ *client.FormQuestion) (elicited, error) {
			close(asked)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return client.Accept(map[string]any{"name": "Ada"})
		}, Era: protocol.Legacy, Warn: func(_ context.Context, err error) {
			t.Errorf("told of %v", err)
		}}
		s := &legacyServer{call: func(_ legacyMessage, push pusher) string {
			go push(pushed("1", "elicitation/create", nameParams))
			<-asked
			push(
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"never mind"}}`,
			)
			push(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}`)
			push(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
			if err := <-cause; !strings.Contains(fmt.Sprint(err), "never mind") {
				t.Errorf("cause %v", err)
			}
			push(pushed("2", "ping", "")) // an answer to the first would arrive before this one's
			return legacyDone
		}}
		wantCall(t, s.reach(t, way, opts), "greet")
		for _, m := range s.heard {
			if m.Method == "" && string(m.ID) == "1" {
				t.Errorf("a cancelled question was answered: %s", m.answer())
			}
		}
	})
}

// The client does not ask a question that was withdrawn before it arrived. This happens on
// transports where requests wait for a free slot but notifications do not.
func TestQuestionWithdrawnBeforeItArrives(t *testing.T) {
	for withdrawn, wantAsked := range map[string]int32{`"q"`: 0, `"p"`: 1} {
		t.Run(withdrawn, func(t *testing.T) {
			var asked atomic.Int32
			var got legacyMessage
			s := &legacyServer{call: func(_ legacyMessage, push pusher) string {
				push(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` +
					withdrawn + `}}`)
				got = push(pushed(`"q"`, "elicitation/create", nameParams))
				return legacyDone
			}}
			wantCall(t, s.reach(t, "lines", countingForm(&asked)), "greet")
			if asked.Load() != wantAsked || (got.Error == nil) != (wantAsked == 1) {
				t.Errorf("asked %d times and answered %s", asked.Load(), got.answer())
			}
		})
	}
}
