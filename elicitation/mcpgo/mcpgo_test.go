package mcpgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	rondo "github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
	schema = `{"type":"object","properties":{"reason":{"type":"string"},"age":{"type":"integer"}},"required":["reason"]}`
)

var quiet = server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler))

// newUpstream is a server whose tools ask while they run, or, of the modern
// revision, answer that they need input.
func newUpstream(set setting) *server.MCPServer {
	s := server.NewMCPServer("upstream", "1", server.WithElicitation())
	ask := func(ctx context.Context, r mcp.CallToolRequest,
		params mcp.ElicitationParams) (*mcp.CallToolResult, error) {
		if !server.IsModernRequest(ctx) {
			return tell(s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: params})), nil
		}
		if answer := server.ElicitationResponse(r.Params.InputResponses, "q"); answer != nil {
			return tell(answer, nil), nil
		}
		return server.NewInputRequestBuilder("").Elicit("q", params).ToolResult(), nil
	}
	s.AddTool(mcp.NewTool("form"),
		func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return ask(ctx, r, mcp.ElicitationParams{Mode: "form", Message: "Deploy to " +
				r.GetString("env", "") + "?", RequestedSchema: json.RawMessage(schema)})
		})
	s.AddTool(mcp.NewTool("visit"),
		func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			result, err := ask(ctx, r, mcp.ElicitationParams{Mode: "url", Message: "Sign in",
				URL: "https://example.com/in", ElicitationID: "visit-1"})
			if !server.IsModernRequest(ctx) {
				_ = s.SendElicitationComplete(ctx, server.ClientSessionFromContext(ctx), "visit-1")
				if set.hold != nil { // mcp-go may lose what is sent just before a response
					select {
					case <-set.hold:
					case <-ctx.Done():
					}
				}
			}
			return result, err
		})
	return s
}

func tell(answer *mcp.ElicitationResult, err error) *mcp.CallToolResult {
	if err != nil {
		return mcp.NewToolResultText(err.Error())
	}
	content, _ := json.Marshal(answer.Content)
	return mcp.NewToolResultText(string(answer.Action) + " " + string(content))
}

// A setting is how the gateway reaches the upstream.
type setting struct {
	revision  string
	lines     bool // else HTTP
	shared    bool // all calls on one connection, else one each
	exclusive bool // one call at a time on it
	timeout   time.Duration
	hold      chan struct{}     // closed when a visit may return, nil: at once
	serve     *server.MCPServer // the upstream, nil: newUpstream
	listen    bool              // the gateway opens a GET stream
	downLines bool              // clients come over lines
	opts      *mcpgo.Options
	heartbeat time.Duration
}

// A gateway passes calls on.
type gateway struct {
	router *elicitation.Router
	logs   *observer.ObservedLogs
	url    string
	open   func() transport.Interface // a connection of a client
	down   *httptest.Server           // nil: lines
	gets   atomic.Int32               // GET requests of clients
	// cancelled gets a value after each event elicitation.cancelled was logged.
	cancelled chan struct{}
}

func newGateway(t *testing.T, set setting) *gateway {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	cancelled := make(chan struct{}, 16)
	signal := zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == "elicitation.cancelled" {
			cancelled <- struct{}{}
		}
		return nil
	})
	router, err := elicitation.New(&elicitation.Options{Logger: zap.New(core, signal),
		Timeout: set.timeout, Heartbeat: set.heartbeat})
	if err != nil {
		t.Fatal(err)
	}
	open := dialer(t, set)
	start := func(c *client.Client) error {
		if err := c.Start(t.Context()); err != nil {
			return err
		}
		_, err := c.Initialize(t.Context(), mcp.InitializeRequest{})
		return err
	}
	s := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, set.opts)
	if err != nil {
		t.Fatal(err)
	}
	var shared *client.Client
	if set.shared {
		shared = mcpgo.NewSharedClient(router, "shared", open(),
			client.WithProtocolVersion(set.revision))
		if err := start(shared); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = shared.Close() })
	}
	pass := func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key, upstream := elicitation.UpstreamKey(fmt.Sprintf("%p", ctx)), shared
		if set.shared {
			key = "shared"
		}
		if set.exclusive {
			release, err := router.AcquireUpstream(ctx, key)
			if err != nil {
				return nil, err
			}
			defer release()
		}
		call, err := clients.Begin(ctx, key)
		if err != nil {
			return nil, err
		}
		defer call.End()
		if upstream == nil {
			upstream = mcpgo.NewClient(router, call, key, open(),
				client.WithProtocolVersion(set.revision))
			if err := start(upstream); err != nil {
				return nil, err
			}
			defer upstream.Close()
		}
		var on mcp.CallToolRequest
		on.Params.Name, on.Params.Arguments = r.Params.Name, r.GetArguments()
		if !call.Origin().ProgressToken.IsZero() {
			return callWithProgress(ctx, upstream, call, on)
		}
		return upstream.CallTool(mcpgo.WithCall(ctx, call), on)
	}
	for _, name := range []string{"form", "visit", "slow"} {
		s.AddTool(mcp.NewTool(name), pass)
	}
	g := &gateway{router: router, logs: logs, cancelled: cancelled}
	if set.downLines {
		g.open = overLines(t, s)
		return g
	}
	served := server.NewStreamableHTTPServer(s, quiet)
	g.down = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			g.gets.Add(1)
		}
		served.ServeHTTP(w, r)
	}))
	t.Cleanup(g.down.Close)
	g.url = g.down.URL + "/mcp"
	g.open = overHTTP(t, g.url)
	return g
}

// dialer opens connections to an upstream.
func dialer(t *testing.T, set setting) func() transport.Interface {
	s := set.serve
	if s == nil {
		s = newUpstream(set)
	}
	if set.lines {
		return overLines(t, s)
	}
	up := httptest.NewServer(server.NewStreamableHTTPServer(s, quiet))
	t.Cleanup(up.Close)
	if set.listen {
		//lint:ignore SA1019 the revisions that have the stream are those that ask on it
		return overHTTP(t, up.URL+"/mcp", transport.WithContinuousListening())
	}
	return overHTTP(t, up.URL+"/mcp")
}

// overHTTP opens connections of mcp-go's over HTTP. Their answers are sent to their end, unless
// opts say otherwise: an answer that mcp-go cancels may break the request of another client on the
// same connection of net/http.
func overHTTP(t *testing.T, url string,
	opts ...transport.StreamableHTTPCOption) func() transport.Interface {
	answers := hophttp.Transport{Next: http.DefaultTransport}
	opts = append([]transport.StreamableHTTPCOption{
		transport.WithHTTPBasicClient(&http.Client{Transport: answers}),
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
	}, opts...)
	return func() transport.Interface {
		over, err := transport.NewStreamableHTTP(url, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return over
	}
}

func overLines(t *testing.T, s *server.MCPServer) func() transport.Interface {
	return func() transport.Interface {
		r, w := serveLines(t, s)
		return transport.NewIO(r, w, io.NopCloser(strings.NewReader("")))
	}
}

func serveLines(t *testing.T, s *server.MCPServer) (io.ReadCloser, io.WriteCloser) {
	stdio := server.NewStdioServer(s)
	stdio.SetErrorLogger(log.New(io.Discard, "", 0))
	return pipehttp.ServeLines(t, func(ctx context.Context, in io.Reader, out io.Writer) {
		_ = stdio.Listen(ctx, in, out)
	})
}

// A person is a client of the gateway, of mcp-go's or our own make.
type person func(ctx context.Context, tool, env string) (string, error)

type answering func(ctx context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error)

func (f answering) Elicit(ctx context.Context,
	r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return f(ctx, r)
}

func result(action string, content any) *mcp.ElicitationResult {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseAction(action), Content: content}}
}

func accept(reason string) answering {
	return func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
		return result("accept", map[string]any{"reason": reason}), nil
	}
}

func (g *gateway) mcpGo(t *testing.T, revision string, declared *mcp.ElicitationCapability,
	f answering, watch func(mcp.JSONRPCNotification)) person {
	t.Helper()
	return newClient(t, g.open(), revision, declared, f, watch)
}

func newClient(t *testing.T, over transport.Interface, revision string,
	declared *mcp.ElicitationCapability, f answering, watch func(mcp.JSONRPCNotification)) person {
	t.Helper()
	opts := []client.ClientOption{client.WithProtocolVersion(revision),
		client.WithClientCapabilities(mcp.ClientCapabilities{Elicitation: declared})}
	if f != nil {
		opts = append(opts, client.WithElicitationHandler(f))
	}
	c := client.NewClient(over, opts...)
	if watch != nil {
		c.OnNotification(watch)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, tool, env string) (string, error) {
		var r mcp.CallToolRequest
		r.Params.Name, r.Params.Arguments = tool, map[string]any{"env": env}
		if token := ctx.Value(progressKey{}); token != nil {
			r.Params.Meta = &mcp.Meta{ProgressToken: token}
		}
		got, err := c.CallTool(ctx, r)
		if err != nil {
			return "", err
		}
		return got.Content[0].(mcp.TextContent).Text, nil
	}
}

func (g *gateway) rondo(t *testing.T, f func(message string) string) person {
	t.Helper()
	over, err := clienthttp.New(g.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := rondo.New(over, &rondo.Options{Era: protocol.Legacy,
		ElicitForm: func(_ context.Context, q *rondo.FormQuestion) (*protocol.ElicitResult, error) {
			return &protocol.ElicitResult{Action: protocol.ActionAccept,
				Content: json.RawMessage(`{"reason":"` + f(q.Message) + `"}`)}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return func(ctx context.Context, tool, env string) (string, error) {
		got, err := c.CallTool(ctx, tool, map[string]any{"env": env})
		if err != nil {
			return "", err
		}
		return got.Content[0].(*protocol.TextContent).Text, nil
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestEachUserSeesTheirOwn: the questions of users who call at the same time
// reach the one who called, and so do the answers.
func TestEachUserSeesTheirOwn(t *testing.T) {
	for _, set := range []setting{
		{revision: legacy},
		{revision: legacy, shared: true}, // told apart by the stream they come on
		{revision: legacy, shared: true, exclusive: true},
		{revision: legacy, lines: true, shared: true, exclusive: true},
		{revision: modern},
		{revision: modern, shared: true},
		{revision: modern, lines: true, shared: true},
	} {
		t.Run(fmt.Sprintf("%s lines=%v shared=%v exclusive=%v", set.revision, set.lines, set.shared,
			set.exclusive), func(t *testing.T) {
			g := newGateway(t, set)
			var all sync.WaitGroup
			for user := range 4 {
				name := fmt.Sprintf("user-%d", user)
				var mu sync.Mutex
				var seen []string
				note := func(message string) string {
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, message)
					return name
				}
				call := g.rondo(t, note)
				if user%2 == 0 {
					call = g.mcpGo(t, legacy, nil,
						func(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult,
							error) {
							reason := note(r.Params.Message)
							return result("accept", map[string]any{"reason": reason}), nil
						}, nil)
				}
				all.Go(func() {
					for n := range 5 {
						env := fmt.Sprintf("%s-%d", name, n)
						if got, err := call(within(t), "form", env); err != nil ||
							got != `accept {"reason":"`+name+`"}` {
							t.Errorf("%s: got %s, %v", env, got, err)
						}
					}
					for n, message := range seen {
						if want := fmt.Sprintf("Deploy to %s-%d?", name, n); message != want {
							t.Errorf("%s saw %q, want %q", name, message, want)
						}
					}
					if len(seen) != 5 {
						t.Errorf("%s was asked %d questions: %q", name, len(seen), seen)
					}
				})
			}
			all.Wait()
		})
	}
}

// TestRefusals: what the upstream is told when nobody accepts.
func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name, tool, want, linesWant string
		revision                    string
		declared                    *mcp.ElicitationCapability
		answer                      answering
	}{
		{name: "declined", tool: "form", want: "decline null",
			answer: func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
				return result("decline", nil), nil
			}},
		{name: "the client fails", tool: "form", want: "error -32603: no eyes",
			answer: func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
				return nil, fmt.Errorf("no eyes")
			}},
		{name: "form to {}", tool: "form", want: `accept {"reason":"r"}`,
			declared: &mcp.ElicitationCapability{}, answer: accept("r")},
		{name: "form to url only", tool: "form", want: "error -32602",
			declared: &mcp.ElicitationCapability{URL: &struct{}{}}, answer: accept("r")},
		{name: "url to form", tool: "visit", want: "error -32602",
			declared: &mcp.ElicitationCapability{}, answer: accept("r")},
		{name: "no elicitation", tool: "form", want: "error -32601"},
		{name: "no pushes to a modern client", tool: "form", want: "error -32601", revision: modern,
			answer: accept("r")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGateway(t, setting{revision: legacy, shared: true})
			if tc.revision == "" {
				tc.revision = legacy
			}
			got, err := g.mcpGo(t, tc.revision, tc.declared, tc.answer, nil)(within(t), tc.tool,
				"prod")
			if err != nil || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
			refused := strings.HasPrefix(tc.want, "error -3260") &&
				!strings.Contains(tc.want, "-32603")
			if n := g.logs.FilterMessage("elicitation.created").Len(); refused != (n == 0) {
				t.Errorf("%d questions created, refused: %v", n, refused)
			}
		})
	}
}

// TestVisit: the client learns that the visit is over, by the id that it knows.
func TestVisit(t *testing.T) {
	told := make(chan struct{})
	g := newGateway(t, setting{revision: legacy, shared: true, hold: told})
	asked, completed := make(chan string, 1), make(chan string, 1)
	call := g.mcpGo(t, legacy, &mcp.ElicitationCapability{URL: &struct{}{}},
		func(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			asked <- r.Params.ElicitationID
			return result("accept", nil), nil
		}, func(n mcp.JSONRPCNotification) {
			if n.Method == protocol.NotifyElicitationCompleted {
				completed <- n.Params.AdditionalFields["elicitationId"].(string)
				close(told)
			}
		})
	// The news comes on the stream of the call, while that is open.
	got, err := call(within(t), "visit", "")
	if err != nil || got != "accept null" {
		t.Fatalf("got %q, %v", got, err)
	}
	want := <-asked
	if want == "" || want == "visit-1" {
		t.Errorf("the client saw the elicitationId %q, want one of the router's", want)
	}
	if got := <-completed; got != want {
		t.Errorf("completed %q, want %q", got, want)
	}
}

// TestSilentUser: the upstream is told.
func TestSilentUser(t *testing.T) {
	g := newGateway(t, setting{revision: legacy, shared: true, timeout: 200 * time.Millisecond})
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	call := g.mcpGo(t, legacy, nil,
		func(ctx context.Context, _ mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			<-over
			return nil, ctx.Err()
		}, nil)
	if got, err := call(within(t), "form", "prod"); err != nil ||
		!strings.Contains(got, elicitation.MessageTimeout) {
		t.Errorf("got %q, %v, want %q", got, err, elicitation.MessageTimeout)
	}
	if n := g.logs.FilterMessage("elicitation.timeout").Len(); n != 1 {
		t.Errorf("%d timeouts logged, want 1", n)
	}
}

// TestAmbiguous: two calls on one connection, nobody took turns, and nothing
// says whose question it is.
func TestAmbiguous(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1")
	clients, err := mcpgo.NewDownstream(router, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	session := server.NewInProcessSessionWithHandlers("one", nil, accept("r"), nil)
	session.SetClientCapabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}})
	ctx, cancel := context.WithCancel(s.WithContext(t.Context(), session))
	defer cancel()
	question := mcp.ElicitationRequest{Params: mcp.ElicitationParams{Mode: "form",
		Message: "Whose?", RequestedSchema: json.RawMessage(schema)}}
	upstream := mcpgo.ElicitationHandler(router, "shared")
	if _, err := upstream.Elicit(t.Context(), question); err == nil {
		t.Error("no call: no error")
	}
	first, err := clients.Begin(ctx, "shared")
	if err != nil {
		t.Fatal(err)
	}
	defer first.End()
	if got, err := upstream.Elicit(t.Context(), question); err != nil || got.Action != "accept" {
		t.Errorf("one call: got %v, %v", got, err)
	}
	second, err := clients.Begin(ctx, "shared")
	if err != nil {
		t.Fatal(err)
	}
	defer second.End()
	_, err = upstream.Elicit(t.Context(), question)
	if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeMethodNotFound {
		t.Errorf("two calls: got %v, want a refusal", err)
	}
	if got, err := upstream.Elicit(mcpgo.WithCall(t.Context(), second), question); err != nil ||
		got.Action != "accept" {
		t.Errorf("two calls and a word which: got %v, %v", got, err)
	}
	if _, err := clients.Begin(t.Context(), "shared"); err == nil {
		t.Error("a context without a session: no error")
	}
}

// TestSessionEnds: the router forgets a session when mcp-go does.
func TestSessionEnds(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1")
	clients, err := mcpgo.NewDownstream(router, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	session := server.NewInProcessSession("one", nil)
	if err := s.RegisterSession(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	ctx := s.WithContext(t.Context(), session)
	first, err := clients.Begin(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	second, err := clients.Begin(ctx, "b")
	if err != nil || first.Origin().Session != second.Origin().Session {
		t.Errorf("two calls of one session are of two: %v", err)
	}
	first.End()
	second.End()
	s.UnregisterSession(t.Context(), "one")
	if _, err := router.Begin(ctx, elicitation.Origin{Session: first.Origin().Session},
		elicitation.Via{}, "c"); err == nil {
		t.Error("the session is still attached")
	}
}

// TestNewDownstreamRefuses: a router and a server are required.
func TestNewDownstreamRefuses(t *testing.T) {
	if _, err := mcpgo.NewDownstream(nil, server.NewMCPServer("test", "1"), nil); err == nil {
		t.Error("without a router: no error")
	}
	if _, err := mcpgo.NewDownstream(new(elicitation.Router), nil, nil); err == nil {
		t.Error("without a server: no error")
	}
}
