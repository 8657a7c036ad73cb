package mcpgo_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/replicas"
)

func TestMain(m *testing.M) {
	if !gatewaytest.ServeProcess() {
		testkit.Main(m)
	}
}

// What gateways hold whose connections are an [mcpgo.Upstream].

func TestAnImpatientUser(t *testing.T)         { gatewaytest.AcceptImpatience(t, build) }
func TestManyPendingCalls(t *testing.T)        { gatewaytest.AcceptPending(t, build) }
func TestLimitOfOneConnection(t *testing.T)    { gatewaytest.AcceptLimit(t, build) }
func TestCloseWhileConnecting(t *testing.T)    { gatewaytest.AcceptClose(t, build) }
func TestConnectionsPerPrincipal(t *testing.T) { gatewaytest.AcceptPerPrincipal(t, build) }
func TestSessionsPerKey(t *testing.T)          { gatewaytest.AcceptKeys(t, build) }
func TestChildProcesses(t *testing.T)          { gatewaytest.AcceptChildren(t, build) }
func TestTurnsOnConnections(t *testing.T)      { gatewaytest.AcceptTurns(t, build) }
func TestModesOfConnections(t *testing.T)      { gatewaytest.AcceptModes(t, build) }
func TestTwoGatewaysInARow(t *testing.T)       { gatewaytest.AcceptChain(t, build) }
func TestReportsOfTheUpstream(t *testing.T)    { gatewaytest.AcceptReports(t, build, false) }
func TestProgress(t *testing.T)                { gatewaytest.AcceptProgress(t, build) }
func TestWhatIsPublished(t *testing.T)         { gatewaytest.AcceptPublished(t, build) }
func TestPublishedLate(t *testing.T)           { gatewaytest.AcceptLate(t, build) }
func TestNamesThatAreTaken(t *testing.T)       { gatewaytest.AcceptTaken(t, build) }
func TestLinksInResults(t *testing.T)          { gatewaytest.AcceptLinks(t, build) }
func TestOlderAndModernClients(t *testing.T)   { gatewaytest.AcceptFallback(t, build) }
func TestChangesAreFollowed(t *testing.T)      { gatewaytest.AcceptChanges(t, build, true) }

// What gateways hold whose connections are the host's own.

func TestWhatEachSideReads(t *testing.T)    { gatewaytest.Accept(t, serveRaw) }
func TestOneMediaType(t *testing.T)         { gatewaytest.AcceptOneType(t, serveRaw) }
func TestDeleteFreesQuestions(t *testing.T) { gatewaytest.AcceptDelete(t, serveRaw) }
func TestAbandonedCalls(t *testing.T)       { gatewaytest.AcceptAbandoned(t, serveRaw) }
func TestVisit(t *testing.T)                { gatewaytest.AcceptVisit(t, serveRaw) }

// TestFaultsOfOneCall: mcp-go reads events of any size, and takes minutes for one of many lines.
func TestFaultsOfOneCall(t *testing.T) {
	gatewaytest.AcceptFaults(t, serveRaw, gatewaytest.ManyLines)
}

// TestAnswersThatAreNotTaken are none where an HTTPClient sees it.
func TestAnswersThatAreNotTaken(t *testing.T) {
	t.Run("with an HTTPClient", func(t *testing.T) {
		gatewaytest.AcceptReceipts(t, build, "elicitation.error")
	})
	t.Run("without", func(t *testing.T) {
		gatewaytest.AcceptReceipts(t, func(t *testing.T, router *elicitation.Router,
			to ...*gatewaytest.Backend) (http.Handler, func()) {
			same := func(client *http.Client) *http.Client { return client }
			return buildWith(t, router, same, to)
		}, "elicitation.completed")
	})
}

// TestSessionsOfOthers: who authenticates as another, or as nobody, cannot use a session.
func TestSessionsOfOthers(t *testing.T) {
	gatewaytest.AcceptOwners(t, build, gatewaytest.As("alice"), gatewaytest.As("mallory"))
	gatewaytest.AcceptOwners(t, build, gatewaytest.As("alice"), nil)
}

type userKey struct{}

// build is a [gatewaytest.Build].
func build(t *testing.T, router *elicitation.Router, to ...*gatewaytest.Backend) (http.Handler,
	func()) {
	t.Helper()
	return buildWith(t, router, mcpgo.HTTPClient, to)
}

// buildWith is build with clients for HTTP that wrap what reaches the upstream.
func buildWith(t *testing.T, router *elicitation.Router, wrap func(*http.Client) *http.Client,
	to []*gatewaytest.Backend) (_ http.Handler, closeUpstreams func()) {
	t.Helper()
	s := server.NewMCPServer("gateway", "1", server.WithElicitation(), server.WithLogging(),
		server.WithToolCapabilities(true), server.WithPromptCapabilities(true),
		server.WithResourceCapabilities(false, true))
	clients, err := mcpgo.NewDownstream(router, s, &mcpgo.Options{
		Principal: func(ctx context.Context) protocol.Principal {
			user, _ := ctx.Value(userKey{}).(string)
			return protocol.Principal{Subject: user}
		},
		HandleProgress: func(_ context.Context, n mcp.JSONRPCNotification) {
			select {
			case to[0].OtherProgress <- fmt.Sprint(n.Params.AdditionalFields["progressToken"]):
			default:
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	var upstreams []*mcpgo.Upstream
	for i, b := range to {
		up, err := clients.NewUpstream(mcpgo.UpstreamOptions{
			Name: gatewaytest.NameOf(i), Unprefixed: b.Unprefixed,
			// Not passed on: what is declared upstream is compared.
			Initialize: mcp.InitializeRequest{Params: mcp.InitializeParams{
				Capabilities: mcp.ClientCapabilities{
					Extensions: map[string]any{protocol.ExtensionTasks: struct{}{}}}}},
			Transport: func(key string) (transport.Interface, error) {
				return dial(t, b, wrap(b.ClientFor(key))), nil
			},
			MaxConnections: b.MaxConnections, MaxWaiting: b.MaxWaiting,
			IdleTimeout: b.IdleTimeout, Key: b.Key, Warn: b.Warn,
			ProtocolVersion: b.ProtocolVersion})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(up.Close)
		upstreams = append(upstreams, up)
		if b.Publish {
			b.Err = up.Publish(t.Context())
			continue
		}
		for _, name := range gatewaytest.Tools() {
			s.AddTool(mcp.NewTool(name), func(ctx context.Context,
				r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return up.CallTool(ctx, r, name)
			})
		}
	}
	gateway := clients.Handler(server.NewStreamableHTTPServer(s, quiet))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user := r.Header.Get(gatewaytest.UserHeader)
			gateway.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
		}), func() {
			for _, up := range upstreams {
				up.Close()
			}
		}
}

// dial returns the transport of a connection to an upstream.
func dial(t *testing.T, b *gatewaytest.Backend, over *http.Client) transport.Interface {
	switch {
	case b.Child:
		program, env := b.Command()
		return transport.NewStdio(program, env)
	case b.Lines:
		r, w := b.DialLines(t)
		return transport.NewIO(r, w, io.NopCloser(strings.NewReader("")))
	}
	opts := []transport.StreamableHTTPCOption{transport.WithHTTPBasicClient(over)}
	if b.Publish {
		//lint:ignore SA1019 the revisions that have the stream are those that ask on it
		opts = append(opts, transport.WithContinuousListening())
	}
	return overHTTP(t, b.URL, opts...)()
}

// serveRaw serves a gateway before an upstream that writes its messages itself.
func serveRaw(t *testing.T, router *elicitation.Router, up *gatewaytest.Upstream,
	mode gatewaytest.Mode) (url string) {
	t.Helper()
	clients, s := newLoggedGateway(t, router, up, mode)
	down := httptest.NewServer(clients.Handler(server.NewStreamableHTTPServer(s, quiet)))
	t.Cleanup(down.Close)
	return down.URL
}

// TestClientOnLines: the gateway's client is a process that has started it.
func TestClientOnLines(t *testing.T) {
	gatewaytest.AcceptLines(t, func(t *testing.T, router *elicitation.Router,
		up *gatewaytest.Upstream, mode gatewaytest.Mode,
	) func(context.Context, io.Reader, io.Writer) {
		clients, s := newLoggedGateway(t, router, up, mode)
		return listen(clients, s)
	})
}

// listen returns what serves a gateway's client on lines.
func listen(clients *mcpgo.Downstream, s *server.MCPServer) func(context.Context, io.Reader,
	io.Writer) {
	stdio := server.NewStdioServer(s)
	stdio.SetErrorLogger(log.New(io.Discard, "", 0))
	return func(ctx context.Context, in io.Reader, out io.Writer) {
		_ = clients.Listen(ctx, stdio, in, out)
	}
}

// newLoggedGateway returns a gateway before an upstream that writes its messages itself.
func newLoggedGateway(t *testing.T, router *elicitation.Router, up *gatewaytest.Upstream,
	mode gatewaytest.Mode) (*mcpgo.Downstream, *server.MCPServer) {
	t.Helper()
	s := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, &mcpgo.Options{
		LogName: func(server.ClientSession) string { return gatewaytest.LogName },
	})
	if err != nil {
		t.Fatal(err)
	}
	pass := passTo(t, router, clients,
		&gatewaytest.Backend{Upstream: up, Lines: mode.OverLines(), Publish: true}, mode)
	for _, name := range gatewaytest.Tools() {
		s.AddTool(mcp.NewTool(name), pass)
	}
	return clients, s
}

// passTo passes calls on by connections of the host's own.
func passTo(t *testing.T, router *elicitation.Router, clients *mcpgo.Downstream,
	to *gatewaytest.Backend, mode gatewaytest.Mode) server.ToolHandlerFunc {
	t.Helper()
	revision := client.WithProtocolVersion(cmp.Or(to.ProtocolVersion, legacy))
	open := func() transport.Interface { return dial(t, to, mcpgo.HTTPClient(nil)) }
	start := func(ctx context.Context, c *client.Client) error {
		if err := c.Start(ctx); err != nil {
			return err
		}
		_, err := c.Initialize(ctx, mcp.InitializeRequest{})
		return err
	}
	var shared *client.Client
	if mode == gatewaytest.SharedHTTP || mode == gatewaytest.TurnsLines {
		shared = mcpgo.NewSharedClient(router, "up", open(), revision)
		if err := start(t.Context(), shared); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = shared.Close() })
	}
	var calls atomic.Int32
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key, upstream := elicitation.UpstreamKey("up"), shared
		if mode == gatewaytest.TurnsLines {
			release, err := router.AcquireUpstream(ctx, key)
			if err != nil {
				return nil, err
			}
			defer release()
		}
		if shared == nil {
			key = elicitation.UpstreamKey(fmt.Sprint("up-", calls.Add(1)))
		}
		call, err := clients.Begin(ctx, key)
		if err != nil {
			return nil, err
		}
		defer call.End()
		on := mcpgo.UpstreamContext(ctx)
		if shared == nil {
			upstream = mcpgo.NewClient(router, call, key, open(), revision)
			if err := start(on, upstream); err != nil {
				return nil, err
			}
			defer upstream.Close()
		}
		var request mcp.CallToolRequest
		request.Params.Name, request.Params.Arguments = r.Params.Name, r.GetArguments()
		return upstream.CallTool(mcpgo.WithCall(on, call), request)
	}
}

// TestAnyReplicaTakesTheRequestsOfASession and each answer.
func TestAnyReplicaTakesTheRequestsOfASession(t *testing.T) {
	gatewaytest.AcceptReplicas(t, func(t *testing.T, router *elicitation.Router,
		up *gatewaytest.Upstream, replicas *replicas.Options) http.Handler {
		s := server.NewMCPServer("gateway", "1", server.WithElicitation())
		clients, err := mcpgo.NewDownstream(router, s, &mcpgo.Options{Replicas: replicas})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { mcpgo.CloseIdle(clients) })
		s.AddTool(mcp.NewTool(gatewaytest.ToolAsk), passTo(t, router, clients,
			&gatewaytest.Backend{Upstream: up}, gatewaytest.SharedHTTP))
		return clients.AnswerChallenges(clients.Handler(server.NewStreamableHTTPServer(s, quiet)))
	})
}

// TestTemplatesWithoutAURIAreLeftOut: mcp-go's server would keep a lock for ever.
func TestTemplatesWithoutAURIAreLeftOut(t *testing.T) {
	up := gatewaytest.NewLibrary(t)
	up.SetList("resources/templates/list",
		`{"resourceTemplates":[{"name":"none"},{"name":"pages","uriTemplate":"page:///{n}"}]}`)
	b := &gatewaytest.Backend{Upstream: up, Publish: true}
	handler, _ := build(t, newRouter(t, nil), b)
	served := httptest.NewServer(handler)
	t.Cleanup(served.Close)
	if b.Err != nil {
		t.Fatal(b.Err)
	}
	c := gatewaytest.Connect(t, served.URL, forms, "", nil)
	c.WaitUntilListed(t, "up_ask", "up_review", "up+file:///plan", "up+page:///{n}")
}

// TestWhatTheUpstreamAnswers: the upstream's own error reaches the client as it is, and an upstream
// that does not answer with nothing of the cause, which has its address.
func TestWhatTheUpstreamAnswers(t *testing.T) {
	const unreachable = `{"code":-32603,"message":"The upstream server cannot be reached"}`
	for _, test := range []struct {
		name       string
		status     int
		body, want string
	}{
		{"its own error", 200, `{"code":-32050,"message":"not\n<here>","data":{"why":["x"]}}`,
			`{"code":-32050,"message":"not\n<here>","data":{"why":["x"]}}`},
		{"an error without data", 200, `{"code":-32601,"message":"no tool"}`,
			`{"code":-32601,"message":"no tool"}`},
		{"a refused request", 500, `"oops"`, unreachable},
		{"no answer", 0, "", unreachable},
	} {
		t.Run(test.name, func(t *testing.T) {
			raw := gatewaytest.NewUpstream(t)
			raw.Intercept = func(w http.ResponseWriter, _ *http.Request,
				m *gatewaytest.Message) bool {
				if m.Method != "tools/call" {
					return false
				}
				switch test.status {
				case 0:
					panic(http.ErrAbortHandler)
				case 500:
					http.Error(w, test.body, test.status)
				default:
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, test.body)
				}
				return true
			}
			handler, _ := build(t, newRouter(t, nil), &gatewaytest.Backend{Upstream: raw})
			served := httptest.NewServer(handler)
			t.Cleanup(served.Close)
			c := gatewaytest.Connect(t, served.URL, forms, "", nil)
			if got := c.Call(t, gatewaytest.ToolAsk, "{}"); !sameJSON(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestAConnectionBreaks while a person thinks: the question ends.
func TestAConnectionBreaks(t *testing.T) {
	router := newRouter(t, nil)
	url := serveRaw(t, router, gatewaytest.NewUpstream(t), gatewaytest.SharedHTTP)
	client := gatewaytest.Connect(t, url, forms, "", nil)
	stream := client.StartCall(t, gatewaytest.ToolAsk, question)
	stream.WaitForQuestion(t)
	stream.Close()
	for limit := time.Now().Add(10 * time.Second); router.Pending() > 0; runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatal("the question is still open")
		}
	}
}

func TestForgottenCallsEnd(t *testing.T) {
	gatewaytest.AcceptForgotten(t, func(t *testing.T, router *elicitation.Router,
		handle func(context.Context, string, gatewaytest.Begun) (string, error)) http.Handler {
		s := server.NewMCPServer("gateway", "1", server.WithElicitation())
		clients, err := mcpgo.NewDownstream(router, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{gatewaytest.ToolPlain, gatewaytest.ToolAsk} {
			s.AddTool(mcp.NewTool(name), func(ctx context.Context,
				_ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				said, err := handle(ctx, name, func(key elicitation.UpstreamKey) (
					*elicitation.Call, error) {
					return clients.Begin(ctx, key)
				})
				if err != nil {
					return nil, err
				}
				return mcp.NewToolResultText(said), nil
			})
		}
		return clients.Handler(server.NewStreamableHTTPServer(s, quiet))
	})
}

// TestSilentUser: the client's question is withdrawn.
func TestSilentUser(t *testing.T) {
	for _, lines := range []bool{false, true} {
		t.Run(fmt.Sprintf("lines %v", lines), func(t *testing.T) {
			router := newRouter(t, &elicitation.Options{Timeout: 100 * time.Millisecond})
			up := gatewaytest.NewUpstream(t)
			clients, s := newLoggedGateway(t, router, up, gatewaytest.SharedHTTP)
			if lines {
				gatewaytest.CheckWithdrawn(t, up,
					gatewaytest.ConnectLines(t, listen(clients, s), forms, ""))
				return
			}
			down := httptest.NewServer(clients.Handler(server.NewStreamableHTTPServer(s, quiet)))
			t.Cleanup(down.Close)
			gatewaytest.CheckWithdrawn(t, up, gatewaytest.Connect(t, down.URL, forms, "", nil))
		})
	}
}
