package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"

	reasonSchema = `{"type":"object","properties":{"reason":{"type":"string"}},` +
		`"required":["reason"]}`
)

// patience bounds what should take milliseconds.
const patience = 10 * time.Second

var impl = &mcp.Implementation{Name: "test", Version: "1"}

// newUpstream returns a server whose tools ask while they run, or, in the modern
// revision, return their questions.
func newUpstream(t *testing.T) *mcp.Server {
	s := mcp.NewServer(impl, nil)
	schema := json.RawMessage(reasonSchema)
	ask := func(ctx context.Context, req *mcp.CallToolRequest,
		params *mcp.ElicitParams) (*mcp.CallToolResult, error) {
		if req.ProtocolVersion() < modern {
			// The SDK sends a cancellation in the background. Where the session is closed
			// before, the call is not cancelled, and closing the server waits for it.
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(t.Context(), cancel)()
			answer, err := req.Session.Elicit(ctx, params)
			return tell(answer, err), nil
		}
		if answer, ok := req.Params.InputResponses["q"].(*mcp.ElicitResult); ok {
			return tell(answer, nil), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": params}}, nil
	}
	s.AddTool(tool("form"), func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ Env string }
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
			return nil, err
		}
		return ask(ctx, req, &mcp.ElicitParams{Message: "Deploy to " + args.Env + "?",
			RequestedSchema: schema})
	})
	s.AddTool(tool("visit"), func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result, err := ask(ctx, req,
			&mcp.ElicitParams{Mode: "url", Message: "Sign in", URL: "https://example.com/in",
				ElicitationID: "visit-1"})
		if req.ProtocolVersion() < modern {
			_ = req.Session.NotifyElicitationComplete(ctx,
				&mcp.ElicitationCompleteParams{ElicitationID: "visit-1"})
		}
		return result, err
	})
	return s
}

func tool(name string) *mcp.Tool {
	return &mcp.Tool{Name: name, Description: "Asks.",
		InputSchema: json.RawMessage(`{"type":"object"}`)}
}

func tell(answer *mcp.ElicitResult, err error) *mcp.CallToolResult {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return text(fmt.Sprintf("%d %s", e.Code, e.Message))
	}
	if err != nil {
		return text("local: " + err.Error())
	}
	content, _ := json.Marshal(answer.Content)
	return text(answer.Action + " " + string(content))
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// A gateway passes calls on, each on a connection of its own or all on one.
type gateway struct {
	router *elicitation.Router
	logs   *observer.ObservedLogs
	url    string
	// cancelled gets a value after each event elicitation.cancelled was logged.
	cancelled chan struct{}
}

type setting struct {
	upstream string // the revision
	shared   bool
	timeout  time.Duration
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
		Timeout: set.timeout})
	if err != nil {
		t.Fatal(err)
	}
	up := newUpstream(t)
	upHTTP := httptest.NewServer(
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return up },
			&mcp.StreamableHTTPOptions{Stateless: set.upstream >= modern}))
	t.Cleanup(upHTTP.Close)

	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	connect := func(ctx context.Context, c *mcp.Client) (*mcp.ClientSession, error) {
		return c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: upHTTP.URL},
			&mcp.ClientSessionOptions{ProtocolVersion: set.upstream})
	}
	var shared *mcp.ClientSession
	if set.shared {
		if shared, err = connect(t.Context(),
			gosdk.NewSharedClient(router, "shared", impl, nil)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = shared.Close() })
	}
	var keys sync.Map
	pass := func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key, session := elicitation.UpstreamKey(fmt.Sprintf("%p", req)), shared
		keys.Store(key, true)
		if set.shared {
			key = "shared"
			release, err := router.AcquireUpstream(ctx, key)
			if err != nil {
				return nil, err
			}
			defer release()
		}
		call, err := clients.Begin(ctx, req, key)
		if err != nil {
			return nil, err
		}
		defer call.End()
		if session == nil {
			session, err = connect(ctx, gosdk.NewClient(router, call, key, impl, nil))
			if err != nil {
				return nil, err
			}
			defer session.Close()
		}
		return session.CallTool(ctx,
			&mcp.CallToolParams{Name: req.Params.Name, Arguments: req.Params.Arguments})
	}
	server.AddTool(tool("form"), pass)
	server.AddTool(tool("visit"), pass)
	down := httptest.NewServer(
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(down.Close)
	return &gateway{router, logs, down.URL, cancelled}
}

// person connects a client of the gateway that answers questions with answer.
func (g *gateway) person(t *testing.T, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(impl, opts).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: g.url},
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func call(t *testing.T, session *mcp.ClientSession, tool, env string) string {
	t.Helper()
	result, err := session.CallTool(t.Context(),
		&mcp.CallToolParams{Name: tool, Arguments: map[string]any{"env": env}})
	if err != nil {
		return "error: " + err.Error()
	}
	return result.Content[0].(*mcp.TextContent).Text
}

func accept(reason any) func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	return func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"reason": reason}}, nil
	}
}

func settings(t *testing.T, test func(t *testing.T, set setting)) {
	for _, set := range []setting{{upstream: legacy}, {upstream: legacy, shared: true},
		{upstream: modern}, {upstream: modern, shared: true}} {
		t.Run(fmt.Sprintf("%s shared=%v", set.upstream, set.shared),
			func(t *testing.T) { test(t, set) })
	}
}

// TestEachUserSeesTheirOwn: the questions of users who call at the same time
// reach the one who called, and so do the answers.
func TestEachUserSeesTheirOwn(t *testing.T) {
	settings(t, func(t *testing.T, set setting) {
		g := newGateway(t, set)
		var all sync.WaitGroup
		for user := range 4 {
			name := fmt.Sprintf("user-%d", user)
			var seen []string // its questions come one at a time
			session := g.person(t, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context,
				req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				seen = append(seen, req.Params.Message)
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"reason": name}},
					nil
			}})
			all.Go(func() {
				for n := range 5 {
					env := fmt.Sprintf("%s-%d", name, n)
					if got, want := call(t, session, "form", env),
						`accept {"reason":"`+name+`"}`; got != want {
						t.Errorf("%s: got %s, want %s", env, got, want)
					}
				}
				if len(seen) != 5 {
					t.Errorf("%s was asked %d questions: %q", name, len(seen), seen)
				}
				for n, message := range seen {
					if want := fmt.Sprintf("Deploy to %s-%d?", name, n); message != want {
						t.Errorf("%s saw %q, want %q", name, message, want)
					}
				}
			})
		}
		all.Wait()
	})
}

// TestRefusals: what the upstream is told when nobody accepts.
func TestRefusals(t *testing.T) {
	capabilities := func(c mcp.ElicitationCapabilities) *mcp.ClientCapabilities {
		return &mcp.ClientCapabilities{Elicitation: &c}
	}
	tests := []struct {
		name, tool, want string
		opts             *mcp.ClientOptions
	}{
		{"declined", "form", "decline null",
			&mcp.ClientOptions{ElicitationHandler: func(context.Context,
				*mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "decline"}, nil
			}}},
		{"the client fails", "form", "-32000 no eyes",
			&mcp.ClientOptions{ElicitationHandler: func(context.Context,
				*mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return nil, &jsonrpc.Error{Code: -32000, Message: "no eyes"}
			}}},
		{"form to {}", "form", `accept {"reason":"r"}`,
			&mcp.ClientOptions{Capabilities: capabilities(mcp.ElicitationCapabilities{}),
				ElicitationHandler: accept("r")}},
		{"form to url only", "form", "-32602",
			&mcp.ClientOptions{Capabilities: capabilities(mcp.ElicitationCapabilities{
				URL: &mcp.URLElicitationCapabilities{}}), ElicitationHandler: accept("r")}},
		{"url to form", "visit", "-32602", &mcp.ClientOptions{ElicitationHandler: accept("r")}},
		{"no elicitation", "form", "-32601", nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			// On a shared connection everything is declared, so that the
			// refusals are the router's; with one a call the upstream knows.
			g := newGateway(t, setting{upstream: legacy, shared: true})
			if got := call(t, g.person(t, tc.opts), tc.tool, "prod"); !strings.HasPrefix(got,
				tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			refused := strings.HasPrefix(tc.want, "-3260")
			if n := g.logs.FilterMessage("elicitation.created").Len(); refused != (n == 0) {
				t.Errorf("%d questions created, refused: %v", n, refused)
			}
			// With a connection for each call the SDK of this upstream sees by itself that
			// it must not ask. TestWhatAnUpstreamReads has one that asks regardless.
			own := newGateway(t, setting{upstream: legacy})
			got := call(t, own.person(t, tc.opts), tc.tool, "prod")
			if refused && !strings.HasPrefix(got, "local: client does not support") {
				t.Errorf("own connection: got %q, want the upstream to know by itself", got)
			}
			if !refused && !strings.HasPrefix(got, tc.want) {
				t.Errorf("own connection: got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestVisit: the client learns that the visit is over, by the id that it knows.
func TestVisit(t *testing.T) {
	g := newGateway(t, setting{upstream: legacy})
	asked, completed := make(chan string, 1), make(chan string, 1)
	session := g.person(t, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult,
			error) {
			asked <- req.Params.ElicitationID
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
		ElicitationCompleteHandler: func(_ context.Context,
			req *mcp.ElicitationCompleteNotificationRequest) {
			completed <- req.Params.ElicitationID
		},
	})
	if got := call(t, session, "visit", ""); got != "accept null" {
		t.Errorf("got %q", got)
	}
	want := <-asked
	if want == "" || want == "visit-1" {
		t.Errorf("the client saw the elicitationId %q, want one of the router's", want)
	}
	select {
	case got := <-completed:
		if got != want {
			t.Errorf("completed %q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Error("the client was not told that the visit is over")
	}
}

// TestSilentUser: the upstream is told, the client's question is withdrawn. The SDK tells the
// client in the background, and the result of the call may overtake that, which ends the stream:
// then the client is not told.
func TestSilentUser(t *testing.T) {
	const attempts = 20
	g := newGateway(t, setting{upstream: legacy, timeout: 200 * time.Millisecond})
	withdrawn, over := make(chan struct{}, attempts), make(chan struct{})
	session := g.person(t, &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context,
		_ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		select {
		case <-ctx.Done():
			withdrawn <- struct{}{}
		case <-over:
		}
		return nil, errors.New("the person is silent")
	}})
	t.Cleanup(func() { close(over) })
	calls := 0
	for told := false; !told; {
		if calls++; calls > attempts {
			t.Fatal("the client was not told")
		}
		got := call(t, session, "form", "prod")
		if !strings.Contains(got, elicitation.MessageTimeout) {
			t.Errorf("got %q, want %q", got, elicitation.MessageTimeout)
		}
		select {
		case <-withdrawn:
			told = true
		case <-time.After(time.Second):
		}
	}
	if n := g.logs.FilterMessage("elicitation.timeout").Len(); n != calls {
		t.Errorf("%d timeouts logged, want %d", n, calls)
	}
}

// TestAnswerThatDoesNotFit is an answer all the same: the router's setting
// decides what becomes of it, and the client is not taken for gone.
func TestAnswerThatDoesNotFit(t *testing.T) {
	g := newGateway(t, setting{upstream: legacy})
	session := g.person(t, &mcp.ClientOptions{ElicitationHandler: func(context.Context,
		*mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		// The SDK's client checks content, where there is some.
		return &mcp.ElicitResult{Action: "accept"}, nil
	}})
	if got := call(t, session, "form", "prod"); !strings.HasPrefix(got, "accept") {
		t.Errorf("got %q", got)
	}
	if n := g.logs.FilterMessage("elicitation.error").Len(); n != 0 {
		t.Errorf("%d errors logged, want none: %v", n, g.logs.All())
	}
}

// TestSeveralCallsThatCouldAsk: where nothing says which of two calls asks, the question goes
// to their client if they are of one, and to nobody if they are not.
func TestSeveralCallsThatCouldAsk(t *testing.T) {
	const question = `{"mode":"form","message":"Whose?","requestedSchema":{"type":"object",` +
		`"properties":{}}}`
	for _, test := range []struct {
		name  string
		users int
		want  string
	}{
		{"of one client", 1, "accept"},
		{"of two clients", 2, elicitation.MessageNoSession},
	} {
		t.Run(test.name, func(t *testing.T) {
			router, err := elicitation.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			server := mcp.NewServer(impl, nil)
			clients, err := gosdk.NewDownstream(router, server, nil)
			if err != nil {
				t.Fatal(err)
			}
			begun, asked := make(chan struct{}), make(chan struct{})
			server.AddTool(tool("form"), func(ctx context.Context,
				req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				call, err := clients.Begin(ctx, req, "shared")
				if err != nil {
					return nil, err
				}
				defer call.End()
				begun <- struct{}{}
				<-asked
				return text("done"), nil
			})
			var calls sync.WaitGroup
			for range test.users {
				session := connectInMemory(t, server,
					mcp.NewClient(impl, &mcp.ClientOptions{ElicitationHandler: accept("r")}))
				t.Cleanup(func() { _ = session.Close() })
				for range 2 / test.users {
					calls.Go(func() { call(t, session, "form", "") })
					<-begun
				}
			}
			got := elicitation.MessageNoSession
			result, err := router.ElicitFrom(t.Context(), "shared", json.RawMessage(question), nil)
			if err == nil {
				got = string(result.Action)
			} else if err.Error() != got {
				t.Errorf("refused with %v", err)
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			close(asked)
			calls.Wait()
		})
	}
}

// TestWhatAClientDeclaredIsRecorded when it connects, before its first call.
func TestWhatAClientDeclaredIsRecorded(t *testing.T) {
	g := newGateway(t, setting{upstream: legacy})
	session := g.person(t, &mcp.ClientOptions{ElicitationHandler: accept("r")})
	if err := session.Ping(t.Context(), nil); err != nil { // notifications have no response
		t.Fatal(err)
	}
	all := g.router.Sessions()
	if len(all) != 1 {
		t.Fatalf("%d sessions are known, want 1", len(all))
	}
	if c := all[0].UpstreamCapabilities().Elicitation; c == nil || !c.Form || c.URL {
		t.Errorf("its elicitation capability is %+v, want form mode", c)
	}
}

// TestRefusedCall: a call that the router refuses reaches the client with its code and the
// time after which to try again.
func TestRefusedCall(t *testing.T) {
	g := newGateway(t, setting{upstream: legacy})
	session := g.person(t, nil)
	if err := g.router.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "form",
		Arguments: map[string]any{"env": "prod"}})
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != protocol.CodeBusy ||
		!strings.Contains(string(e.Data), `"retryAfterMs":5000`) {
		t.Errorf("got %v", err)
	}
}

// TestNewDownstreamRefuses: a router and a server are required.
func TestNewDownstreamRefuses(t *testing.T) {
	if _, err := gosdk.NewDownstream(nil, mcp.NewServer(impl, nil), nil); err == nil {
		t.Error("without a router: no error")
	}
	if _, err := gosdk.NewDownstream(new(elicitation.Router), nil, nil); err == nil {
		t.Error("without a server: no error")
	}
}
