package server_test

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

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

var legacyVersions = []protocol.Version{protocol.V20241105, protocol.V20250326, protocol.V20250618,
	protocol.V20251125}

// A visitor is a legacy client with an in-memory transport. Its messages are checked against the
// published schema.
type visitor struct {
	*testing.T
	h       *harness
	session *server.Session
	version protocol.Version
	log     wiretest.Log
	// answer answers a question; nil means never.
	answer func(req *protocol.Request) *protocol.Response

	mu        sync.Mutex
	lastID    int64
	questions []*protocol.Request
	notes     []*protocol.Notification // on the streams of requests
	news      chan *protocol.Notification
}

func (h *harness) visit(v protocol.Version) *visitor {
	h.Helper()
	c := &visitor{T: h.T, h: h, version: v, news: make(chan *protocol.Notification, 100)}
	c.session = h.NewSession(protocol.LocalPrincipal(),
		func(_ context.Context, m protocol.Message) error {
			c.add(wiretest.Server, m)
			c.news <- m.(*protocol.Notification)
			return nil
		})
	h.Cleanup(func() {
		c.session.Close()
		wiretest.Conform(c.T, string(c.version), c.log.Messages())
	})
	return c
}

func (h *harness) enter(v protocol.Version, capabilities string) *visitor {
	h.Helper()
	c := h.visit(v)
	wantCode(c, "the response", c.initialize(string(v), capabilities), 0)
	c.notify(protocol.NotifyInitialized, "")
	return c
}

func (c *visitor) initialize(version, capabilities string) *protocol.Response {
	c.Helper()
	return c.request(protocol.MethodInitialize, fmt.Sprintf(
		`{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"visitor","version":"1"}}`, version, capabilities))
}

func (c *visitor) add(from wiretest.From, m protocol.Message) {
	raw, err := protocol.AppendMessage(nil, m)
	if err != nil {
		c.Errorf("message cannot be sent: %v", err)
	}
	c.log.Add(from, raw)
}

func (c *visitor) notify(method, params string) {
	n := &protocol.Notification{Method: method}
	if params != "" {
		n.Params = json.RawMessage(params)
	}
	c.add(wiretest.Client, n)
	c.session.Notify(c.Context(), n)
}

// request returns the response, or nil.
func (c *visitor) request(method, params string) *protocol.Response {
	c.Helper()
	return c.serve(c.admit(method, params))
}

func (c *visitor) admit(method, params string) *server.Admission {
	c.Helper()
	return c.admitWith(method, params, server.Delivery{Back: c})
}

func (c *visitor) admitWith(method, params string, d server.Delivery) *server.Admission {
	c.mu.Lock()
	c.lastID++
	req := messageOf(c.lastID, method, "")
	c.mu.Unlock()
	if params != "" {
		req.Params = json.RawMessage(params)
	}
	c.add(wiretest.Client, req)
	return c.session.Admit(req, d)
}

func (c *visitor) serve(in *server.Admission) *protocol.Response {
	c.Helper()
	response := c.h.Serve(c.Context(), in)
	if in.Abandoned() {
		return nil
	}
	c.add(wiretest.Server, response)
	return response
}

func (c *visitor) Notify(_ context.Context, n *protocol.Notification) error {
	c.add(wiretest.Server, n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, n)
	return nil
}

func (c *visitor) Send(ctx context.Context, m protocol.Message) error {
	req, ok := m.(*protocol.Request)
	if !ok {
		return c.Notify(ctx, m.(*protocol.Notification))
	}
	c.add(wiretest.Server, req)
	c.mu.Lock()
	c.questions = append(c.questions, req)
	c.mu.Unlock()
	if c.answer == nil {
		return nil
	}
	go func() {
		if r := c.answer(req); r != nil {
			r.ID = req.ID
			c.add(wiretest.Client, r)
			if !c.session.Deliver(r) {
				c.Errorf("the answer to %s is nobody's", req.ID)
			}
		}
	}()
	return nil
}

func (c *visitor) asked() []*protocol.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.questions)
}

func (c *visitor) noted(method string) (params []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.notes {
		if n.Method == method {
			params = append(params, string(n.Params))
		}
	}
	return params
}

// call returns the tool's text, after "error: " if it failed, or an error code.
func (c *visitor) call(name, arguments string) string {
	c.Helper()
	return told(c.request(protocol.MethodCallTool,
		fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments)))
}

func told(r *protocol.Response) string {
	if r == nil {
		return "nothing"
	}
	if r.Error != nil {
		return fmt.Sprintf("code %d", r.Error.Code)
	}
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(r.Result, &result); err != nil || len(result.Content) == 0 {
		return string(r.Result)
	}
	if result.IsError {
		return "error: " + result.Content[0].Text
	}
	return result.Content[0].Text
}

func answering(result string) func(*protocol.Request) *protocol.Response {
	return func(*protocol.Request) *protocol.Response {
		return &protocol.Response{Result: json.RawMessage(result)}
	}
}

func TestSessionNegotiation(t *testing.T) {
	for _, tc := range []struct{ wanted, want string }{
		{"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"}, {"2025-06-18", "2025-06-18"},
		{"2025-11-25", "2025-11-25"},
		{"2026-07-28", "2025-11-25"}, {"2099-01-01", "2025-11-25"}, {"2024-10-07", "2025-11-25"},
		{"1", "2025-11-25"},
	} {
		t.Run(tc.wanted, func(t *testing.T) {
			h := newHarness(t, &server.Options{Info: protocol.Implementation{Name: "s",
				Version: "2"}, Instructions: "ask"})
			c := h.visit(protocol.Version(tc.want))
			wantEqual(t, "version before initialize", c.session.Version(), protocol.Version(""))
			r := c.initialize(tc.wanted, `{}`)
			var result struct {
				ProtocolVersion, Instructions string
				ServerInfo                    struct{ Name, Version string }
			}
			if r.Error != nil || json.Unmarshal(r.Result, &result) != nil {
				t.Fatalf("got %s, %v", r.Result, r.Error)
			}
			if result.ProtocolVersion != tc.want || string(c.session.Version()) != tc.want ||
				result.Instructions != "ask" || result.ServerInfo.Name != "s" {
				t.Errorf("got %s in %s, want %s", r.Result, c.session.Version(), tc.want)
			}
		})
	}
}

func TestSessionLifecycle(t *testing.T) {
	h := newHarness(t, nil)
	h.plain()
	c := h.visit(protocol.V20251125)
	for _, method := range []string{protocol.MethodListTools, protocol.MethodSetLevel,
		protocol.MethodDiscover, "unheard/of"} {
		early := c.session.Admit(messageOf(1, method, ""), server.Delivery{})
		wantCode(t, "the response", c.h.Serve(t.Context(), early), protocol.CodeInvalidRequest)
	}
	if r := c.request(protocol.MethodPing, ""); string(r.Result) != "{}" {
		t.Errorf("ping before initialize: %s, %v", r.Result, r.Error)
	}
	bad := c.session.Admit(messageOf(1, protocol.MethodInitialize, `{}`), server.Delivery{})
	if r := c.h.Serve(t.Context(), bad); r.Error == nil ||
		r.Error.Code != protocol.CodeInvalidParams || c.session.Version() != "" {
		t.Errorf("bad initialize: got %v", r.Error)
	}
	wantCode(t, "the response", c.initialize("2025-11-25", `{}`), 0)
	r := c.initialize("2025-11-25", `{}`)
	wantCode(t, "second initialize", r, protocol.CodeInvalidRequest)
	for _, method := range []string{protocol.MethodDiscover, protocol.MethodListen, "unheard/of",
		protocol.MethodListPrompts, protocol.MethodSubscribe} {
		in := c.session.Admit(messageOf(1, method, `{"uri":"a"}`), server.Delivery{})
		wantCode(t, "the response", c.h.Serve(t.Context(), in), protocol.CodeMethodNotFound)
	}
	c.session.Close()
	if r := c.request(protocol.MethodListTools, ""); r.Error == nil ||
		r.Error.Code != protocol.CodeBusy || string(r.Error.Data) != `{"retryAfterMs":1000}` {
		t.Errorf("after Close: got %s, %v", r.Result, r.Error)
	}
	if r := c.h.Serve(t.Context(), c.session.Admit(nil, server.Delivery{})); r.Error == nil {
		t.Error("a nil request was served")
	}
	c.session.Notify(t.Context(), nil)
	if c.session.Deliver(nil) {
		t.Error("a nil response was delivered")
	}
}

// An initialize that fails late leaves no session.
func TestSessionOpensOrNot(t *testing.T) {
	fail := true
	h := newHarness(t,
		&server.Options{Middleware: []server.Middleware{func(next server.Handler) server.Handler {
			return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
				if fail {
					return nil, protocol.Errorf(protocol.CodeBusy, "not now")
				}
				return next(ctx, request)
			}
		}}})
	c := h.visit(protocol.V20250618)
	if r := c.initialize("2025-06-18", `{}`); r.Error == nil || c.session.Version() != "" {
		t.Errorf("got %v, open in %q", r.Error, c.session.Version())
	}
	fail = false
	r := c.initialize("2025-06-18", `{}`)
	if r.Error != nil || c.session.Version() != "2025-06-18" {
		t.Errorf("got %v, open in %q", r.Error, c.session.Version())
	}
}

func TestSessionModernOnly(t *testing.T) {
	h := newHarness(t, &server.Options{ModernOnly: true})
	c := h.visit(protocol.V20251125)
	r := c.initialize("2025-11-25", `{}`)
	if r.Error == nil || r.Error.Code != protocol.CodeMethodNotFound ||
		!strings.Contains(r.Error.Message, "2026-07-28") ||
		!strings.Contains(string(r.Error.Data), "2026-07-28") {
		t.Errorf("got %s, %v", r.Result, r.Error)
	}
}

func full(t *testing.T, opts *server.Options) *harness {
	h := newHarness(t, opts)
	h.plain()
	server.AddRawTool(h.Server,
		server.Tool{Name: "list", OutputSchema: json.RawMessage(`{"type":"array"}`)},
		outcome(
			&protocol.CallToolResult{
				Content:           []protocol.Content{&protocol.TextContent{Text: "[1]"}},
				StructuredContent: json.RawMessage(`[1]`)}, nil))
	server.AddPrompt(h.Server, server.Prompt{Name: "p",
		Complete: func(context.Context, *server.CompleteCall) ([]string, error) {
			return []string{"ab", "ac"}, nil
		}, Arguments: []protocol.PromptArgument{{Name: "arg"}}},
		func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return &protocol.GetPromptResult{
				Messages: []protocol.PromptMessage{server.UserText("hello")}}, nil
		})
	read := func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
		return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{{Text: "r"}},
			Cache: protocol.CacheHints{TTLMillis: 5, Public: true}}, nil
	}
	server.AddResource(h.Server, server.Resource{URI: "test://r", Name: "r"}, read)
	server.AddResourceTemplate(h.Server,
		server.ResourceTemplate{URITemplate: "test://t/{x}", Name: "t"},
		func(_ context.Context, call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return nil, protocol.ResourceNotFound(call.URI)
		})
	return h
}

// Every request of every revision is answered according to its schema.
func TestSessionMethods(t *testing.T) {
	for _, v := range legacyVersions {
		for _, wrapped := range []bool{false, true} {
			t.Run(fmt.Sprint(v, wrapped), func(t *testing.T) {
				opts := &server.Options{PageSize: 1}
				if wrapped { // lists are not cached then
					opts.Middleware = []server.Middleware{func(next server.Handler) server.Handler {
						return next
					}}
				}
				c := full(t, opts).enter(v, allCapabilities)
				for _, tc := range []struct{ method, params, want string }{
					{protocol.MethodPing, "", "{}"},
					{protocol.MethodPing, `{"_meta":{"progressToken":1}}`, "{}"},
					{protocol.MethodListTools, "", `{"tools":[{"name":"x","inputSchema":{"type":"object"}}],"nextCursor":"dG9vbHMvbGlzdCAx"}`},
					{protocol.MethodListTools, `{"cursor":"dG9vbHMvbGlzdCAx"}`, `{"tools":[{"name":"list","inputSchema":{"type":"object"}}]}`},
					{protocol.MethodCallTool, `{"name":"x"}`, `{"content":[{"type":"text","text":"x"}]}`},
					{protocol.MethodCallTool, `{"name":"list"}`, `{"content":[{"type":"text","text":"[1]"}]}`},
					{protocol.MethodListPrompts, "", `{"prompts":[{"name":"p","arguments":[{"name":"arg"}]}]}`},
					{protocol.MethodGetPrompt, `{"name":"p"}`, `{"messages":[{"role":"user","content":{"type":"text","text":"hello"}}]}`},
					{protocol.MethodListResources, "", `{"resources":[{"uri":"test://r","name":"r"}]}`},
					{protocol.MethodListResourceTemplates, "", `{"resourceTemplates":[{"uriTemplate":"test://t/{x}","name":"t"}]}`},
					{protocol.MethodReadResource, `{"uri":"test://r"}`, `{"contents":[{"uri":"test://r","text":"r"}]}`},
					{protocol.MethodReadResource, `{"uri":"test://none"}`,
						`code -32002 {"uri":"test://none"}`},
					{protocol.MethodReadResource, `{"uri":"test://t/1"}`,
						`code -32002 {"uri":"test://t/1"}`},
					{protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"arg","value":"a"}}`, `{"completion":{"values":["ab","ac"],"total":2}}`},
					{protocol.MethodSetLevel, `{"level":"debug"}`, "{}"},
					{protocol.MethodSubscribe, `{"uri":"test://r"}`, "{}"},
					{protocol.MethodUnsubscribe, `{"uri":"test://r"}`, "{}"},
					{protocol.MethodUnsubscribe, `{"uri":"test://r"}`, "{}"},
					{protocol.MethodCallTool, `{"name":"unknown"}`, `code -32602 `},
				} {
					r := c.request(tc.method, tc.params)
					got := string(r.Result)
					if r.Error != nil {
						got = fmt.Sprintf("code %d %s", r.Error.Code, string(r.Error.Data))
					}
					if got != tc.want {
						t.Errorf("%s %s:\ngot  %s\nwant %s", tc.method, tc.params, got, tc.want)
					}
				}
				for _, bad := range []struct{ method, params string }{
					{protocol.MethodSetLevel, `{"level":"loud"}`}, {protocol.MethodSubscribe, `{}`},
					{protocol.MethodCallTool, ``},
				} {
					in := c.session.Admit(messageOf(99, bad.method, bad.params), server.Delivery{})
					wantCode(t, "the response",
						c.h.Serve(t.Context(), in), protocol.CodeInvalidParams)
				}
			})
		}
	}
}

func TestSessionCapabilities(t *testing.T) {
	for _, v := range legacyVersions {
		h := full(t, &server.Options{
			Info: protocol.Implementation{Name: "s", Version: "1", Title: "S",
				Description: "d", WebsiteURL: "https://s.example",
				Icons: []protocol.Icon{{Src: "https://s.example/i"}}},
			Capabilities: protocol.ServerCapabilities{
				Extensions: map[string]json.RawMessage{"com.example/x": json.RawMessage(`{}`)}},
		})
		r := h.visit(v).initialize(string(v), `{}`)
		text := string(r.Result)
		for word, since := range map[string]protocol.Version{
			`"tools":{"listChanged":true}`: "2024", `"resources":{"listChanged":true,"subscribe":true}`: "2024", `"logging":{}`: "2024",
			`"completions":{}`: protocol.V20250326, `"title":"S"`: protocol.V20250618,
			`"description":"d"`: protocol.V20251125,
			"icons":             protocol.V20251125, "websiteUrl": protocol.V20251125,
			"extensions": protocol.V20260728, "_meta": protocol.V20260728,
		} {
			if got, want := strings.Contains(text, word), v >= since; got != want {
				t.Errorf("%s: %s declared: %v, want %v: %s", v, word, got, want, text)
			}
		}
	}
}

// Answers and state do not exist in a session, and capabilities are the session's.
func TestSessionIgnoresModernMembers(t *testing.T) {
	h := newHarness(t, nil)
	server.AddRawTool(h.Server, server.Tool{Name: "ask", AcceptUnsolicited: true},
		func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
			if !call.Capabilities().IsZero() || call.ClientInfo().Name != "visitor" ||
				roundtrip.RoundOf(ctx).Number != 1 {
				t.Errorf("capabilities %s of %+v in round %d", call.Capabilities(),
					call.ClientInfo(),
					roundtrip.RoundOf(ctx).Number)
			}
			if reply := roundtrip.Answer[Reason](ctx,
				"confirm"); reply.Outcome != roundtrip.Missing {
				t.Errorf("reply %+v", reply)
			}
			return roundtrip.InputRequired(roundtrip.Elicit[Reason]("confirm", "?")), nil
		})
	c := h.visit(protocol.V20251125)
	c.initialize("2025-11-25", `{}`)
	in := c.session.Admit(messageOf(7, protocol.MethodCallTool, `{"name":"ask","requestState":"x","inputResponses":{"confirm":{"action":"accept","content":{"reason":"now"}}},
		"_meta":{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"liar","version":"1"}}}`),
		server.Delivery{Back: c})
	if got := told(c.h.Serve(t.Context(), in)); !strings.HasPrefix(got,
		"error: the client does not support: elicitation") || len(c.asked()) != 0 {
		t.Errorf("got %q", got)
	}
}

type Reason struct {
	Reason string `json:"reason" default:"none"`
}

const acceptedNow = `{"action":"accept","content":{"reason":"now"}}`

// The level is info until the client sets it, in each session.
func TestSessionLogLevel(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("log", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		for _, level := range []protocol.LoggingLevel{protocol.LevelDebug, protocol.LevelInfo,
			protocol.LevelError} {
			if err := call.Log(ctx, level, "", string(level)); err != nil {
				t.Error(err)
			}
		}
		return server.Text("done"), nil
	})
	a, b := h.enter(protocol.V20251125, `{}`), h.enter(protocol.V20241105, `{}`)
	for _, step := range []struct {
		c     *visitor
		level string
		want  int
	}{{a, "", 2}, {a, "debug", 3}, {a, "emergency", 0}, {b, "", 2}, {b, "error", 1}} {
		if step.level != "" {
			step.c.request(protocol.MethodSetLevel, fmt.Sprintf(`{"level":%q}`, step.level))
		}
		before := len(step.c.noted(protocol.NotifyMessage))
		step.c.call("log", "{}")
		wantEqual(t, fmt.Sprintf("level %q: messages", step.level),
			len(step.c.noted(protocol.NotifyMessage))-before, step.want)
	}
}

// Changes are sent once, after initialized, if declared or subscribed to.
func TestSessionNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, &server.Options{
			Capabilities: protocol.ServerCapabilities{Resources: &protocol.ResourcesCapability{}},
			Visible: func(_ protocol.Principal, _ server.Kind, name string) bool {
				return name != "test://hidden"
			}})
		h.plain()
		c := h.visit(protocol.V20250618)
		c.initialize("2025-06-18", `{}`)
		read := func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome,
			error) {
			return nil, nil
		}
		add := func(uri string) {
			server.AddResource(h.Server, server.Resource{URI: uri, Name: "r"}, read)
		}
		add("test://a")
		add("test://hidden")
		h.tool("more", outcome(nil, nil))
		server.AddPrompt(h.Server, server.Prompt{Name: "undeclared"}, getNothing)
		for _, uri := range []string{"test://a", "test://a", "test://hidden", "test://unknown"} {
			c.request(protocol.MethodSubscribe, fmt.Sprintf(`{"uri":%q}`, uri))
		}
		got := func() (all []string) {
			synctest.Wait()
			for {
				select {
				case n := <-c.news:
					all = append(all, n.Method+" "+string(n.Params))
				default:
					return all
				}
			}
		}
		h.ResourceUpdated("test://a")
		wantList(t, "before initialized", got(), nil)
		c.notify(protocol.NotifyInitialized, "")
		h.ResourceUpdated("test://hidden")
		h.ResourceUpdated("test://unknown")
		want := []string{"notifications/resources/list_changed {}", "notifications/tools/list_changed {}", `notifications/resources/updated {"uri":"test://a"}`}
		wantList(t, "after initialized", got(), want)
		h.ResourceUpdated("test://a")
		if list := got(); len(list) != 1 {
			t.Errorf("update: %q", list)
		}
		c.request(protocol.MethodUnsubscribe, `{"uri":"test://a"}`)
		h.ResourceUpdated("test://a")
		wantList(t, "unsubscribed", got(), nil)
		c.session.Close()
		h.RemoveTool("more")
		wantList(t, "closed", got(), nil)
	})
}

// A client that does not read costs one set of changes.
func TestSessionNewsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := full(t, nil)
		sent, hold := make(chan protocol.Message, 100), make(chan struct{})
		x := h.NewSession(protocol.LocalPrincipal(),
			func(_ context.Context, m protocol.Message) error {
				<-hold
				sent <- m
				return errors.New("nobody listens")
			})
		defer x.Close()
		params := json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
		h.Serve(t.Context(), x.Admit(&protocol.Request{ID: protocol.IntID(1),
			Method: protocol.MethodInitialize, Params: params}, server.Delivery{}))
		x.Notify(t.Context(), &protocol.Notification{Method: protocol.NotifyInitialized})
		change := func() {
			h.tool("new", outcome(nil, nil))
			h.RemoveTool("new")
		}
		change()
		synctest.Wait()
		for range 1000 {
			change()
		}
		close(hold)
		synctest.Wait()
		wantEqual(t, "notifications for 1001 changes", len(sent), 2)
	})
}

func TestSessionSubscriptionsAreBounded(t *testing.T) {
	c := full(t, nil).enter(protocol.V20251125, `{}`)
	subscribe := func(uri string) *protocol.Error {
		return c.h.Serve(t.Context(),
			c.session.Admit(messageOf(1, protocol.MethodSubscribe, fmt.Sprintf(`{"uri":%q}`, uri)),
				server.Delivery{})).Error
	}
	for i := range 1000 {
		if e := subscribe(fmt.Sprint("test://", i)); e != nil {
			t.Fatal(i, e)
		}
	}
	if e := subscribe("test://one-more"); e == nil || e.Code != protocol.CodeBusy {
		t.Errorf("got %v", e)
	}
	if e := subscribe("test://5"); e != nil {
		t.Errorf("one that is there: %v", e)
	}
	d := full(t, nil).enter(protocol.V20251125, `{}`)
	c = d
	if e := subscribe("test://" + strings.Repeat("x", 256<<10)); e == nil ||
		e.Code != protocol.CodeBusy {
		t.Errorf("a long URI: got %v", e)
	}
}

// The request ends without response; its question is withdrawn on its stream.
func TestSessionCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		addAsker(h)
		c := h.enter(protocol.V20251125, allCapabilities)
		done := make(chan *protocol.Response)
		in := c.admit(protocol.MethodCallTool, `{"name":"ask"}`)
		go func() { done <- c.serve(in) }()
		synctest.Wait()
		if twice := c.h.Serve(t.Context(),
			c.session.Admit(&protocol.Request{ID: in.Request().Message.ID,
				Method: protocol.MethodPing}, server.Delivery{})); twice.Error == nil ||
			twice.Error.Code != protocol.CodeInvalidRequest {
			t.Errorf("the same id twice: %v", twice.Error)
		}
		wantEqual(t, "running", server.Running(c.session), 1)
		c.notify(protocol.NotifyCancelled, `{"requestId":999}`)
		// a string is another id
		c.notify(protocol.NotifyCancelled, fmt.Sprintf(`{"requestId":%q}`, in.Request().Message.ID))
		c.notify(protocol.NotifyCancelled, fmt.Sprintf(`{"requestId":%s}`, in.Request().Message.ID))
		if r := <-done; r != nil {
			t.Errorf("answered %s, %v", r.Result, r.Error)
		}
		if gone := c.noted(protocol.NotifyCancelled); len(gone) != 1 ||
			!strings.Contains(gone[0], c.asked()[0].ID.String()) {
			t.Errorf("withdrawn %q", gone)
		}
		wantEqual(t, "running", server.Running(c.session), 0)
		late := &protocol.Response{ID: c.asked()[0].ID, Result: json.RawMessage(acceptedNow)}
		if c.session.Deliver(late) {
			t.Error("a late answer is taken")
		}
	})
}

func addAsker(h *harness) {
	h.tool("ask", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		switch reply := roundtrip.Answer[Reason](ctx, "confirm"); reply.Outcome {
		case roundtrip.Accepted:
			return server.Text(reply.Content.Reason), nil
		case roundtrip.Declined, roundtrip.Cancelled:
			return server.Text(reply.Outcome.String()), nil
		}
		return roundtrip.InputRequired(roundtrip.Elicit[Reason]("confirm", "Sure?")), nil
	})
}

// The question has a progress token; reports extend the timeout.
func TestSessionProgressExtends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		addAsker(h)
		c := h.enter(protocol.V20251125, allCapabilities)
		c.answer = func(req *protocol.Request) *protocol.Response {
			var params struct {
				Meta struct{ ProgressToken string } `json:"_meta"`
			}
			if err := json.Unmarshal(req.Params, &params); err != nil ||
				params.Meta.ProgressToken == "" {
				t.Errorf("no progress token: %s", req.Params)
			}
			for i := range 3 {
				time.Sleep(9 * time.Minute)
				c.notify(protocol.NotifyProgress,
					fmt.Sprintf(`{"progressToken":%q,"progress":%d}`, params.Meta.ProgressToken, i))
				c.notify(protocol.NotifyProgress, `{"progressToken":"another","progress":1}`)
			}
			return &protocol.Response{Result: json.RawMessage(acceptedNow)}
		}
		wantEqual(t, "the result", c.call("ask", "{}"), "now")
		c.answer = nil
		start := time.Now()
		if got := c.call("ask", "{}"); !strings.Contains(got, "nobody answered in time") ||
			time.Since(start) != (10*time.Minute) {
			t.Errorf("got %q after %v", got, time.Since(start))
		}
	})
}

// A rerun handler may repeat its reports; the client gets each step once.
func TestSessionProgressAgain(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("slow", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		for i := range 2 {
			if err := call.Progress(ctx, float64(i), 3, ""); err != nil {
				return nil, err
			}
		}
		if err := call.Progress(ctx, 1, 3, ""); err == nil {
			t.Error("progress that does not increase is no error")
		}
		if _, ok := roundtrip.AcceptedContent[Reason](ctx, "confirm"); !ok {
			return roundtrip.InputRequired(roundtrip.Elicit[Reason]("confirm", "Sure?")), nil
		}
		return server.Text("done"), call.Progress(ctx, 2, 3, "")
	})
	c := h.enter(protocol.V20251125, allCapabilities)
	c.answer = answering(acceptedNow)
	r := c.request(protocol.MethodCallTool, `{"name":"slow","_meta":{"progressToken":"p"}}`)
	wantEqual(t, "the result", told(r), "done")
	want := []string{
		`{"progressToken":"p","progress":0,"total":3}`, `{"progressToken":"p","progress":1,"total":3}`, `{"progressToken":"p","progress":2,"total":3}`,
	}
	wantList(t, "sent", c.noted(protocol.NotifyProgress), want)
}

func TestSessionDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		addAsker(h)
		a, b := h.enter(protocol.V20251125, allCapabilities),
			h.enter(protocol.V20251125, allCapabilities)
		done := make(chan *protocol.Response)
		go func() { done <- a.request(protocol.MethodCallTool, `{"name":"ask"}`) }()
		synctest.Wait()
		id := a.asked()[0].ID
		answer := &protocol.Response{ID: id, Result: json.RawMessage(acceptedNow)}
		for _, wrong := range []struct {
			x *server.Session
			r *protocol.Response
		}{{b.session, answer}, {a.session, &protocol.Response{ID: protocol.StringID("server-9")}},
			{a.session, &protocol.Response{}}} {
			if wrong.x.Deliver(wrong.r) {
				t.Errorf("the answer %s is taken", wrong.r.ID)
			}
		}
		buffer := []byte(acceptedNow)
		answer.Result = buffer
		if !a.session.Deliver(answer) {
			t.Error("the answer is not taken")
		}
		clear(buffer) // the transport uses it again
		if a.session.Deliver(answer) {
			t.Error("it is taken twice")
		}
		wantEqual(t, "the result", told(<-done), "now")
		a.answer = func(*protocol.Request) *protocol.Response {
			return &protocol.Response{Error: protocol.Errorf(-32602, "no such mode")}
		}
		wantPart(t, "the result", a.call("ask", "{}"), "no such mode")
		if ids := a.asked(); ids[0].ID == ids[1].ID {
			t.Errorf("id %s was used twice", ids[0].ID)
		}
	})
}

// Closing cancels requests and fails questions.
func TestSessionClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		addAsker(h)
		_, _, causes := h.blocking()
		c := h.enter(protocol.V20251125, allCapabilities)
		done := make(chan string, 2)
		go func() { done <- c.call("ask", "{}") }()
		go func() { done <- c.call("block", "{}") }()
		synctest.Wait()
		c.session.Close()
		c.session.Close()
		<-done
		<-done
		wantIs(t, "cause", <-causes, server.ErrSessionClosed)
	})
}

func TestSessionWithoutBack(t *testing.T) {
	h := newHarness(t, nil)
	addAsker(h)
	c := h.enter(protocol.V20251125, allCapabilities)
	in := c.admitWith(protocol.MethodCallTool, `{"name":"ask"}`, server.Delivery{})
	wantPart(t, "the result", told(c.serve(in)), "no session")
}

// Missing capabilities are refused before the handler, in the manner of the method.
func TestSessionNeeds(t *testing.T) {
	h := newHarness(t, nil)
	needs := protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}
	server.AddRawTool(h.Server, server.Tool{Name: "needy", Needs: needs}, says("ran"))
	server.AddPrompt(h.Server, server.Prompt{Name: "needy", Needs: needs},
		func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return nil, errors.New("ran")
		})
	c := h.enter(protocol.V20251125, `{}`)
	if got := c.call("needy", "{}"); got != "error: the client does not support: roots; use a "+
		"client that does" {
		t.Errorf("got %q", got)
	}
	r := c.request(protocol.MethodGetPrompt, `{"name":"needy"}`)
	wantCode(t, "the response", r, protocol.CodeCannotAsk)
}

// The session's principal applies to all its requests, and middleware runs once per call.
func TestSessionPrincipal(t *testing.T) {
	ada := protocol.Principal{Issuer: "i", Subject: "ada"}
	var seen []string
	h := newHarness(t, &server.Options{
		Visible: func(p protocol.Principal, _ server.Kind, name string) bool {
			return p == ada || name != "ask"
		},
		Middleware: []server.Middleware{func(next server.Handler) server.Handler {
			return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
				seen = append(seen, fmt.Sprint(request.Message.Method, " ", request.Version, " ",
					request.Principal))
				return next(ctx, request)
			}
		}},
	})
	addAsker(h)
	c := &visitor{T: t, h: h, version: protocol.V20250618, answer: answering(acceptedNow)}
	c.session = h.NewSession(ada, nil)
	defer c.session.Close()
	c.initialize("2025-06-18", `{"elicitation":{}}`)
	wantEqual(t, "the result", c.call("ask", "{}"), "now")
	wantList(t, "middleware saw",
		seen, []string{"initialize 2025-06-18 i ada", "tools/call 2025-06-18 i ada"})
	got := h.enter(protocol.V20250618, `{"elicitation":{}}`).call("ask", "{}")
	wantEqual(t, "somebody else", got, "code -32602")
}

func TestSessionWithoutNews(t *testing.T) {
	h := full(t, nil)
	c := &visitor{T: t, h: h, version: protocol.V20251125}
	c.session = h.NewSession(protocol.LocalPrincipal(), nil)
	defer c.session.Close()
	if r := c.initialize("2025-11-25", `{}`); strings.Contains(string(r.Result), "listChanged") ||
		strings.Contains(string(r.Result), "subscribe") {
		t.Errorf("news are promised: %s", r.Result)
	}
	r := c.request(protocol.MethodSubscribe, `{"uri":"test://r"}`)
	wantCode(t, "subscribe", r, protocol.CodeMethodNotFound)
	h.RemoveTool("x")
	c.notify(protocol.NotifyInitialized, "")
	if again := full(t, nil).enter(protocol.V20251125, `{}`); again.session.Version() == "" {
		t.Error("not open")
	}
}

// A request without a session is served in its revision, without questions.
func TestRequestsWithoutASession(t *testing.T) {
	h := newHarness(t, nil)
	addAsker(h)
	for _, v := range legacyVersions {
		t.Run(string(v), func(t *testing.T) {
			serve := func(method, params string) *protocol.Response {
				in, end := h.AdmitStateless(messageOf(1, method, params), v,
					server.Delivery{Principal: protocol.LocalPrincipal()})
				defer end()
				wantEqual(t, "served in", in.Request().Version, v)
				return h.Serve(t.Context(), in)
			}
			wantCode(t, "the response", serve(protocol.MethodListTools, `{}`), 0)
			r := serve(protocol.MethodCallTool, `{"name":"ask","arguments":{}}`)
			if r.Error != nil || !strings.Contains(string(r.Result), "it has no session") {
				t.Errorf("got %s, %v", r.Result, r.Error)
			}
		})
	}
}

// Changes before unsubscribing are not sent afterwards.
func TestSessionUnsubscribedNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := full(t, nil)
		c := h.visit(protocol.V20251125)
		c.initialize("2025-11-25", `{}`)
		c.request(protocol.MethodSubscribe, `{"uri":"test://r"}`)
		h.ResourceUpdated("test://r")
		c.request(protocol.MethodUnsubscribe, `{"uri":"test://r"}`)
		c.notify(protocol.NotifyInitialized, "")
		synctest.Wait()
		if len(c.news) != 0 {
			t.Errorf("told of %+v", <-c.news)
		}
	})
}

// initialize cannot be cancelled (basic/utilities/cancellation).
func TestSessionInitializeIsNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		h := newHarness(t, &server.Options{
			Middleware: []server.Middleware{func(next server.Handler) server.Handler {
				return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
					<-hold
					if ctx.Err() != nil {
						return nil, context.Cause(ctx)
					}
					return next(ctx, request)
				}
			}}})
		c := h.visit(protocol.V20251125)
		done := make(chan *protocol.Response)
		go func() { done <- c.initialize("2025-11-25", `{}`) }()
		synctest.Wait()
		c.notify(protocol.NotifyCancelled, `{"requestId":1}`)
		close(hold)
		if r := <-done; r == nil || r.Error != nil {
			t.Errorf("initialize was cancelled: %+v", r)
		}
	})
}

// The error names the member as sent.
func TestMalformedInitialize(t *testing.T) {
	const version, meta = `"protocolVersion":"2025-11-25"`, `"_meta":{"io.modelcontextprotocol/`
	for _, tc := range []struct{ name, params, names string }{
		{"no version", `{}`, "protocolVersion: "},
		{"version", `{"protocolVersion":5,"capabilities":{}}`, "protocolVersion: "},
		{"elicitation", `{` + version + `,"capabilities":{"elicitation":true}}`,
			"capabilities: elicitation: "},
		{"name of the client", `{` + version + `,"clientInfo":{"name":5}}`, "clientInfo: name: "},
		{"client info in _meta", `{` + version + `,` + meta + `clientInfo":5}}`, "_meta: io.modelcontextprotocol/clientInfo: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := newHarness(t, nil).NewSession(protocol.LocalPrincipal(), nil)
			in := x.Admit(messageOf(1, protocol.MethodInitialize, tc.params), server.Delivery{})
			e := in.Request().Refusal()
			if e == nil || e.Code != protocol.CodeInvalidParams ||
				!strings.HasPrefix(e.Message, "invalid params: "+tc.names) || x.Version() != "" {
				t.Errorf("%s: got %v, session in %q, want an error that begins with %q", tc.params, e,
					x.Version(), tc.names)
			}
		})
	}
}

func counting(t *testing.T) (c *visitor, runs *int) {
	h := newHarness(t, nil)
	runs = new(int)
	h.tool("count", func(context.Context, *server.ToolCall) (toolOutcome, error) {
		*runs++
		return server.Text("counted"), nil
	})
	return h.enter(protocol.V20251125, `{}`), runs
}

func cancelOf(id any) string { return fmt.Sprintf(`{"requestId":%v}`, id) }

// Over HTTP a cancellation may overtake its request, whose handler then does not run.
func TestSessionCancelOvertakes(t *testing.T) {
	c, runs := counting(t)
	in := c.admit(protocol.MethodCallTool, `{"name":"count"}`)
	c.notify(protocol.NotifyCancelled, cancelOf(in.Request().Message.ID))
	if r := c.serve(in); r.Error == nil || r.Error.Code != protocol.CodeInvalidRequest ||
		*runs != 0 {
		t.Errorf("answered %s, %v, and ran %d times", r.Result, r.Error, *runs)
	}
	// The cancellation is used up: a client that reuses ids is served.
	again := c.h.Serve(t.Context(),
		c.session.Admit(&protocol.Request{ID: in.Request().Message.ID, Method: protocol.MethodPing},
			server.Delivery{}))
	if again.Error != nil {
		t.Errorf("the same id again: %v", again.Error)
	}
}
