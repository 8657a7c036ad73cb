package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

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
			&client.Options{ElicitForm: func(context.Context,
				*client.FormQuestion) (*protocol.ElicitResult, error) {
				return nil, errors.New("the secret reason")
			}}, "-32603"},
		{"handler says why", "elicitation/create", nameParams,
			&client.Options{ElicitForm: func(context.Context,
				*client.FormQuestion) (*protocol.ElicitResult, error) {
				return nil, protocol.Errorf(-1, "person is out")
			}}, "-1"},
		{"handler panics", "elicitation/create", nameParams,
			&client.Options{ElicitForm: func(context.Context,
				*client.FormQuestion) (*protocol.ElicitResult, error) {
				panic("oh")
			}}, "-32603"},
		{"handler panics with an error of the protocol", "elicitation/create", nameParams,
			&client.Options{ElicitForm: func(context.Context,
				*client.FormQuestion) (*protocol.ElicitResult, error) {
				panic(protocol.Errorf(-1, "oh"))
			}}, "-32603"},
		{"handler answers nil", "elicitation/create", nameParams,
			&client.Options{ElicitForm: func(context.Context,
				*client.FormQuestion) (*protocol.ElicitResult, error) {
				return nil, nil
			}}, "-32603"},
		{"answer is not valid", "elicitation/create", nameParams,
			&client.Options{ElicitForm: func(context.Context,
				*client.FormQuestion) (*protocol.ElicitResult, error) {
				return client.Accept(map[string]any{"name": "A"})
			}}, "-32603"},
		{"accept without content", "elicitation/create", nameParams,
			&client.Options{ElicitForm: func(context.Context,
				*client.FormQuestion) (*protocol.ElicitResult, error) {
				return client.Accept(nil)
			}}, "-32603"},
		{"declined", "elicitation/create", nameParams,
			&client.Options{ElicitForm: func(context.Context,
				*client.FormQuestion) (*protocol.ElicitResult, error) {
				return client.Decline(), nil
			}}, `{"action":"decline"}`},
	}
	overEach(t, func(t *testing.T, way string) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				var got legacyMessage
				s := &legacyServer{call: func(_ legacyMessage,
					push func(string) legacyMessage) string {
					got = push(pushed(`"q1"`, test.method, test.params))
					return legacyDone
				}}
				opts, warned := *test.opts, ""
				opts.Era = protocol.Legacy
				opts.Warn = func(_ context.Context, err error) { warned += fmt.Sprintf("%T", err) }
				r, err := s.reach(t, way, &opts).CallTool(t.Context(), "greet", nil)
				wantDone(t, r, err)
				if got.answer() != test.want {
					t.Errorf("got %s, want %s", got.answer(), test.want)
				}
				wantWarned := map[string]string{"-32603": "*client.AnswerError",
					"-1": "*client.AnswerError"}[test.want]
				switch test.name {
				case "mode undeclared", "tools undeclared", "a form that is none", "javascript",
					"http":
					wantWarned = "*client.QuestionError"
				}
				if warned != wantWarned {
					t.Errorf("warned of %q, want %q", warned, wantWarned)
				}
				if got.Error != nil && strings.Contains(got.Error.Message, "secret") {
					t.Errorf("server learns too much: %s", got.Error.Message)
				}
			})
		}
	})
}

// Questions that a revision does not have are refused in it.
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
				var got legacyMessage
				s := &legacyServer{version: test.version,
					call: func(_ legacyMessage, push func(string) legacyMessage) string {
						got = push(pushed("7", test.method, test.params))
						return legacyDone
					}}
				c := s.reach(t, way, allHandlers())
				r, err := c.CallTool(t.Context(), "greet", nil)
				wantDone(t, r, err)
				if got.answer() != test.want {
					t.Errorf("%s in %s: got %s, want %s", test.method, test.version, got.answer(),
						test.want)
				}
				if c.Negotiated() != protocol.Version(test.version) {
					t.Errorf("got %s, want %s", c.Negotiated(), test.version)
				}
			})
		})
	}
}

func TestLegacyPushesAreConcurrentAndBounded(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		const most, all = 100, 110
		// Questions are open until each of all has reached a handler or was refused.
		var open, decided atomic.Int32
		release := make(chan struct{})
		decide := func() {
			if decided.Add(1) == all {
				close(release)
			}
		}
		opts := &client.Options{
			ElicitForm: func(ctx context.Context, _ *client.FormQuestion) (*protocol.ElicitResult,
				error) {
				open.Add(1)
				decide()
				<-release
				return client.Accept(map[string]any{"name": "Ada"})
			}}
		var mu sync.Mutex
		got := map[string]int{}
		s := &legacyServer{call: func(_ legacyMessage, push func(string) legacyMessage) string {
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
		r, err := s.reach(t, way, opts).CallTool(t.Context(), "greet", nil)
		wantDone(t, r, err)
		if open.Load() != most || got[fmt.Sprint(protocol.CodeBusy)] != all-most || len(got) != 2 {
			t.Errorf("%d were open at once, answers %v", open.Load(), got)
		}
	})
}

// A server that floods its client gets an answer to every question, and the
// call its result.
func TestFloodOfPushesIsBounded(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		flood := 2000
		if way != "lines" {
			flood = 500 // each answer is an HTTP request
		}
		s := &legacyServer{call: func(_ legacyMessage, push func(string) legacyMessage) string {
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
		r, err := s.reach(t, way, allHandlers()).CallTool(t.Context(), "greet", nil)
		wantDone(t, r, err)
	})
}

func TestLegacyCancelledByServer(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		asked, cause := make(chan struct{}), make(chan error, 1)
		opts := &client.Options{ElicitForm: func(ctx context.Context,
			_ *client.FormQuestion) (*protocol.ElicitResult, error) {
			close(asked)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return client.Accept(map[string]any{"name": "Ada"})
		}, Era: protocol.Legacy, Warn: func(_ context.Context, err error) {
			t.Errorf("told of %v", err)
		}}
		s := &legacyServer{call: func(_ legacyMessage, push func(string) legacyMessage) string {
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
			push(pushed("2", "ping", "")) // an answer to the first would come before
			return legacyDone
		}}
		r, err := s.reach(t, way, opts).CallTool(t.Context(), "greet", nil)
		wantDone(t, r, err)
		for _, m := range s.heard {
			if m.Method == "" && string(m.ID) == "1" {
				t.Errorf("a cancelled question was answered: %s", m.answer())
			}
		}
	})
}

// An early server withdraws its question before the client has received it.
// That happens on transports where requests wait for a free slot and
// notifications do not.
type early struct {
	back     protocol.BackCaller
	withdraw string // the id, as JSON
	answers  chan *protocol.Response
	done     chan struct{}
}

func (e *early) Probe(context.Context, *protocol.Request) (*protocol.Response, bool, error) {
	return nil, true, fmt.Errorf("not known")
}

func (e *early) OpenSession(
	_ context.Context, req *protocol.Request, back protocol.BackCaller,
) (protocol.LegacySession, *protocol.Response, error) {
	e.back = back
	return e, &protocol.Response{ID: req.ID, Result: json.RawMessage(
		`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"early","version":"1"}}`)}, nil
}

func (e *early) Handle(
	ctx context.Context, req *protocol.Request, back protocol.Back,
) (*protocol.Response, error) {
	if err := e.back.Notify(ctx, &protocol.Notification{Method: protocol.NotifyCancelled,
		Params: json.RawMessage(`{"requestId":` + e.withdraw + `}`)}); err != nil {
		return nil, err
	}
	answer, err := back.(protocol.BackCaller).Call(ctx, &protocol.Request{
		ID: protocol.StringID("q"), Method: protocol.MethodElicit,
		Params: json.RawMessage(nameParams),
	})
	if err != nil {
		return nil, err
	}
	e.answers <- answer
	return &protocol.Response{ID: req.ID, Result: json.RawMessage(`{"content":[]}`)}, nil
}

func (e *early) Notify(context.Context, *protocol.Notification) error { return nil }

func (e *early) Done() <-chan struct{} { return e.done }

func (e *early) Err() error { return nil }

func (e *early) Close() error { return nil }

// The client does not ask a question that the server has already withdrawn.
func TestQuestionWithdrawnBeforeItArrives(t *testing.T) {
	for _, tc := range []struct {
		name, withdraw string
		asked          int32
	}{
		{"the question", `"q"`, 0},
		{"another question", `"p"`, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var asked atomic.Int32
			e := &early{
				withdraw: tc.withdraw, answers: make(chan *protocol.Response, 1),
				done: make(chan struct{}),
			}
			c, err := client.New(e, &client.Options{ElicitForm: func(context.Context,
				*client.FormQuestion) (*protocol.ElicitResult, error) {
				asked.Add(1)
				return client.Accept(map[string]any{"name": "Ada"})
			}})
			noError(t, err)
			defer c.Close()
			if _, err := c.CallTool(t.Context(), "greet", nil); err != nil {
				t.Fatal(err)
			}
			if answer := <-e.answers; asked.Load() != tc.asked ||
				(answer.Error == nil) != (tc.asked == 1) {
				t.Errorf("asked %d times and answered %s, %v", asked.Load(), answer.Result,
					answer.Error)
			}
		})
	}
}
