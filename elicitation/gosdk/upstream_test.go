//lint:file-ignore SA1019 logging is deprecated, and supported for as long as it exists

package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

// asUpstream makes this program an upstream on standard input and output.
const asUpstream = "RONDO_TEST_UPSTREAM"

func TestMain(m *testing.M) {
	if gatewaytest.ServeGateway(newFleetGateway) {
		return
	}
	if os.Getenv(asUpstream) != "" {
		if err := childUpstream().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		return
	}
	testkit.Main(m)
}

// childUpstream asks for a reason, and returns it with the process that asked.
func childUpstream() *mcp.Server {
	s := mcp.NewServer(impl, nil)
	s.AddTool(tool("form"), func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ Env string }
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
			return nil, err
		}
		if args.Env == "die" {
			os.Exit(0)
		}
		answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{
			Message: "Deploy to " + args.Env + "?", RequestedSchema: json.RawMessage(
				`{"type":"object","properties":{"reason":{"type":"string"}},"required":["reason"]}`),
		})
		return tell(answer, err), nil
	})
	return s
}

// upstreamGateway is a gateway before one upstream, whose tools it publishes.
type upstreamGateway struct {
	*gateway
	up     *gosdk.Upstream
	server *mcp.Server
}

func newUpstreamGateway(t *testing.T, opts gosdk.UpstreamOptions) *upstreamGateway {
	t.Helper()
	router, err := elicitation.New(&elicitation.Options{
		Limits: elicitation.Limits{Pending: -1, PerPrincipal: -1, PerSession: -1, PerUpstream: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server,
		&gosdk.Options{Principal: headerAsPrincipal})
	if err != nil {
		t.Fatal(err)
	}
	opts.Name, opts.Implementation = "up", impl
	up, err := clients.NewUpstream(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	if err := up.PublishTools(t.Context(), server, nil); err != nil {
		t.Fatal(err)
	}
	url := serveDownstream(t, clients, server)
	return &upstreamGateway{&gateway{router: router, url: url}, up, server}
}

// headerAsPrincipal believes what clients call themselves.
func headerAsPrincipal(from *mcp.RequestExtra) protocol.Principal {
	if from == nil { // not over HTTP
		return protocol.LocalPrincipal()
	}
	return protocol.Principal{Subject: from.Header.Get(userHeader)}
}

// user connects a client that is called name.
func (g *upstreamGateway) user(t *testing.T, name string,
	opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, opts).Connect(
		t.Context(), &mcp.StreamableClientTransport{Endpoint: g.url,
			HTTPClient: &http.Client{Transport: headerTransport{user: name}}},
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// children returns a transport over child processes, and counts them.
func children(t *testing.T, started *atomic.Int32) func() mcp.Transport {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return func() mcp.Transport {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), asUpstream+"=yes")
		return countingTransport{&mcp.CommandTransport{Command: cmd}, started}
	}
}

type countingTransport struct {
	mcp.Transport
	started *atomic.Int32
}

func (t countingTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	t.started.Add(1)
	return t.Transport.Connect(ctx)
}

// TestChildProcessesServeManyUsers: a bounded number of children, each of which serves one
// call at a time.
func TestChildProcessesServeManyUsers(t *testing.T) {
	var started atomic.Int32
	g := newUpstreamGateway(t, gosdk.UpstreamOptions{Transport: children(t, &started),
		MaxConnections: 4, IdleTimeout: time.Hour})
	each := 50
	if testkit.Slow {
		each = 500
	}
	var calls sync.WaitGroup
	for _, name := range []string{"alice", "bob"} {
		session := g.user(t, name, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context,
			req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept",
				Content: map[string]any{"reason": name + " answers " + req.Params.Message}}, nil
		}})
		for n := range each {
			calls.Go(func() {
				env := fmt.Sprintf("%s-%d", name, n)
				want := fmt.Sprintf(`accept {"reason":"%s answers Deploy to %s?"}`, name, env)
				if got := call(t, session, "form", env); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	}
	calls.Wait()
	if n := started.Load(); n > 5 { // one lists the tools
		t.Errorf("%d processes were started, want 5 at most", n)
	}
}

// TestCancelledCallsOnChildren: a child whose call was given up is replaced, and the calls
// of others find one.
func TestCancelledCallsOnChildren(t *testing.T) {
	var started atomic.Int32
	g := newUpstreamGateway(t, gosdk.UpstreamOptions{Transport: children(t, &started),
		MaxConnections: 2})
	asked, over := make(chan struct{}), make(chan struct{})
	alice := g.user(t, "alice", &mcp.ClientOptions{ElicitationHandler: func(context.Context,
		*mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked <- struct{}{}
		<-over
		return &mcp.ElicitResult{Action: "decline"}, nil
	}})
	t.Cleanup(func() { close(over) })
	bob := g.user(t, "bob", &mcp.ClientOptions{ElicitationHandler: accept("bob")})
	for range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = alice.CallTool(ctx,
				&mcp.CallToolParams{Name: "form", Arguments: map[string]any{"env": "alice"}})
		}()
		<-asked
		cancel()
		<-ended
		if got := call(t, bob, "form", "bob"); got != `accept {"reason":"bob"}` {
			t.Errorf("bob: got %s", got)
		}
	}
}

// TestAUserLeavesChildrenToOthers: one user may have half of the connections.
func TestAUserLeavesChildrenToOthers(t *testing.T) {
	var started atomic.Int32
	g := newUpstreamGateway(t, gosdk.UpstreamOptions{Transport: children(t, &started),
		MaxConnections: 4})
	asked, over := make(chan struct{}, 8), make(chan struct{})
	alice := g.user(t, "alice", &mcp.ClientOptions{ElicitationHandler: func(context.Context,
		*mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked <- struct{}{}
		<-over
		return &mcp.ElicitResult{Action: "decline"}, nil
	}})
	bob := g.user(t, "bob", &mcp.ClientOptions{ElicitationHandler: accept("bob")})
	var calls sync.WaitGroup
	for range 5 {
		calls.Go(func() {
			if got := call(t, alice, "form", "alice"); got != "decline null" {
				t.Errorf("alice: got %s", got)
			}
		})
	}
	<-asked
	<-asked
	if got := call(t, bob, "form", "bob"); got != `accept {"reason":"bob"}` {
		t.Errorf("bob: got %s", got)
	}
	if n := len(asked); n != 0 {
		t.Errorf("alice has %d connections more than her share", n)
	}
	close(over)
	calls.Wait()
}

// TestAFloodLeavesTheQueueToOthers: a user who makes more calls than may wait has some refused,
// and another has none.
func TestAFloodLeavesTheQueueToOthers(t *testing.T) {
	var started atomic.Int32
	g := newUpstreamGateway(t, gosdk.UpstreamOptions{Transport: children(t, &started),
		MaxConnections: 2, MaxWaiting: 10})
	asked, over := make(chan struct{}, 64), make(chan struct{})
	alice := g.user(t, "alice", &mcp.ClientOptions{ElicitationHandler: func(context.Context,
		*mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked <- struct{}{}
		<-over
		return &mcp.ElicitResult{Action: "decline"}, nil
	}})
	bob := g.user(t, "bob", &mcp.ClientOptions{ElicitationHandler: accept("bob")})
	results := make(chan string, 64)
	for range 40 {
		go func() { results <- call(t, alice, "form", "alice") }()
	}
	const served, waiting = 1, 5
	for range 40 - served - waiting {
		if got := <-results; !strings.Contains(got, "Too many calls wait for the upstream") {
			t.Errorf("alice: got %s", got)
		}
	}
	<-asked
	for range 4 {
		if got := call(t, bob, "form", "bob"); got != `accept {"reason":"bob"}` {
			t.Errorf("bob: got %s", got)
		}
	}
	close(over)
	for range served + waiting {
		if got := <-results; got != "decline null" {
			t.Errorf("alice: got %s", got)
		}
	}
}

// TestAChildDies: its call fails, and the next one gets another child.
func TestAChildDies(t *testing.T) {
	var started atomic.Int32
	g := newUpstreamGateway(t, gosdk.UpstreamOptions{Transport: children(t, &started),
		MaxConnections: 1})
	session := g.user(t, "alice", &mcp.ClientOptions{ElicitationHandler: accept("r")})
	for range 3 {
		if got := call(t, session, "form", "die"); !strings.HasSuffix(got,
			": The upstream server cannot be reached") {
			t.Errorf("a call of a child that dies: got %s", got)
		}
		if got := call(t, session, "form", "prod"); got != `accept {"reason":"r"}` {
			t.Errorf("after a child died: got %s", got)
		}
	}
}

// TestIdleChildrenEnd: children without calls are closed.
func TestIdleChildrenEnd(t *testing.T) {
	var started atomic.Int32
	g := newUpstreamGateway(t, gosdk.UpstreamOptions{Transport: children(t, &started),
		MaxConnections: 1, IdleTimeout: time.Millisecond})
	session := g.user(t, "alice", &mcp.ClientOptions{ElicitationHandler: accept("r")})
	for deadline := time.Now().Add(patience); started.Load() < 3; {
		if time.Now().After(deadline) {
			t.Fatalf("%d processes were started: the idle one is still used", started.Load())
		}
		if got := call(t, session, "form", "prod"); got != `accept {"reason":"r"}` {
			t.Fatalf("got %s", got)
		}
		time.Sleep(2 * time.Millisecond) // idle
	}
}

// TestTheQueueForChildrenIsBounded: a call beyond it is refused with the time after which to
// try again.
func TestTheQueueForChildrenIsBounded(t *testing.T) {
	var started atomic.Int32
	g := newUpstreamGateway(t, gosdk.UpstreamOptions{Transport: children(t, &started),
		MaxConnections: 1, MaxWaiting: 1})
	asked, over := make(chan struct{}), make(chan struct{})
	session := g.user(t, "alice", &mcp.ClientOptions{ElicitationHandler: func(context.Context,
		*mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked <- struct{}{}
		<-over
		return &mcp.ElicitResult{Action: "decline"}, nil
	}})
	results := make(chan string, 3)
	start := func() { results <- call(t, session, "form", "prod") }
	go start()
	<-asked
	go start()
	go start()
	if got := <-results; !strings.Contains(got, "Too many calls wait for the upstream") {
		t.Errorf("got %s", got)
	}
	close(over)
	<-asked
	for range 2 {
		if got := <-results; got != "decline null" {
			t.Errorf("got %s", got)
		}
	}
}

// TestUpstreamOverHTTP: progress, log messages and changes of the list of tools reach the
// client whose call they are about, and a session that the upstream has lost is replaced.
func TestUpstreamOverHTTP(t *testing.T) {
	up := reportingTools()
	var handler atomic.Pointer[mcp.StreamableHTTPHandler]
	restart := func() {
		handler.Store(mcp.NewStreamableHTTPHandler(
			func(*http.Request) *mcp.Server { return up }, nil))
	}
	restart()
	t.Cleanup(func() {
		for session := range up.Sessions() { // of handlers that are not there any more
			_ = session.Close()
		}
	})
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(served.Close)
	g := newUpstreamGateway(t, gosdk.UpstreamOptions{LogLevel: "debug",
		Transport: func() mcp.Transport {
			return &mcp.StreamableClientTransport{Endpoint: served.URL}
		}})
	var users sync.WaitGroup
	for _, name := range []string{"alice", "bob"} {
		users.Go(func() { useReportingTool(t, g, name) })
	}
	users.Wait()

	changed := make(chan struct{}, 8)
	session := g.user(t, "carol", &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			changed <- struct{}{}
		}})
	up.AddTool(tool("later"), func(context.Context,
		*mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("late"), nil
	})
	waitForTools(t, session, changed, "later", "report")
	up.RemoveTools("report")
	waitForTools(t, session, changed, "later")
	restart() // the upstream has no session any more
	if got := call(t, session, "later", ""); got != "late" {
		t.Errorf("after the upstream lost its sessions: got %s", got)
	}
}

// reportingTools is an upstream whose tool reports what it was given.
func reportingTools() *mcp.Server {
	up := mcp.NewServer(impl, nil)
	up.AddTool(tool("report"), func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ Env string }
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
			return nil, err
		}
		err := errors.Join(
			req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: 1, Message: args.Env}),
			req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: args.Env}))
		if err != nil {
			return nil, err
		}
		return tell(req.Session.Elicit(ctx, &mcp.ElicitParams{Message: args.Env,
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)})), nil
	})
	return up
}

func useReportingTool(t *testing.T, g *upstreamGateway, name string) {
	said := make(chan string, 8)
	session := g.user(t, name, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context,
			req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			said <- "asked " + req.Params.Message
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context,
			req *mcp.ProgressNotificationClientRequest) {
			if req.Params.Message != "waiting for an answer" { // a heartbeat
				said <- fmt.Sprint("progress ", req.Params.ProgressToken, " ", req.Params.Message)
			}
		},
		LoggingMessageHandler: func(_ context.Context, req *mcp.LoggingMessageRequest) {
			said <- fmt.Sprint("log ", req.Params.Data)
		},
	})
	if err := session.SetLoggingLevel(t.Context(),
		&mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
		t.Error(err)
	}
	params := &mcp.CallToolParams{Name: "report", Arguments: map[string]any{"env": name}}
	params.SetProgressToken("of " + name)
	result, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if got := result.Content[0].(*mcp.TextContent).Text; got != "accept null" {
		t.Errorf("%s: got %s", name, got)
	}
	var got []string
	for range 3 {
		select {
		case s := <-said:
			got = append(got, s)
		case <-time.After(patience):
			t.Errorf("%s: got only %q", name, got)
			return
		}
	}
	slices.Sort(got)
	want := []string{"asked " + name, "log " + name, "progress of " + name + " " + name}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", name, got, want)
	}
}

// waitForTools waits until the gateway has exactly these tools.
func waitForTools(t *testing.T, session *mcp.ClientSession, changed <-chan struct{},
	want ...string) {
	t.Helper()
	limit := time.After(patience)
	for {
		var got []string
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, tool.Name)
		}
		if slices.Sort(got); slices.Equal(got, want) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("the tools are %q, want %q", got, want)
		}
	}
}

// TestTwoGatewaysInARow: the questions of a server behind two gateways reach the client
// whose call passes both. The users of the outer share its connection to the inner.
func TestTwoGatewaysInARow(t *testing.T) {
	served := overHTTPAt(t, newUpstream(t), nil)
	inner := newUpstreamGateway(t, gosdk.UpstreamOptions{Transport: func() mcp.Transport {
		return &mcp.StreamableClientTransport{Endpoint: served}
	}})
	outer := newUpstreamGateway(t, gosdk.UpstreamOptions{Transport: func() mcp.Transport {
		return &mcp.StreamableClientTransport{Endpoint: inner.url}
	}})
	var calls sync.WaitGroup
	for _, name := range []string{"alice", "bob"} {
		answer := func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept",
				Content: map[string]any{"reason": name + " answers " + req.Params.Message}}, nil
		}
		session := outer.user(t, name, &mcp.ClientOptions{ElicitationHandler: answer})
		for n := range 10 {
			calls.Go(func() {
				env := fmt.Sprintf("%s-%d", name, n)
				want := fmt.Sprintf(`accept {"reason":"%s answers Deploy to %s?"}`, name, env)
				if got := call(t, session, "form", env); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	}
	calls.Wait()
	mute := outer.user(t, "mute", nil)
	if got := call(t, mute, "form", "prod"); got != "local: client does not support elicitation" {
		t.Errorf("who cannot be asked: got %s", got)
	}
}
