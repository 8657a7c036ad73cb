package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

func serveHTTP(t *testing.T, h http.Handler) string {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return web.URL
}

// overEach runs a test for each way to reach a server.
func overEach(t *testing.T, test func(t *testing.T, way string)) {
	for _, way := range oldWays {
		t.Run(way, func(t *testing.T) { test(t, way) })
	}
}

// pushed returns a pushed request with the given id, method and params.
func pushed(id, method, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q%s}`, id, method, params)
}

const (
	nameParams = `{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","minLength":2},"size":{"type":"integer","default":3}},"required":["name"]}}`
	askedModel = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":10}`
)

// allHandlers answers everything.
func allHandlers() *client.Options {
	return &client.Options{
		ElicitForm: acceptName,
		ElicitURL: func(context.Context, *client.URLQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(nil)
		},
		CreateMessage: func(context.Context, *client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			return &protocol.CreateMessageResult{Role: protocol.Assistant, Model: "m", Content: []protocol.Content{&protocol.TextContent{Text: "hello"}}}, nil
		},
		ListRoots: func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
			return []protocol.Root{{URI: "file:///work"}}, nil
		},
	}
}

func TestLegacyPushes(t *testing.T) {
	url := `{"mode":"url","message":"Sign in","url":"%s","elicitationId":"e1"}`
	tests := []struct {
		name, method, params string
		opts                 *client.Options
		want                 string
	}{
		{"ping", "ping", "", &client.Options{}, `{}`},
		{"form with defaults", "elicitation/create", nameParams, allHandlers(), `{"action":"accept","content":{"name":"Ada","size":3}}`},
		{"form that names its mode", "elicitation/create", `{"mode":"form",` + nameParams[1:], allHandlers(), `{"action":"accept","content":{"name":"Ada","size":3}}`},
		{"URL", "elicitation/create", fmt.Sprintf(url, "https://example.com/in"), allHandlers(), `{"action":"accept"}`},
		{"sampling", "sampling/createMessage", askedModel, allHandlers(), `{"role":"assistant","content":{"type":"text","text":"hello"},"model":"m"}`},
		{"roots", "roots/list", "", allHandlers(), `{"roots":[{"uri":"file:///work"}]}`},

		{"elicitation undeclared", "elicitation/create", nameParams, &client.Options{}, "-32601"},
		{"sampling undeclared", "sampling/createMessage", askedModel, &client.Options{}, "-32601"},
		{"roots undeclared", "roots/list", "", &client.Options{}, "-32601"},
		{"mode undeclared", "elicitation/create", fmt.Sprintf(url, "https://example.com/in"), &client.Options{ElicitForm: acceptName}, "-32602"},
		{"tools undeclared", "sampling/createMessage", `{"tools":[],"toolChoice":{"mode":"auto"},` + askedModel[1:], allHandlers(), "-32602"},
		{"unknown method", "elicitation/destroy", "{}", allHandlers(), "-32601"},
		{"unknown mode", "elicitation/create", `{"mode":"telepathy",` + nameParams[1:], allHandlers(), "-32602"},
		{"no form", "elicitation/create", `{"message":"Who?"}`, allHandlers(), "-32602"},
		{"a form that is none", "elicitation/create", `{"message":"Who?","requestedSchema":{"type":"object","properties":{"a":{"type":"object"}}}}`, allHandlers(), "-32602"},
		{"javascript", "elicitation/create", fmt.Sprintf(url, "javascript:alert(1)"), allHandlers(), "-32602"},
		{"http", "elicitation/create", fmt.Sprintf(url, "http://example.com/in"), allHandlers(), "-32602"},
		{"URL without id", "elicitation/create", `{"mode":"url","message":"m","url":"https://example.com/"}`, allHandlers(), "-32602"},
		{"no params", "elicitation/create", "", allHandlers(), "-32602"},
		{"null params", "elicitation/create", "null", allHandlers(), "-32600"},
		{"array params", "roots/list", "[]", allHandlers(), "-32600"},

		{"handler fails", "elicitation/create", nameParams, &client.Options{ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return nil, errors.New("the secret reason")
		}}, "-32603"},
		{"handler says why", "elicitation/create", nameParams, &client.Options{ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return nil, protocol.Errorf(-1, "person is out")
		}}, "-1"},
		{"handler panics", "elicitation/create", nameParams, &client.Options{ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			panic("oh")
		}}, "-32603"},
		{"handler panics with an error of the protocol", "elicitation/create", nameParams, &client.Options{ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			panic(protocol.Errorf(-1, "oh"))
		}}, "-32603"},
		{"handler answers nil", "elicitation/create", nameParams, &client.Options{ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return nil, nil
		}}, "-32603"},
		{"answer is not valid", "elicitation/create", nameParams, &client.Options{ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(map[string]any{"name": "A"})
		}}, "-32603"},
		{"accept without content", "elicitation/create", nameParams, &client.Options{ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(nil)
		}}, "-32603"},
		{"declined", "elicitation/create", nameParams, &client.Options{ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Decline(), nil
		}}, `{"action":"decline"}`},
	}
	overEach(t, func(t *testing.T, way string) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				var got oldMessage
				s := &oldServer{call: func(_ oldMessage, push func(string) oldMessage) string {
					got = push(pushed(`"q1"`, test.method, test.params))
					return oldDone
				}}
				r, err := s.reach(t, way, test.opts).CallTool(t.Context(), "greet", nil)
				wantDone(t, r, err)
				if got.answer() != test.want {
					t.Errorf("got %s, want %s", got.answer(), test.want)
				}
				if got.Error != nil && strings.Contains(got.Error.Message, "secret") {
					t.Errorf("server learns too much: %s", got.Error.Message)
				}
			})
		}
	})
}

// What older revisions do not have is not answered in them.
func TestLegacyPushesByRevision(t *testing.T) {
	url := `{"mode":"url","message":"Sign in","url":"https://example.com/","elicitationId":"e1"}`
	for _, test := range []struct{ version, method, params, want string }{
		{"2024-11-05", "elicitation/create", nameParams, "-32601"},
		{"2025-03-26", "elicitation/create", nameParams, "-32601"},
		{"2025-06-18", "elicitation/create", nameParams, `{"action":"accept","content":{"name":"Ada","size":3}}`},
		{"2025-06-18", "elicitation/create", url, "-32602"},
		{"2024-11-05", "roots/list", "", `{"roots":[{"uri":"file:///work"}]}`},
	} {
		overEach(t, func(t *testing.T, way string) {
			var got oldMessage
			s := &oldServer{version: test.version, call: func(_ oldMessage, push func(string) oldMessage) string {
				got = push(pushed("7", test.method, test.params))
				return oldDone
			}}
			c := s.reach(t, way, allHandlers())
			r, err := c.CallTool(t.Context(), "greet", nil)
			wantDone(t, r, err)
			if got.answer() != test.want {
				t.Errorf("%s in %s: got %s, want %s", test.method, test.version, got.answer(), test.want)
			}
			if c.Negotiated() != protocol.Version(test.version) {
				t.Errorf("got %s, want %s", c.Negotiated(), test.version)
			}
		})
	}
}

// A legacy session has nothing of the modern wire.
func TestLegacyWire(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		s := &oldServer{caps: `{"tools":{"listChanged":true},"logging":{}}`}
		opts := allHandlers()
		opts.LogLevel = protocol.LevelWarning
		opts.Extensions = map[string]json.RawMessage{"com.example/x": []byte(`{}`)}
		c := s.reach(t, way, opts)
		p := &protocol.CallToolParams{Name: "greet", Arguments: json.RawMessage(`{"n":1}`)}
		p.Extra = protocol.Meta(`{"traceparent":"00-1-2-3","io.modelcontextprotocol/logLevel":"debug"}`)
		r, err := c.CallToolParams(t.Context(), p)
		wantDone(t, r, err)
		if got, want := s.params("tools/call"), `{"name":"greet","arguments":{"n":1},"_meta":{"traceparent":"00-1-2-3"}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		list, err := c.ListTools(t.Context(), "")
		if err != nil || len(list.Tools) != 1 || list.Cache != (protocol.CacheHints{}) {
			t.Fatalf("got %+v, %v, want the one tool, whatever its annotations, and no hints", list, err)
		}
		if _, err := c.ListTools(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		d, err := c.Discover(t.Context())
		if err != nil || d.SupportedVersions[0] != protocol.V20251125 || d.ServerInfo().Name != "old" || d.Instructions != "be gentle" || d.Capabilities.Tools == nil {
			t.Errorf("got %+v, %v", d, err)
		}
		want := []string{"server/discover", "initialize", "notifications/initialized", "logging/setLevel", "tools/call", "tools/list", "tools/list"}
		if got := s.methods(); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got, want := s.params("initialize"), `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}},"clientInfo":{"name":"rondo-client","version":"0"}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := s.params("logging/setLevel"); got != `{"level":"warning"}` {
			t.Errorf("got %s", got)
		}
	})
}

// What looks like a question of a modern server is none, and answers to one
// cannot be sent.
func TestLegacyHasNoRounds(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		s := &oldServer{call: func(oldMessage, func(string) oldMessage) string {
			return `{"resultType":"input_required","inputRequests":{"who":` + nameForm + `},"requestState":"s","content":[{"type":"text","text":"done"}]}`
		}}
		opts := allHandlers()
		opts.ElicitForm = func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			t.Error("somebody was asked")
			return client.Cancel(), nil
		}
		c := s.reach(t, way, opts)
		r, err := c.CallTool(t.Context(), "greet", nil)
		wantDone(t, r, err)
		p := &protocol.CallToolParams{Name: "greet"}
		p.RequestState = protocol.StateText("s")
		if _, err := c.CallToolParams(t.Context(), p); err == nil {
			t.Error("state was sent")
		}
		result, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "greet"})
		if err != nil || pending != nil {
			t.Fatalf("got %v, %v", pending, err)
		}
		wantDone(t, result.(*protocol.CallToolResult), nil)
	})
}

func TestLegacyPushesAreConcurrentAndBounded(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		const most, all = 3, 10
		var open, peak atomic.Int32
		release := make(chan struct{})
		var once sync.Once
		opts := &client.Options{MaxPushes: most, ElicitForm: func(ctx context.Context, _ *client.FormQuestion) (*protocol.ElicitResult, error) {
			if n := open.Add(1); n > peak.Load() {
				peak.Store(n)
			}
			defer open.Add(-1)
			<-release
			return client.Accept(map[string]any{"name": "Ada"})
		}}
		var mu sync.Mutex
		got := map[string]int{}
		s := &oldServer{call: func(_ oldMessage, push func(string) oldMessage) string {
			var wait sync.WaitGroup
			var refused atomic.Int32
			for i := range all {
				wait.Go(func() {
					m := push(pushed(fmt.Sprint(i), "elicitation/create", nameParams))
					if m.Error != nil && refused.Add(1) == all-most {
						once.Do(func() { close(release) })
					}
					mu.Lock()
					got[m.answer()]++
					mu.Unlock()
				})
			}
			wait.Wait()
			return oldDone
		}}
		r, err := s.reach(t, way, opts).CallTool(t.Context(), "greet", nil)
		wantDone(t, r, err)
		if peak.Load() != most || got[fmt.Sprint(protocol.CodeBusy)] != all-most || len(got) != 2 {
			t.Errorf("peak %d, answers %v", peak.Load(), got)
		}
	})
}

// A server that floods its client gets its answers, and the call its result.
func TestLegacyFlood(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		flood := 10_000
		if way != "lines" {
			flood = 2000 // each answer is an HTTP request
		}
		s := &oldServer{call: func(_ oldMessage, push func(string) oldMessage) string {
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
			return oldDone
		}}
		r, err := s.reach(t, way, allHandlers()).CallTool(t.Context(), "greet", nil)
		wantDone(t, r, err)
	})
}

func TestLegacyCancelledByServer(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		asked, cause := make(chan struct{}), make(chan error, 1)
		opts := &client.Options{ElicitForm: func(ctx context.Context, _ *client.FormQuestion) (*protocol.ElicitResult, error) {
			close(asked)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return client.Accept(map[string]any{"name": "Ada"})
		}, PushFailed: func(_ context.Context, err error) { t.Errorf("told of %v", err) }}
		s := &oldServer{call: func(_ oldMessage, push func(string) oldMessage) string {
			go push(pushed("1", "elicitation/create", nameParams))
			<-asked
			push(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"never mind"}}`)
			push(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}`)
			push(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
			if err := <-cause; !strings.Contains(fmt.Sprint(err), "never mind") {
				t.Errorf("cause %v", err)
			}
			push(pushed("2", "ping", "")) // an answer to the first would come before
			return oldDone
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

// The time that people take is not the server's, and the server's is limited.
func TestLegacyTimeout(t *testing.T) {
	const limit = time.Second
	overEach(t, func(t *testing.T, way string) {
		synctest.Test(t, func(t *testing.T) {
			opts := &client.Options{Timeout: limit, ElicitForm: func(ctx context.Context, _ *client.FormQuestion) (*protocol.ElicitResult, error) {
				select {
				case <-time.After(2 * limit):
					return client.Accept(map[string]any{"name": "Ada"})
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}}
			stop := make(chan struct{})
			defer close(stop)
			s := &oldServer{inMemory: true, call: func(m oldMessage, push func(string) oldMessage) string {
				if got := push(pushed("1", "elicitation/create", nameParams)); got.Error != nil {
					t.Errorf("got %s", got.answer())
				}
				if strings.Contains(string(m.Params), "slow") {
					<-stop
				}
				return oldDone
			}}
			c := s.reach(t, way, opts)
			r, err := c.CallTool(t.Context(), "greet", nil)
			wantDone(t, r, err)
			start := time.Now()
			_, err = c.CallTool(t.Context(), "slow", nil)
			if _, ok := errors.AsType[*client.TimeoutError](err); !ok || time.Since(start) != 3*limit {
				t.Errorf("got %v after %v, want a TimeoutError after what the person took and the limit", err, time.Since(start))
			}
		})
	})
}

// A client that gives up in the middle of a question leaves nothing behind that
// waits for the answer.
func TestLegacyCallerGivesUp(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		ctx, cancel := context.WithCancel(t.Context())
		opts := &client.Options{ElicitForm: func(ctx context.Context, _ *client.FormQuestion) (*protocol.ElicitResult, error) {
			cancel()
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		s := &oldServer{call: func(_ oldMessage, push func(string) oldMessage) string {
			push(pushed("1", "elicitation/create", nameParams))
			return oldDone
		}}
		if _, err := s.reach(t, way, opts).CallTool(ctx, "greet", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestURLElicitationRequired(t *testing.T) {
	need := func(ids ...string) string {
		var list []string
		for _, id := range ids {
			list = append(list, fmt.Sprintf(`{"mode":"url","elicitationId":%q,"url":"https://example.com/%s","message":"m"}`, id, id))
		}
		return `{"code":-32042,"message":"This request requires more information.","data":{"elicitations":[` + strings.Join(list, ",") + `]}}`
	}
	always := func(n int) string { return need(fmt.Sprint(n)) }
	tests := []struct {
		name   string
		answer func(n int) string // to the n-th call
		person string
		calls  int
		asked  int
		err    string
	}{
		{"once", func(n int) string { return []string{need("a", "b"), oldDone}[min(n, 1)] }, "accept", 2, 2, ""},
		{"twice", func(n int) string { return []string{need("a"), need("b"), oldDone}[min(n, 2)] }, "accept", 3, 2, ""},
		{"the same again", func(int) string { return need("a") }, "accept", 2, 1, "-32042"},
		{"for ever", always, "accept", 4, 3, "-32042"},
		{"declined", func(int) string { return need("a") }, "decline", 1, 1, "would not visit"},
		{"cancelled", func(int) string { return need("a") }, "cancel", 1, 1, "would not visit"},
		{"hostile URL", func(int) string { return strings.ReplaceAll(need("a"), "https:", "javascript:") }, "accept", 1, 0, "javascript"},
		{"a form", func(int) string { return strings.ReplaceAll(need("a"), `"url"`, `"form"`) }, "accept", 1, 0, "-32042"},
		{"no id", func(int) string { return need("") }, "accept", 1, 0, "elicitationId"},
		{"no data", func(int) string { return `{"code":-32042,"message":"m"}` }, "accept", 1, 0, "-32042"},
		{"empty", func(int) string { return need() }, "accept", 1, 0, "-32042"},
	}
	overEach(t, func(t *testing.T, way string) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				calls, asked := 0, atomic.Int32{}
				s := &oldServer{call: func(oldMessage, func(string) oldMessage) string {
					calls++
					return test.answer(calls - 1)
				}}
				opts := &client.Options{MaxRounds: 3, ElicitURL: func(_ context.Context, q *client.URLQuestion) (*protocol.ElicitResult, error) {
					asked.Add(1)
					if q.Target != "greet" || !strings.HasSuffix(q.URL, q.Key) {
						t.Errorf("asked %+v", q)
					}
					return &protocol.ElicitResult{Action: protocol.ElicitAction(test.person)}, nil
				}}
				r, err := s.reach(t, way, opts).CallTool(t.Context(), "greet", nil)
				if test.err == "" {
					wantDone(t, r, err)
				} else if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %q", err, test.err)
				}
				if calls != test.calls || int(asked.Load()) != test.asked {
					t.Errorf("%d calls and %d questions, want %d and %d", calls, asked.Load(), test.calls, test.asked)
				}
			})
		}
	})
}

func TestLegacyResourceNotFound(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		s := &oldServer{handle: func(m oldMessage) string {
			if m.Method == "resources/read" {
				return `"error":{"code":-32002,"message":"Resource not found","data":{"uri":"file:///x"}}`
			}
			return ""
		}}
		_, err := s.reach(t, way, nil).ReadResource(t.Context(), "file:///x")
		if said, ok := protocol.AsError(err); !ok || said.Code != protocol.CodeResourceNotFound {
			t.Errorf("got %v", err)
		}
	})
}

func TestLegacyProgressAndNotifications(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		progressed, heard := make(chan float64, 1), make(chan string, 8)
		opts := &client.Options{
			Progress: func(_ context.Context, p *protocol.Progress) { progressed <- p.Progress },
			Log:      func(_ context.Context, m *protocol.LogMessage) { heard <- "log " + string(m.Data) },
			Notification: func(_ context.Context, n *protocol.Notification) {
				heard <- n.Method
			},
		}
		s := &oldServer{call: func(m oldMessage, push func(string) oldMessage) string {
			var p struct {
				Meta struct {
					Token json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			}
			_ = json.Unmarshal(m.Params, &p)
			push(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, p.Meta.Token))
			push(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
			push(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"x"}}`)
			for _, want := range []string{"log 1", "notifications/elicitation/complete"} {
				if got := <-heard; got != want {
					t.Errorf("heard %s, want %s", got, want)
				}
			}
			return oldDone
		}}
		r, err := s.reach(t, way, opts).CallTool(t.Context(), "greet", nil)
		wantDone(t, r, err)
		if got := <-progressed; got != 1 {
			t.Errorf("progress %v", got)
		}
	})
}

func TestLegacyListen(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		s := &oldServer{caps: `{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true}}`}
		s.handle = func(m oldMessage) string {
			if m.Method == "resources/subscribe" && strings.Contains(string(m.Params), "none") {
				return `"error":{"code":-32002,"message":"no such resource"}`
			}
			return ""
		}
		s.call = func(_ oldMessage, push func(string) oldMessage) string {
			push(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			push(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
			push(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://a"}}`)
			push(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":null}}`)
			return oldDone
		}
		c := s.reach(t, way, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		events, over, enough := make(chan client.Event, 8), make(chan error, 1), errors.New("enough")
		go func() {
			over <- c.Listen(ctx, protocol.SubscriptionFilter{
				ToolsListChanged: true, PromptsListChanged: true, ResourceSubscriptions: []string{"test://a", "test://none"},
			}, func(_ context.Context, e client.Event) { events <- e })
		}()
		ack := (<-events).(client.Acknowledged).Filter
		if !ack.ToolsListChanged || ack.PromptsListChanged || !slices.Equal(ack.ResourceSubscriptions, []string{"test://a"}) {
			t.Errorf("honoured %+v", ack)
		}
		if way == "get stream" {
			// The answer to a call may overtake what is said beside it.
			go func() { _, _ = c.CallTool(ctx, "greet", nil) }()
		} else if _, err := c.CallTool(ctx, "greet", nil); err != nil {
			t.Fatal(err)
		}
		if got := <-events; got != (client.ToolsChanged{}) {
			t.Errorf("got %#v", got)
		}
		if got := <-events; got != (client.ResourceUpdated{URI: "test://a"}) {
			t.Errorf("got %#v", got)
		}
		cancel(enough)
		if err := <-over; !errors.Is(err, enough) {
			t.Errorf("got %v", err)
		}
		if got := s.params("resources/unsubscribe"); got != `{"uri":"test://a"}` {
			t.Errorf("unsubscribed %q", got)
		}
	})
}
