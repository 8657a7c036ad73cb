package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

type outcome = protocol.CallToolOutcome

type target struct {
	Name string `json:"name"`
}

type confirmation struct {
	Sure bool `json:"sure"`
}

// An upstreamServer has a tool that asks two dependent questions; it counts requests.
type upstreamServer struct {
	url     string
	calls   atomic.Int64 // requests of tools/call
	commits atomic.Int64 // calls that were confirmed
}

func (u *upstreamServer) deploy(ctx context.Context, _ *server.ToolCall) (outcome, error) {
	where, err := roundtrip.Ask[target](ctx, "where", "Deploy where?")
	if err != nil {
		return nil, err
	}
	sure, err := roundtrip.Ask[confirmation](ctx, "sure", "Deploy to "+where.Name+"?")
	if err != nil {
		return nil, err
	}
	u.commits.Add(1)
	return server.Text(fmt.Sprintf("deployed to %s: %v", where.Name, sure.Sure)), nil
}

const deployed = "deployed to production: true"

func (u *upstreamServer) want(t *testing.T, calls, commits int64) {
	t.Helper()
	if u.calls.Load() != calls || u.commits.Load() != commits {
		t.Errorf("called %d times, %d effects, want %d and %d", u.calls.Load(), u.commits.Load(),
			calls, commits)
	}
}

// watch returns options of a server that passes each of its requests to f, too.
func watch(f func(req *server.Request)) *server.Options {
	return &server.Options{Middleware: []server.Middleware{
		func(next server.Handler) server.Handler {
			return func(ctx context.Context, req *server.Request) (protocol.Result, error) {
				f(req)
				return next(ctx, req)
			}
		}}}
}

func countLists(n *atomic.Int64) *server.Options {
	return watch(func(req *server.Request) {
		if p, ok := req.Params.(*protocol.ListParams); ok && p.Cursor == "" &&
			req.Message.Method == protocol.MethodListTools {
			n.Add(1)
		}
	})
}

func startUpstream(t testing.TB) *upstreamServer {
	t.Helper()
	u := &upstreamServer{}
	srv := newServer(t, watch(func(req *server.Request) {
		if req.Message.Method == protocol.MethodCallTool {
			u.calls.Add(1)
		}
	}))
	addTool(srv, "deploy", u.deploy)
	addTool(srv, "link", func(context.Context, *server.ToolCall) (outcome, error) {
		return &protocol.CallToolResult{Content: []protocol.Content{&protocol.ResourceLink{
			Resource: protocol.Resource{URI: "file:///readme", Name: "readme"},
		}}}, nil
	})
	server.AddPrompt(srv, server.Prompt{Name: "greet"},
		func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return &protocol.GetPromptResult{Messages: []protocol.PromptMessage{
				server.UserText("hello"),
			}}, nil
		})
	addResource(srv, "file:///readme")
	u.url = serveHTTP(t, srv)
	return u
}

func newServer(t testing.TB, opts *server.Options) *server.Server {
	t.Helper()
	srv, err := server.New(opts)
	noError(t, err)
	return srv
}

func addTool(srv *server.Server, name string,
	f func(context.Context, *server.ToolCall) (outcome, error)) {
	server.AddTool(srv, server.Tool{Name: name},
		func(ctx context.Context, call *server.ToolCall, _ struct{}) (outcome, error) {
			return f(ctx, call)
		})
}

func done(context.Context, *server.ToolCall) (outcome, error) { return server.Text("done"), nil }

func addResource(srv *server.Server, uri string) {
	server.AddResource(srv, server.Resource{URI: uri, Name: uri}, func(
		_ context.Context, call *server.ResourceCall,
	) (protocol.ReadResourceOutcome, error) {
		return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{
			{URI: call.URI, Text: "read me"},
		}}, nil
	})
}

// addEcho registers a tool and a resource that return the caller's name.
func addEcho(srv *server.Server, name string) {
	addTool(srv, name, func(_ context.Context, call *server.ToolCall) (outcome, error) {
		return server.Text("for " + call.Principal.Subject), nil
	})
	addResource(srv, "file:///"+name)
}

func serveTool(t testing.TB, name string,
	f func(context.Context, *server.ToolCall) (outcome, error)) (url string) {
	t.Helper()
	srv := newServer(t, nil)
	addTool(srv, name, f)
	return serveHTTP(t, srv)
}

func serveHTTP(t testing.TB, srv *server.Server) string {
	t.Helper()
	return serveHTTPWith(t, srv, nil)
}

func serveHTTPWith(t testing.TB, srv *server.Server, opts *serverhttp.Options) string {
	t.Helper()
	l := serve(t, servertest.NewHandler(t, srv, opts))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = srv.Shutdown(ctx)
	})
	return l.URL
}

// serve serves a handler until the test ends, and then cuts off its connections.
func serve(t testing.TB, handler http.Handler) *httptest.Server {
	t.Helper()
	l := httptest.NewServer(handler)
	t.Cleanup(func() { l.CloseClientConnections(); l.Close() })
	return l
}

func ops(url string, era protocol.Era) gateway.Upstream {
	return gateway.Upstream{Name: "ops", Connect: gateway.HTTP(url, nil), Era: era}
}

// beforeConnect returns u with f called before each connection to it.
func beforeConnect(u gateway.Upstream, f func(c gateway.Credential) error) gateway.Upstream {
	dial := u.Connect
	u.Connect = func(ctx context.Context, c gateway.Credential) (protocol.Peer, error) {
		if err := f(c); err != nil {
			return nil, err
		}
		return dial(ctx, c)
	}
	return u
}

func counting(url string, era protocol.Era, n *atomic.Int64) gateway.Upstream {
	return beforeConnect(ops(url, era), func(gateway.Credential) error { n.Add(1); return nil })
}

func before(upstreams ...gateway.Upstream) *gateway.Options {
	return &gateway.Options{Upstreams: upstreams}
}

// front serves a gateway in front of upstreams.
func front(t testing.TB, upstreams ...gateway.Upstream) (url string) {
	t.Helper()
	return startGateway(t, before(upstreams...))
}

func frontByUser(t testing.TB, upstreams ...gateway.Upstream) (url string) {
	t.Helper()
	_, url = serveGateway(t, before(upstreams...), byUser)
	return url
}

func startGateway(t testing.TB, opts *gateway.Options) string {
	t.Helper()
	_, url := serveGateway(t, opts, nil)
	return url
}

// serveGateway serves a gateway over HTTP; http are the options of its handler.
func serveGateway(
	t testing.TB, opts *gateway.Options, http *serverhttp.Options,
) (*gateway.Gateway, string) {
	t.Helper()
	if opts.Log == nil {
		opts.Log = zaplog.New(zaptest.NewLogger(t))
	}
	g, err := gateway.New(opts)
	noError(t, err)
	handler, err := g.Handler(http)
	noError(t, err)
	listener := httptest.NewServer(handler)
	t.Cleanup(func() { stopGateway(t, g, listener) })
	return g, listener.URL
}

func stopGateway(t testing.TB, g *gateway.Gateway, listener *httptest.Server) {
	t.Helper()
	err := g.Close()
	if err != nil && !strings.Contains(err.Error(), "process has ended") { // a test may want it
		t.Error(err)
	}
	listener.CloseClientConnections()
	listener.Close()
}

// byUser authenticates the user that a header names.
var byUser = &serverhttp.Options{Authenticate: subjectOf}

// An authorizer is a function that returns a message's credentials; it has no others if refused.
type authorizer func(clienthttp.Outgoing) (http.Header, error)

func (f authorizer) Credentials(_ context.Context, o clienthttp.Outgoing) (http.Header, error) {
	return f(o)
}

func (authorizer) Refused(context.Context, clienthttp.Refusal) (bool, error) { return false, nil }

func asUser(name string) authorizer {
	return func(clienthttp.Outgoing) (http.Header, error) {
		return http.Header{"Authorization": {name}}, nil
	}
}

func logged(opts *gateway.Options, level zapcore.Level) *observer.ObservedLogs {
	core, logs := observer.New(level)
	opts.Log = zaplog.New(zap.New(core))
	return logs
}

type person struct {
	mu     sync.Mutex
	shown  []string
	answer func(ctx context.Context, message string) *protocol.ElicitResult // nil means accept
}

func accepting(content any) *person {
	return &person{answer: func(context.Context, string) *protocol.ElicitResult {
		r, _ := client.Accept(content)
		return r
	}}
}

// The function silent returns a person who calls the function asked and awaits the withdrawal.
func silent(asked func()) (p *person, withdrawn chan struct{}) {
	withdrawn = make(chan struct{})
	return &person{answer: func(ctx context.Context, _ string) *protocol.ElicitResult {
		asked()
		<-ctx.Done()
		close(withdrawn)
		return nil
	}}, withdrawn
}

func (p *person) fill(
	ctx context.Context, q *client.FormQuestion,
) (*protocol.ElicitResult, error) {
	p.mu.Lock()
	p.shown = append(p.shown, q.Message)
	p.mu.Unlock()
	if p.answer != nil {
		if r := p.answer(ctx, q.Message); r != nil {
			return r, nil
		}
		return nil, ctx.Err()
	}
	if q.Message == "Deploy where?" {
		return client.Accept(target{"production"})
	}
	return client.Accept(confirmation{true})
}

func agreeToVisit(context.Context, *client.URLQuestion) (*protocol.ElicitResult, error) {
	return client.Accept(nil)
}

// connect returns a person's client once it sees these tools.
func connect(
	t testing.TB, url string, era protocol.Era, p *person, tools ...string,
) *client.Client {
	t.Helper()
	return connectUser(t, url, "", client.Options{ElicitForm: p.fill, Era: era}, tools...)
}

func connectWith(t testing.TB, url string, opts client.Options, tools ...string) *client.Client {
	t.Helper()
	return connectUser(t, url, "", opts, tools...)
}

func connectAs(
	t testing.TB, url string, era protocol.Era, user string, tools ...string,
) *client.Client {
	t.Helper()
	return connectUser(t, url, user, client.Options{ElicitForm: (&person{}).fill, Era: era},
		tools...)
}

var asksForms = protocol.ClientCapabilities{
	Elicitation: &protocol.ElicitationCapability{Form: true}}

func byHand(t testing.TB, url string, tools ...string) *client.Client {
	t.Helper()
	return byHandAs(t, url, "", asksForms, tools...)
}

func byHandAs(
	t testing.TB, url, user string, declared protocol.ClientCapabilities, tools ...string,
) *client.Client {
	t.Helper()
	return connectUser(t, url, user, client.Options{Manual: &declared, NoBusyRetry: true,
		Era: protocol.Modern}, tools...)
}

// connectUser returns a client of a user; an empty user is anonymous.
func connectUser(
	t testing.TB, url, user string, opts client.Options, tools ...string,
) *client.Client {
	t.Helper()
	over := &clienthttp.Options{}
	if user != "" {
		over.Authorizer = asUser(user)
	}
	transport, err := clienthttp.New(url, over)
	noError(t, err)
	c, err := client.New(transport, &opts)
	noError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	for _, tool := range tools {
		awaitTool(t, c, tool)
	}
	return c
}

func awaitTool(t testing.TB, c *client.Client, name string) {
	t.Helper()
	var last error
	if !eventually(func() bool {
		for tool, err := range c.Tools(t.Context()) {
			if last = err; err == nil && tool.Name == name {
				return true
			}
		}
		return false
	}) {
		t.Fatalf("tool %s was not published: %v", name, last)
	}
}

// The function eventually waits a few seconds at most.
func eventually(is func() bool) bool {
	for range 500 {
		if is() {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func await[T any](t testing.TB, c <-chan T, missing string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(5 * time.Second):
		t.Error(missing)
	}
	return v
}

func toolNames(t *testing.T, c *client.Client) string {
	t.Helper()
	var names []string
	for tool, err := range c.Tools(t.Context()) {
		noError(t, err)
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

// callText calls a tool and returns its text, after "failed: " if the tool failed, or the error.
func callText(t testing.TB, c *client.Client, tool string) string {
	t.Helper()
	result, err := c.CallTool(t.Context(), tool, nil)
	if err != nil {
		return "error: " + err.Error()
	}
	if result.IsError {
		return "failed: " + textOf(result)
	}
	return textOf(result)
}

func wantText(t testing.TB, c *client.Client, tool, want string) {
	t.Helper()
	wantEqual(t, tool, callText(t, c, tool), want)
}

func textOf(r protocol.Result) string {
	result, _ := r.(*protocol.CallToolResult)
	if result == nil || len(result.Content) == 0 {
		return ""
	}
	text, ok := result.Content[0].(*protocol.TextContent)
	if !ok {
		data, _ := json.Marshal(result.Content[0])
		return string(data)
	}
	return text.Text
}

var deployCall = &protocol.CallToolParams{Name: "ops_deploy"}

// begin makes a call by hand, up to its first question.
func begin(t *testing.T, c *client.Client) *client.Pending {
	t.Helper()
	_, pending, err := c.Begin(t.Context(), deployCall)
	if err != nil || pending == nil {
		t.Fatalf("got %v, %v, want questions", pending, err)
	}
	return pending
}

// wantBusy wants a new call to be refused, and returns the error.
func wantBusy(t *testing.T, c *client.Client) *protocol.Error {
	t.Helper()
	_, _, err := c.Begin(t.Context(), deployCall)
	said, ok := protocol.AsError(err)
	if !ok || said.Code != protocol.CodeBusy {
		t.Fatalf("got %v, want a refusal", err)
	}
	return said
}

// resume answers the question of a call. It returns the next one or the text of the result.
func resume(t *testing.T, c *client.Client, p *client.Pending, content any) (
	*client.Pending, string) {
	t.Helper()
	result, next, err := c.Resume(t.Context(), answered(t, p, content))
	noError(t, err)
	return next, textOf(result)
}

func answered(t *testing.T, p *client.Pending, content any) *client.Pending {
	t.Helper()
	data, err := json.Marshal(p)
	noError(t, err)
	var clone client.Pending
	noError(t, json.Unmarshal(data, &clone))
	accept, err := client.Accept(content)
	noError(t, err)
	noError(t, clone.Answer(clone.Questions()[0].Key, accept))
	return &clone
}

// listen subscribes until the test ends. It returns the acknowledgment or refusal, and the changes.
func listen(t *testing.T, c *client.Client, lists bool, uris ...string) (string, <-chan string) {
	t.Helper()
	acknowledged, changed := make(chan string, 10), make(chan string, 1000)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := c.Listen(ctx, protocol.SubscriptionFilter{ToolsListChanged: lists,
			ResourceSubscriptions: uris}, func(_ context.Context, e client.ListenEvent) {
			what := "lists"
			switch e := e.(type) {
			case client.Acknowledged:
				acknowledged <- strings.Join(e.Filter.ResourceSubscriptions, " ")
				return
			case client.ResourceUpdated:
				what = e.URI
			}
			select {
			case changed <- what:
			default:
			}
		})
		acknowledged <- fmt.Sprint(err)
	}()
	t.Cleanup(func() { stop(); <-ended })
	return <-acknowledged, changed
}

// wantUpdate changes an upstream resource until the change is announced.
func wantUpdate(t *testing.T, srv *server.Server, uri string, updated <-chan string) {
	t.Helper()
	for deadline := time.After(10 * time.Second); ; {
		srv.ResourceUpdated("file:///another")
		srv.ResourceUpdated(uri)
		select {
		case got := <-updated:
			wantEqual(t, "told of", got, "ops+"+uri)
			return
		case <-deadline:
			t.Fatal("no change is announced")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// progressTo returns a context whose calls send progress messages to c, without blocking.
func progressTo(ctx context.Context, c chan<- string) context.Context {
	return client.WithProgress(ctx, func(_ context.Context, p *protocol.Progress) {
		select {
		case c <- p.Message:
		default:
		}
	})
}

var bothEras = []protocol.Era{protocol.Modern, protocol.Legacy}

func forEachEra(t *testing.T, f func(t *testing.T, era protocol.Era)) {
	for _, era := range bothEras {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel() // many wait for time to pass
			f(t, era)
		})
	}
}

func forEachPairing(t *testing.T, f func(t *testing.T, client, upstream protocol.Era)) {
	for _, c := range bothEras {
		for _, u := range bothEras {
			t.Run(fmt.Sprintf("%v client, %v upstream", c, u), func(t *testing.T) {
				t.Parallel() // many wait for time to pass
				f(t, c, u)
			})
		}
	}
}

func refuseIf(refused bool, kind protocol.InputKind) []protocol.InputKind {
	if refused {
		return []protocol.InputKind{kind}
	}
	return nil
}

type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		RequestID, InputResponses json.RawMessage
		RequestState              *string
	}
}

// readMessage decodes the body, and leaves it to be read again.
func readMessage(r *http.Request) (m message) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	_ = json.Unmarshal(body, &m)
	return m
}

func writeResponse(w http.ResponseWriter, m message, members string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, members)
}

func post(t *testing.T, url, body string, header map[string]string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	noError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	noError(t, err)
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	return resp, string(data)
}

const rawInitialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` +
	`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// postModern sends a request of revision 2026-07-28 about name.
func postModern(
	t *testing.T, url, user, method, name, members string,
) (*http.Response, string) {
	t.Helper()
	return post(t, url, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+members+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`,
		map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method,
			"Mcp-Name": name, "Authorization": user})
}

func modernRaw(t *testing.T, url, user, tool, state, responses string) string {
	t.Helper()
	members := `"name":"` + tool + `","arguments":{},`
	if state != "" {
		members += `"requestState":"` + state + `","inputResponses":` + responses + `,`
	}
	_, said := postModern(t, url, user, protocol.MethodCallTool, tool, members)
	return said
}

func rawLegacy(t *testing.T, url, body string) string {
	t.Helper()
	return openRawSession(t, url, "")(body)
}

// openRawSession returns a function that sends a user's messages in a session.
func openRawSession(t *testing.T, url, user string) (send func(body string) string) {
	t.Helper()
	header := map[string]string{"Authorization": user}
	send = func(body string) string {
		resp, said := post(t, url, body, header)
		if s := resp.Header.Get("Mcp-Session-Id"); s != "" {
			header["Mcp-Session-Id"], header["Mcp-Protocol-Version"] = s, "2025-11-25"
		}
		return said
	}
	send(rawInitialize)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return send
}

var (
	noError   = testkit.NoError
	wantIs    = testkit.WantIs
	wantPart  = testkit.WantPart
	wantEqual = testkit.WantEqual
)
