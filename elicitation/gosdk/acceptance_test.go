package gosdk_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/replicas"
)

func TestMain(m *testing.M) {
	if !serveGatewayProcess() && !gatewaytest.ServeProcess() {
		testkit.Main(m)
	}
}

// What gateways hold whose connections are an [gosdk.Upstream].
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
func TestReportsOfTheUpstream(t *testing.T)    { gatewaytest.AcceptReports(t, build, true) }
func TestProgress(t *testing.T)                { gatewaytest.AcceptProgress(t, build) }
func TestWhatIsPublished(t *testing.T)         { gatewaytest.AcceptPublished(t, build) }
func TestPublishedLate(t *testing.T)           { gatewaytest.AcceptLate(t, build) }
func TestNamesThatAreTaken(t *testing.T)       { gatewaytest.AcceptTaken(t, build) }
func TestLinksInResults(t *testing.T)          { gatewaytest.AcceptLinks(t, build) }
func TestOlderAndModernClients(t *testing.T)   { gatewaytest.AcceptFallback(t, build) }
func TestChangesAreFollowed(t *testing.T)      { gatewaytest.AcceptChanges(t, build, false) }
func TestAnswersThatAreNotTaken(t *testing.T) {
	gatewaytest.AcceptReceipts(t, build, "elicitation.error")
}

// What gateways hold whose connections are the host's own.
func TestWhatEachSideReads(t *testing.T)    { gatewaytest.Accept(t, serveRaw) }
func TestOneMediaType(t *testing.T)         { gatewaytest.AcceptOneType(t, serveRaw) }
func TestDeleteFreesQuestions(t *testing.T) { gatewaytest.AcceptDelete(t, serveRaw) }
func TestFaultsOfOneCall(t *testing.T)      { gatewaytest.AcceptFaults(t, serveRaw) }
func TestAbandonedCalls(t *testing.T)       { gatewaytest.AcceptAbandoned(t, serveRaw) }
func TestVisit(t *testing.T)                { gatewaytest.AcceptVisit(t, serveRaw) }

// TestSessionsOfOthers: a user of another issuer with the same id is another user, and so is one
// whom the host knows in another way than by tokens.
func TestSessionsOfOthers(t *testing.T) {
	gatewaytest.AcceptOwners(t, build, gatewaytest.As("alice"), gatewaytest.As("mallory"))
	gatewaytest.AcceptOwners(t, build, gatewaytest.As("alice"), nil)
	byToken := func(t *testing.T, router *elicitation.Router, to ...*gatewaytest.Backend) (
		http.Handler, func()) {
		handler, end := buildWith(t, router, nil, to)
		return auth.RequireBearerToken(verifyToken, nil)(handler), end
	}
	gatewaytest.AcceptOwners(t, byToken, bearer("https://a.example|ada"),
		bearer("https://b.example|ada"))
}

// build is a [gatewaytest.Build].
func build(t *testing.T, router *elicitation.Router, to ...*gatewaytest.Backend) (http.Handler,
	func()) {
	t.Helper()
	return buildWith(t, router, &gosdk.Options{Principal: headerAsPrincipal}, to)
}

func buildWith(t *testing.T, router *elicitation.Router, opts *gosdk.Options,
	to []*gatewaytest.Backend) (_ http.Handler, closeUpstreams func()) {
	t.Helper()
	server := mcp.NewServer(impl, &mcp.ServerOptions{ProgressNotificationHandler: func(
		_ context.Context, req *mcp.ProgressNotificationServerRequest) {
		select {
		case to[0].OtherProgress <- fmt.Sprint(req.Params.ProgressToken):
		default:
		}
	}})
	clients, err := gosdk.NewDownstream(router, server, opts)
	if err != nil {
		t.Fatal(err)
	}
	var upstreams []*gosdk.Upstream
	for i, b := range to {
		up, err := clients.NewUpstream(gosdk.UpstreamOptions{
			Name: gatewaytest.NameOf(i), Unprefixed: b.Unprefixed, Implementation: impl,
			// Not passed on: what is declared upstream is compared.
			Client: &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{
				Extensions: map[string]any{protocol.ExtensionTasks: struct{}{}}}},
			Transport:      func(key string) mcp.Transport { return dial(t, b, key) },
			MaxConnections: b.MaxConnections, MaxWaiting: b.MaxWaiting,
			IdleTimeout: b.IdleTimeout, Key: b.Key, Warn: b.Warn,
			ProtocolVersion: b.ProtocolVersion})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(up.Close)
		upstreams = append(upstreams, up)
		if b.Publish {
			b.Err = up.Publish(t.Context(), server)
			continue
		}
		for _, name := range gatewaytest.Tools() {
			server.AddTool(tool(name), func(ctx context.Context,
				req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return up.CallTool(ctx, req, name)
			})
		}
	}
	return clients.Handler(streamable(server)), func() {
		for _, up := range upstreams {
			up.Close()
		}
	}
}

func dial(t *testing.T, b *gatewaytest.Backend, key string) mcp.Transport {
	switch {
	case b.Child:
		program, env := b.Command()
		cmd := exec.Command(program)
		cmd.Env = env
		return &mcp.CommandTransport{Command: cmd}
	case b.Lines:
		r, w := b.DialLines(t)
		return &mcp.IOTransport{Reader: r, Writer: w}
	}
	return &mcp.StreamableClientTransport{Endpoint: b.URL, HTTPClient: b.ClientFor(key)}
}

// headerAsPrincipal believes what clients call themselves.
func headerAsPrincipal(from *mcp.RequestExtra) protocol.Principal {
	return protocol.Principal{Subject: from.Header.Get(gatewaytest.UserHeader)}
}

func streamable(server *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
}

// serveRaw serves a gateway before an upstream that writes its messages itself.
func serveRaw(t *testing.T, router *elicitation.Router, up *gatewaytest.Upstream,
	mode gatewaytest.Mode) (url string) {
	t.Helper()
	clients, server := newLoggedGateway(t, router, up, mode)
	return serveDownstream(t, clients, server)
}

// newLoggedGateway returns a gateway before an upstream that writes its messages itself.
func newLoggedGateway(t *testing.T, router *elicitation.Router, up *gatewaytest.Upstream,
	mode gatewaytest.Mode) (*gosdk.Downstream, *mcp.Server) {
	t.Helper()
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, &gosdk.Options{
		LogName: func(*mcp.ServerSession) string { return gatewaytest.LogName },
	})
	if err != nil {
		t.Fatal(err)
	}
	pass := passRaw(t, router, clients, up, mode)
	for _, name := range gatewaytest.Tools() {
		server.AddTool(tool(name), pass)
	}
	return clients, server
}

// TestClientOnLines: the gateway's client is a process that has started it.
func TestClientOnLines(t *testing.T) {
	gatewaytest.AcceptLines(t, func(t *testing.T, router *elicitation.Router,
		up *gatewaytest.Upstream, mode gatewaytest.Mode,
	) func(context.Context, io.Reader, io.Writer) {
		_, server := newLoggedGateway(t, router, up, mode)
		return func(ctx context.Context, in io.Reader, out io.Writer) {
			_ = server.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: openEnd{out}})
		}
	})
}

// An openEnd is a writer that somebody else closes.
type openEnd struct{ io.Writer }

func (openEnd) Close() error { return nil }

func serveDownstream(t *testing.T, clients *gosdk.Downstream, server *mcp.Server) (url string) {
	served := httptest.NewServer(clients.Handler(streamable(server)))
	t.Cleanup(served.Close)
	return served.URL
}

// passRaw passes calls on to an upstream that writes its messages itself.
func passRaw(t *testing.T, router *elicitation.Router, clients *gosdk.Downstream,
	up *gatewaytest.Upstream, mode gatewaytest.Mode) mcp.ToolHandler {
	t.Helper()
	return passTo(t, router, clients,
		&gatewaytest.Backend{Upstream: up, Lines: mode.OverLines()}, mode)
}

// passTo passes calls on by connections of the host's own.
func passTo(t *testing.T, router *elicitation.Router, clients *gosdk.Downstream,
	to *gatewaytest.Backend, mode gatewaytest.Mode) mcp.ToolHandler {
	t.Helper()
	connect := func(ctx context.Context, c *mcp.Client) (*mcp.ClientSession, error) {
		transport := dial(t, to, "")
		if over, ok := transport.(*mcp.StreamableClientTransport); ok {
			over.HTTPClient = gosdk.HTTPClient(nil)
		}
		return c.Connect(ctx, transport,
			&mcp.ClientSessionOptions{ProtocolVersion: cmp.Or(to.ProtocolVersion, legacy)})
	}
	var shared *mcp.ClientSession
	if mode == gatewaytest.SharedHTTP || mode == gatewaytest.TurnsLines {
		var err error
		shared, err = connect(t.Context(), gosdk.NewSharedClient(router, "up", impl, nil))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = shared.Close() })
	}
	var calls atomic.Int32
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key, session := elicitation.UpstreamKey("up"), shared
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
		call, err := clients.Begin(ctx, req, key)
		if err != nil {
			return nil, err
		}
		defer call.End()
		on := gosdk.UpstreamContext(ctx)
		if shared == nil {
			if session, err = connect(on,
				gosdk.NewClient(router, call, key, impl, nil)); err != nil {
				return nil, err
			}
			defer session.Close()
		}
		return session.CallTool(gosdk.WithCall(on, call), &mcp.CallToolParams{
			Name: req.Params.Name, Arguments: json.RawMessage(req.Params.Arguments)})
	}
}

// TestAnyReplicaTakesTheRequestsOfASession and each answer.
func TestAnyReplicaTakesTheRequestsOfASession(t *testing.T) {
	gatewaytest.AcceptReplicas(t, func(t *testing.T, router *elicitation.Router,
		up *gatewaytest.Upstream, replicas *replicas.Options) http.Handler {
		server := mcp.NewServer(impl, nil)
		clients, err := gosdk.NewDownstream(router, server, &gosdk.Options{Replicas: replicas})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { gosdk.CloseIdle(clients) })
		server.AddTool(tool(gatewaytest.ToolAsk),
			passRaw(t, router, clients, up, gatewaytest.SharedHTTP))
		return clients.AnswerChallenges(clients.Handler(streamable(server)))
	})
}

// verifyToken is a verifier of tokens ISSUER|USER.
func verifyToken(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	issuer, user, _ := strings.Cut(token, "|")
	return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour),
		Extra: map[string]any{"iss": issuer}}, nil
}

// bearer is the header of requests with a token.
func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// Users of two issuers who have the same id are two people, also where the host serves the SDK's
// handler as it is.
func TestPrincipalKeepsTheIssuer(t *testing.T) {
	var asked atomic.Pointer[protocol.Principal]
	router, err := elicitation.New(&elicitation.Options{
		Audit: audit(func(e elicitation.AuditEvent) { asked.Store(&e.Principal) })})
	if err != nil {
		t.Fatal(err)
	}
	_, server := newLoggedGateway(t, router, gatewaytest.NewUpstream(t), gatewaytest.SharedHTTP)
	web := httptest.NewServer(auth.RequireBearerToken(verifyToken, nil)(streamable(server)))
	t.Cleanup(web.Close)
	// The SDK compares the ids of users alone.
	session := gatewaytest.Connect(t, web.URL, `{"elicitation":{}}`,
		`"result":{"action":"decline"}`, bearer("https://a.example|ada"))
	for token, want := range map[string]protocol.Principal{
		"https://a.example|ada": {Issuer: "https://a.example", Subject: "ada"},
		"https://b.example|ada": {Issuer: "https://b.example", Subject: "ada"},
		"|ada":                  {Subject: "ada"},
	} {
		session.As(bearer(token)).Call(t, gatewaytest.ToolAsk,
			`{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`)
		if got := asked.Load(); got == nil || *got != want {
			t.Errorf("%s: got %+v, want %+v", token, got, want)
		}
	}
}

// audit is an [elicitation.AuditSink].
type audit func(elicitation.AuditEvent)

func (f audit) Audit(e elicitation.AuditEvent) { f(e) }

func TestForgottenCallsEnd(t *testing.T) {
	gatewaytest.AcceptForgotten(t, func(t *testing.T, router *elicitation.Router,
		handle func(context.Context, string, gatewaytest.Begun) (string, error)) http.Handler {
		server := mcp.NewServer(impl, nil)
		clients, err := gosdk.NewDownstream(router, server, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{gatewaytest.ToolPlain, gatewaytest.ToolAsk} {
			server.AddTool(tool(name), func(ctx context.Context,
				req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				said, err := handle(ctx, name, func(key elicitation.UpstreamKey) (
					*elicitation.Call, error) {
					return clients.Begin(ctx, req, key)
				})
				return text(said), err
			})
		}
		return clients.Handler(streamable(server))
	})
}
