package hosted_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// request sends a request of revision 2026-07-28 unchanged and returns the result.
func request(t testing.TB, h *hosted.Server, method, members string) string {
	t.Helper()
	params := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}` + members + `}`
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	response, err := h.Server().Handle(ctx, &protocol.Request{ID: protocol.IntID(1),
		Method: method, Params: json.RawMessage(params)}, nil)
	if err != nil {
		return "error: " + err.Error()
	}
	if response.Error != nil {
		return fmt.Sprintf("error %d: %s", response.Error.Code, response.Error.Message)
	}
	return string(response.Result)
}

func TestResultsArePassedOnAsTheyCame(t *testing.T) {
	const tools = `"tools":[{"name":"b","inputSchema":{"type":"object","properties":{"v":true}},` +
		`"x":{"y":[1.0]}},{"name":"b"},{"name":"a","annotations":{"odd":1},"_meta":{"k":null}}],` +
		`"unknown":7`
	answers := map[string]handler{}
	want := map[string]string{}
	for method, members := range map[string]string{
		protocol.MethodListTools:   tools,
		protocol.MethodListPrompts: `"prompts":[{"name":"p","odd":true}],"nextCursor":"x"`,
		protocol.MethodListResources: `"resources":[{"uri":"a:b","name":"r","size":1e3},` +
			`{"uri":"a:b","name":"r"}]`,
		protocol.MethodListResourceTemplates: `"resourceTemplates":[{"uriTemplate":"a:{b}",` +
			`"name":"t"}]`,
		protocol.MethodComplete:     `"completion":{"values":["z","y"],"odd":1}`,
		protocol.MethodGetPrompt:    `"messages":[],"odd":{"deep":[null]}`,
		protocol.MethodReadResource: `"contents":[{"uri":"other:uri","text":"","odd":0}]`,
		protocol.MethodCallTool: `"isError":false,"content":[{"type":"text","text":"x","odd":1},` +
			`{"type":"new kind","z":1}],"structuredContent":[1,2.50]`,
	} {
		name := method
		if method == protocol.MethodCallTool {
			name = "a"
		}
		answers[name] = func(context.Context, *fakeCall) (string, error) {
			return `{"ttlMs":5,"resultType":"complete",` + members + `}`, nil
		}
		want[method] = members
	}
	h := host(t, &fake{answers: answers}, nil)
	for method, members := range want {
		with := map[string]string{
			protocol.MethodComplete: `,"ref":{"type":"ref/prompt","name":"p"},` +
				`"argument":{"name":"a","value":""}`,
			protocol.MethodGetPrompt: `,"name":"p"`, protocol.MethodReadResource: `,"uri":"a:b"`,
			protocol.MethodCallTool: `,"name":"a"`,
		}[method]
		got := request(t, h, method, with)
		if !strings.HasPrefix(got, `{"resultType":"complete",`+members) ||
			strings.Contains(got, `"ttlMs":5`) && method != protocol.MethodReadResource ||
			!strings.Contains(got, `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake"`) {
			t.Errorf("%s: got %s, want %s", method, got, members)
		}
	}
}

func TestTheFrontDescribesTheHostedServer(t *testing.T) {
	h := host(t, &fake{}, nil)
	got := request(t, h, protocol.MethodDiscover, "")
	for _, want := range []string{`"instructions":"be kind"`, `"completions":{}`, `"prompts":{`,
		`"name":"fake"`, `"version":"7"`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	h = host(t, &fake{offers: `{"tools":{}}`}, nil)
	if got := request(t, h, protocol.MethodListPrompts, ""); !strings.Contains(got, "-32601") {
		t.Errorf("prompts of a server without prompts: %s", got)
	}
}

func TestReportsReachTheCall(t *testing.T) {
	f := &fake{answers: map[string]handler{
		"reports": func(ctx context.Context, c *fakeCall) (string, error) {
			for i := range 3 {
				_ = c.notify(ctx, protocol.NotifyProgress,
					fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":3}`, c.token(), i+1))
			}
			_ = c.notify(ctx, protocol.NotifyProgress, `{"progressToken":"other","progress":9}`)
			_ = c.notify(ctx, protocol.NotifyMessage,
				`{"level":"debug","data":"too fine"}`)
			_ = c.notify(ctx, protocol.NotifyMessage,
				`{"level":"error","logger":"l","data":{"a":1}}`)
			return textResult("done"), nil
		},
	}}
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		h := host(t, f, nil)
		var mu sync.Mutex
		var got []string
		logged := make(chan string, 9)
		c := open(t, r.open(t, h), era, client.Options{
			LogLevel: protocol.LevelWarning,
			Log: func(_ context.Context, m *protocol.LogMessage) {
				logged <- m.Logger + string(m.Data)
			},
		})
		ctx := client.WithProgress(t.Context(), func(_ context.Context, p *protocol.Progress) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprint(p.Progress, *p.Total))
		})
		if _, err := c.CallTool(ctx, "reports", nil); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"1 3", "2 3", "3 3"}; !slices.Equal(got, want) {
			t.Errorf("progress: got %q, want %q", got, want)
		}
		if text := <-logged; text != `l{"a":1}` || len(logged) > 0 {
			t.Errorf("log: got %q, and %d more", text, len(logged))
		}
	})
}

func TestChangesReachThoseWhoListen(t *testing.T) {
	f := &fake{answers: map[string]handler{
		protocol.MethodSubscribe: always("{}"), protocol.MethodUnsubscribe: always("{}"),
		"changes": func(ctx context.Context, c *fakeCall) (string, error) {
			ctx, cancel := context.WithCancel(ctx)
			cancel() // does not matter to subscribers
			return textResult("done"), c.notify(ctx, protocol.NotifyResourceUpdated,
				`{"uri":"a:b"}`)
		},
	}}
	eachWay(t, func(t *testing.T, r route, era protocol.Era) {
		h := host(t, f, nil)
		c := open(t, r.open(t, h), era, client.Options{})
		events := make(chan string, 10)
		listening, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Listen(listening, protocol.SubscriptionFilter{ToolsListChanged: true,
				ResourceSubscriptions: []string{"a:b"}},
				func(_ context.Context, e client.ListenEvent) {
					events <- fmt.Sprintf("%T", e)
				})
		}()
		defer func() { stop(); <-ended }()
		wait := func(want string) {
			t.Helper()
			select {
			case got := <-events:
				if !strings.Contains(got, want) {
					t.Errorf("got %s, want %s", got, want)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("no %s", want)
			}
		}
		wait("Acknowledged")
		back := f.last().back
		_ = back.Notify(t.Context(), &protocol.Notification{Method: protocol.NotifyToolsChanged})
		wait("ToolsChanged")
		for _, uri := range []string{"a:other", "a:b"} {
			_ = back.Notify(t.Context(), &protocol.Notification{
				Method: protocol.NotifyResourceUpdated,
				Params: json.RawMessage(`{"uri":"` + uri + `"}`)})
		}
		wait("ResourceUpdated")
		if era == protocol.Legacy || r.name == "stdio" { // otherwise the call has another session
			wantText(t, c, "changes", "done")
			wait("ResourceUpdated")
		}
	})
}
