package mcpgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rondo "github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/bridge"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// A bridgedGateway serves clients of both eras before an upstream that asks while calls run.
type bridgedGateway struct {
	url    string
	server *server.MCPServer
	users  *mcpgo.Downstream
	router *elicitation.Router
	runs   atomic.Int64 // calls that the upstream has begun
	// rename renames the prompts of the upstream, nil: their names stay.
	rename func(string) string
}

// userHeader names the user of a request, in the place of authentication.
const userHeader = "X-User"

type callerKey struct{}

// newBridgedGateway is a gateway before an upstream over HTTP.
func newBridgedGateway(t *testing.T) *bridgedGateway {
	g := &bridgedGateway{}
	g.serve(t, mcpgo.UpstreamOptions{Transport: serveUpstream(t, g.newUpstream())})
	return g
}

// serveUpstream serves an upstream over HTTP and returns the transports to it.
func serveUpstream(t *testing.T, up *server.MCPServer) func() (transport.Interface, error) {
	served := httptest.NewServer(server.NewStreamableHTTPServer(up, quiet))
	t.Cleanup(served.Close)
	keep := transport.WithHTTPBasicClient(testHTTPClient(t))
	return func() (transport.Interface, error) {
		return overHTTP(t, served.URL+"/mcp", keep)(), nil
	}
}

// serve starts the gateway.
func (g *bridgedGateway) serve(t *testing.T, opts mcpgo.UpstreamOptions) {
	t.Helper()
	router, err := elicitation.New(&elicitation.Options{
		MaxPending: -1, MaxPerPrincipal: -1, MaxPerSession: -1, MaxPerUpstream: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bridge.New(router, &bridge.Options{
		Keys: keys.EphemeralKeyring().Derive(bridge.KeyPurpose), MaxPerPrincipal: 1000})
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1", server.WithElicitation(),
		server.WithPromptCapabilities(true), server.WithResourceCapabilities(false, true))
	clients, err := mcpgo.NewDownstream(router, s, &mcpgo.Options{
		Bridge: b,
		Principal: func(ctx context.Context) protocol.Principal {
			name, _ := ctx.Value(callerKey{}).(string)
			return protocol.Principal{Subject: name}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	opts.Name = "up"
	up, err := clients.NewUpstream(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	if err := errors.Join(up.PublishTools(t.Context(), nil),
		up.PublishPrompts(t.Context(), g.rename), up.PublishResources(t.Context())); err != nil {
		t.Fatal(err)
	}
	handler := clients.Handler(server.NewStreamableHTTPServer(s, quiet))
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), callerKey{}, r.Header.Get(userHeader))
		handler.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(down.Close)
	g.url, g.router, g.server, g.users = down.URL+"/mcp", router, s, clients
	t.Cleanup(func() {
		if err := b.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// newUpstream returns a server with a tool that asks two questions, the second about the answer
// to the first, and one that fails.
func (g *bridgedGateway) newUpstream() *server.MCPServer {
	s := server.NewMCPServer("up", "1", server.WithElicitation())
	s.AddTool(mcp.NewTool("twice"), func(ctx context.Context,
		_ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		g.runs.Add(1)
		first := askReason(ctx, s, "first")
		return mcp.NewToolResultText(askReason(ctx, s, "second after "+first)), nil
	})
	s.AddTool(mcp.NewTool("fail"), func(context.Context,
		mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, fmt.Errorf("no such ship")
	})
	return s
}

// askReason asks for a reason and returns the answer, or the error.
func askReason(ctx context.Context, s *server.MCPServer, message string) string {
	var request mcp.ElicitationRequest
	request.Params.Message = message
	request.Params.RequestedSchema = json.RawMessage(
		`{"type":"object","properties":{"reason":{"type":"string"}},"required":["reason"]}`)
	answer, err := s.RequestElicitation(ctx, request)
	if err != nil {
		return err.Error()
	}
	content, _ := answer.Content.(map[string]any)
	return fmt.Sprint(answer.Action, " ", content["reason"])
}

// user connects a client of mcp-go, which answers each question with its message.
func (g *bridgedGateway) user(t *testing.T, revision, name string) *client.Client {
	t.Helper()
	named := transport.WithHTTPHeaders(map[string]string{userHeader: name})
	return connectUser(t, overHTTP(t, g.url, named)(), revision, name)
}

func connectUser(t *testing.T, over transport.Interface, revision, name string) *client.Client {
	t.Helper()
	modes := &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}
	c := client.NewClient(over, client.WithProtocolVersion(revision),
		client.WithClientCapabilities(mcp.ClientCapabilities{Elicitation: modes}),
		client.WithElicitationHandler(answering(func(_ context.Context,
			r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			return result("accept", map[string]any{"reason": name + " to " + r.Params.Message}), nil
		})))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	initialized, err := c.Initialize(t.Context(), mcp.InitializeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if initialized.ProtocolVersion != revision {
		t.Fatalf("the client speaks %s, want %s", initialized.ProtocolVersion, revision)
	}
	return c
}

// Clients of both eras use one upstream of an older revision at one URL.
func TestClientsOfBothErasAreAsked(t *testing.T) {
	g := newBridgedGateway(t)
	for i, revision := range []string{modern, legacy} {
		c := g.user(t, revision, "ann")
		if got, want := callNamed(within(t), c, "twice", "prod"),
			"accept ann to second after accept ann to first"; got != want {
			t.Errorf("%s: got %q, want %q", revision, got, want)
		}
		if n := g.runs.Load(); n != int64(i+1) {
			t.Errorf("%s: the upstream ran %d times", revision, n)
		}
		if got := callNamed(within(t), c, "fail", ""); !strings.Contains(got, "no such ship") {
			t.Errorf("%s: got %q", revision, got)
		}
	}
}

// Clients of both eras are asked on standard input and output, and within the process, where those
// of older revisions have another way, client.NewInProcessClientWithOptions.
func TestClientsWithoutHTTPAreAsked(t *testing.T) {
	g := newBridgedGateway(t)
	for _, user := range g.usersWithoutHTTP(t) {
		t.Run(user.name, func(t *testing.T) {
			c := user.connect(t)
			if got, want := callNamed(within(t), c, "twice", "prod"),
				"accept ann to second after accept ann to first"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A namedUser connects a client in one revision and over one transport.
type namedUser struct {
	name, revision string
	connect        func(t *testing.T) *client.Client
}

func (g *bridgedGateway) usersWithoutHTTP(t *testing.T) (users []namedUser) {
	t.Helper()
	add := func(name, revision string, open func(t *testing.T) transport.Interface) {
		users = append(users, namedUser{name + " " + revision, revision,
			func(t *testing.T) *client.Client {
				return connectUser(t, open(t), revision, "ann")
			}})
	}
	add("lines", modern, g.overLines)
	add("lines", legacy, g.overLines)
	add("in process", modern, func(*testing.T) transport.Interface {
		return transport.NewInProcessTransport(g.server)
	})
	return users
}

func (g *bridgedGateway) overLines(t *testing.T) transport.Interface {
	return overLines(t, g.server)()
}

// Upstreams of either era, and child processes, serve clients of both. A link is visited, too.
func TestUpstreamsOfBothErasAskClientsOfBoth(t *testing.T) {
	for name, opts := range map[string]mcpgo.UpstreamOptions{
		legacy:    {Transport: serveUpstream(t, newUpstream(setting{}))},
		modern:    {Transport: serveUpstream(t, newUpstream(setting{})), ProtocolVersion: modern},
		"process": {Transport: children(t, new(atomic.Int32)), MaxConnections: 2},
	} {
		for _, revision := range []string{legacy, modern} {
			t.Run(name+" before "+revision, func(t *testing.T) {
				g := &bridgedGateway{}
				g.serve(t, opts)
				c := g.user(t, revision, "ann")
				want := `accept {"reason":"ann to Deploy to prod?"}`
				for range 3 {
					if got := callNamed(within(t), c, "form", "prod"); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				}
				got := callNamed(within(t), c, "visit", "")
				if !strings.HasPrefix(got, "accept") {
					t.Errorf("got %q", got)
				}
			})
		}
	}
}

// A request with another user's state is refused, with its code, and the rightful one is served.
func TestStatesOfOthersAreRefused(t *testing.T) {
	g := newBridgedGateway(t)
	connect := func(user string) *rondo.Client {
		over, err := clienthttp.New(g.url, &clienthttp.Options{
			Header: http.Header{userHeader: {user}}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := rondo.New(over, &rondo.Options{Era: protocol.Modern,
			ElicitForm: func(context.Context, *rondo.FormQuestion) (*protocol.ElicitResult, error) {
				return rondo.Accept(map[string]string{"reason": "r"})
			}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ann, bob := connect("ann"), connect("bob")
	done, pending, err := ann.Begin(within(t), &protocol.CallToolParams{Name: "twice"})
	if err != nil || done != nil {
		t.Fatalf("got %v, %v", done, err)
	}
	answerAll := func(p *rondo.Pending) {
		for _, q := range p.Questions() {
			err := p.Answer(q.Key, &protocol.ElicitResult{Action: protocol.ActionAccept,
				Content: json.RawMessage(`{"reason":"r"}`)})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	data, err := json.Marshal(pending)
	if err != nil {
		t.Fatal(err)
	}
	var stolen rondo.Pending
	if err := json.Unmarshal(data, &stolen); err != nil {
		t.Fatal(err)
	}
	answerAll(&stolen)
	_, _, err = bob.Resume(within(t), &stolen)
	if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeInvalidParams {
		t.Errorf("bob got %v", err)
	}
	for pending != nil {
		answerAll(pending)
		if done, pending, err = ann.Resume(within(t), pending); err != nil {
			t.Fatal(err)
		}
	}
	if g.runs.Load() != 1 || done == nil {
		t.Errorf("ann got %v after %d runs", done, g.runs.Load())
	}
}

// Calls of many users at once: each is asked what its own call asks, and each call runs once.
func TestManyUsersOfTheBridge(t *testing.T) {
	g := newBridgedGateway(t)
	const users, each = 8, 10
	var calls sync.WaitGroup
	for u := range users {
		name := fmt.Sprint("user", u)
		c := g.user(t, modern, name)
		for range each {
			calls.Go(func() {
				want := fmt.Sprintf("accept %s to second after accept %s to first", name, name)
				if got := callNamed(within(t), c, "twice", "prod"); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
	calls.Wait()
	if n := g.runs.Load(); n != users*each {
		t.Errorf("the upstream ran %d times for %d calls", n, users*each)
	}
	if n := g.router.Pending(); n != 0 {
		t.Errorf("%d questions are left", n)
	}
}
