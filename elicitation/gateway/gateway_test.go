package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// An upstreamServer is a server with a tool that asks two questions which depend on each other, and
// counts what it is sent.
type upstreamServer struct {
	url     string
	calls   atomic.Int64 // requests of tools/call
	commits atomic.Int64 // calls that were confirmed
}

type target struct {
	Name string `json:"name"`
}

type confirmation struct {
	Sure bool `json:"sure"`
}

func (u *upstreamServer) deploy(
	ctx context.Context, _ *server.ToolCall, _ struct{},
) (protocol.CallToolOutcome, error) {
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

func startUpstream(t *testing.T) *upstreamServer {
	t.Helper()
	u := &upstreamServer{}
	srv, err := server.New(&server.Options{
		Info: protocol.Implementation{Name: "upstream", Version: "1"},
		Middleware: []server.Middleware{func(next server.Handler) server.Handler {
			return func(ctx context.Context, req *server.Request) (protocol.Result, error) {
				if req.Message.Method == protocol.MethodCallTool {
					u.calls.Add(1)
				}
				return next(ctx, req)
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(srv, server.Tool{Name: "deploy", Description: "Deploys."}, u.deploy)
	server.AddTool(srv, server.Tool{Name: "link"},
		func(context.Context, *server.ToolCall, struct{}) (protocol.CallToolOutcome, error) {
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
	server.AddResource(srv, server.Resource{URI: "file:///readme", Name: "readme"},
		func(_ context.Context, call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{
				{URI: call.URI, Text: "read me"},
			}}, nil
		})
	u.url = serveHTTP(t, srv)
	return u
}

func serveHTTP(t testing.TB, srv *server.Server) string {
	t.Helper()
	return serveHTTPWith(t, srv, nil)
}

func serveHTTPWith(t testing.TB, srv *server.Server, opts *serverhttp.Options) string {
	t.Helper()
	handler, err := serverhttp.New(srv, opts)
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(handler)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = srv.Shutdown(ctx)
		listener.CloseClientConnections()
		listener.Close()
	})
	return listener.URL
}

// startGateway serves a gateway over HTTP.
func startGateway(t testing.TB, opts *gateway.Options) string {
	t.Helper()
	_, url := serveGateway(t, opts, nil)
	return url
}

// serveGateway serves a gateway over HTTP, with a handler that has http as its options.
func serveGateway(
	t testing.TB, opts *gateway.Options, http *serverhttp.Options,
) (*gateway.Gateway, string) {
	t.Helper()
	if opts.Log == nil {
		opts.Log = zaplog.New(zaptest.NewLogger(t))
	}
	g, err := gateway.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := g.Handler(http)
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(handler)
	t.Cleanup(func() { stopGateway(t, g, listener) })
	return g, listener.URL
}

func stopGateway(t testing.TB, g *gateway.Gateway, listener *httptest.Server) {
	t.Helper()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	listener.CloseClientConnections()
	listener.Close()
}

// A person answers forms and remembers what was shown.
type person struct {
	mu     sync.Mutex
	shown  []string
	answer func(message string) *protocol.ElicitResult // nil: accepts
}

func (p *person) fill(
	_ context.Context, q *client.FormQuestion,
) (*protocol.ElicitResult, error) {
	p.mu.Lock()
	p.shown = append(p.shown, q.Message)
	p.mu.Unlock()
	if p.answer != nil {
		return p.answer(q.Message), nil
	}
	if q.Message == "Deploy where?" {
		return client.Accept(target{"production"})
	}
	return client.Accept(confirmation{true})
}

func connect(t testing.TB, url string, era protocol.Era, p *person) *client.Client {
	t.Helper()
	return connectUser(t, url, "", client.Options{ElicitForm: p.fill, Era: era})
}

// connectUser returns a client of a user, "": of nobody.
func connectUser(t testing.TB, url, user string, opts client.Options) *client.Client {
	t.Helper()
	over := &clienthttp.Options{}
	if user != "" {
		over.Authorizer = asUser(user)
	}
	transport, err := clienthttp.New(url, over)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(transport, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// awaitTool waits until a tool is listed.
func awaitTool(t testing.TB, c *client.Client, name string) {
	t.Helper()
	var last error
	for range 500 {
		for tool, err := range c.Tools(t.Context()) {
			if last = err; err == nil && tool.Name == name {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("tool %s was not published: %v", name, last)
}

func textOf(r *protocol.CallToolResult) string {
	if r == nil || len(r.Content) == 0 {
		return ""
	}
	text, ok := r.Content[0].(*protocol.TextContent)
	if !ok {
		data, _ := json.Marshal(r.Content[0])
		return string(data)
	}
	return text.Text
}

// forEachPairing runs f for every pair of eras, of the client and of the upstream.
func forEachPairing(t *testing.T, f func(t *testing.T, client, upstream protocol.Era)) {
	for _, c := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		for _, u := range []protocol.Era{protocol.Modern, protocol.Legacy} {
			t.Run(fmt.Sprintf("%v client, %v upstream", c, u), func(t *testing.T) {
				t.Parallel() // many wait for time to pass
				f(t, c, u)
			})
		}
	}
}

func TestQuestionsReachTheCallerInEveryPairing(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		u := startUpstream(t)
		url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
			{Name: "ops", Connect: gateway.HTTP(u.url, nil), Era: upstreamEra},
		}})
		p := &person{}
		c := connect(t, url, clientEra, p)
		awaitTool(t, c, "ops_deploy")
		result, err := c.CallTool(t.Context(), "ops_deploy", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := textOf(result); got != "deployed to production: true" {
			t.Errorf("got %q", got)
		}
		if len(p.shown) != 2 {
			t.Errorf("shown %q, want two questions", p.shown)
		}
		if n := u.commits.Load(); n != 1 {
			t.Errorf("the effect happened %d times", n)
		}
		if n := u.calls.Load(); upstreamEra == protocol.Legacy && n != 1 {
			t.Errorf("the upstream was called %d times", n)
		}
	})
}

func TestRefusalsReachTheUpstreamInEveryPairing(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		u := startUpstream(t)
		url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
			{Name: "ops", Connect: gateway.HTTP(u.url, nil), Era: upstreamEra},
		}})
		p := &person{answer: func(string) *protocol.ElicitResult {
			time.Sleep(500 * time.Millisecond) // a person reads
			return client.Decline()
		}}
		c := connect(t, url, clientEra, p)
		awaitTool(t, c, "ops_deploy")
		result, err := c.CallTool(t.Context(), "ops_deploy", nil)
		if err != nil {
			t.Fatal(err)
		}
		if !result.IsError || len(p.shown) != 1 || u.commits.Load() != 0 {
			t.Errorf("got %q after %q, %d effects", textOf(result), p.shown, u.commits.Load())
		}
	})
}

func TestPromptsResourcesAndLinksArePassedOn(t *testing.T) {
	u := startUpstream(t)
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(u.url, nil), Unprefixed: []string{"greet"}},
	}})
	c := connect(t, url, 0, &person{})
	awaitTool(t, c, "ops_link")
	result, err := c.CallTool(t.Context(), "ops_link", nil)
	if err != nil {
		t.Fatal(err)
	}
	link, ok := result.Content[0].(*protocol.ResourceLink)
	if !ok || link.URI != "ops+file:///readme" {
		t.Fatalf("got %s", textOf(result))
	}
	read, err := c.ReadResource(t.Context(), link.URI)
	for range 500 { // resources are published after tools
		if err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
		read, err = c.ReadResource(t.Context(), link.URI)
	}
	if err != nil {
		t.Fatal(err)
	}
	if read.Contents[0].URI != link.URI || read.Contents[0].Text != "read me" {
		t.Errorf("got %+v", read.Contents[0])
	}
	prompt, err := c.GetPrompt(t.Context(), "greet", nil)
	if err != nil || len(prompt.Messages) != 1 {
		t.Errorf("got %+v, %v", prompt, err)
	}
}

// progressTo returns a context whose calls send the messages of progress to c, as far as there is
// room.
func progressTo(ctx context.Context, c chan<- string) context.Context {
	return client.WithProgress(ctx, func(_ context.Context, p *protocol.Progress) {
		select {
		case c <- p.Message:
		default:
		}
	})
}

// startAskingWho serves a tool that says what capabilities the upstream is told.
func startAskingWho(t *testing.T) (url string) {
	t.Helper()
	srv := newServer(t, nil)
	server.AddTool(srv, server.Tool{Name: "who"}, func(
		_ context.Context, call *server.ToolCall, _ struct{},
	) (protocol.CallToolOutcome, error) {
		declared, err := json.Marshal(call.Capabilities())
		return server.Text(string(declared)), err
	})
	return serveHTTP(t, srv)
}

func TestUpstreamsLearnNothingOfWhatTheyMayNotAsk(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{{
			Name: "ops", Connect: gateway.HTTP(startAskingWho(t), nil), Era: upstreamEra,
			Refuse: []protocol.InputKind{protocol.KindElicitForm, protocol.KindElicitURL,
				protocol.KindCreateMessage, protocol.KindListRoots},
		}}})
		c := connectWith(t, url, client.Options{Era: clientEra, ElicitForm: (&person{}).fill,
			ElicitURL: agreeToVisit, CreateMessage: func(
				context.Context, *client.SamplingQuestion,
			) (*protocol.CreateMessageResult, error) {
				return nil, nil
			}, ListRoots: func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
				return nil, nil
			}})
		awaitTool(t, c, "ops_who")
		result, err := c.CallTool(t.Context(), "ops_who", nil)
		if got := textOf(result); err != nil || got != "{}" {
			t.Errorf("declared %s, %v", got, err)
		}
	})
}

func TestUpstreamsLearnTheCapabilitiesOfTheCallAlone(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		upstream := startAskingWho(t)
		url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
			{Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: upstreamEra},
		}})
		for _, opts := range []*client.Options{
			{Era: clientEra},
			{Era: clientEra, ElicitForm: (&person{}).fill},
			{Era: clientEra, CreateMessage: func(
				context.Context, *client.SamplingQuestion,
			) (*protocol.CreateMessageResult, error) {
				return nil, nil
			}, Extensions: map[string]json.RawMessage{"example.com/x": []byte("{}")}},
		} {
			transport, err := clienthttp.New(url, nil)
			if err != nil {
				t.Fatal(err)
			}
			c, err := client.New(transport, opts)
			if err != nil {
				t.Fatal(err)
			}
			awaitTool(t, c, "ops_who")
			result, err := c.CallTool(t.Context(), "ops_who", nil)
			if err != nil {
				t.Fatal(err)
			}
			want := c.Capabilities()
			want.Extensions = nil
			text, _ := json.Marshal(want)
			if got := textOf(result); got != string(text) {
				t.Errorf("declared %s, want %s", got, text)
			}
			_ = c.Close()
		}
	})
}
