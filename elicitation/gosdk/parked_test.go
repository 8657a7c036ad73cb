package gosdk_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/bridge"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// A bridgedGateway serves clients of both eras before an upstream that asks while calls run.
type bridgedGateway struct {
	url    string
	server *mcp.Server
	users  *gosdk.Downstream
	router *elicitation.Router
	runs   atomic.Int64 // calls that the upstream has begun
	// bus is shared with other gateways, nil: there is one.
	bus elicitation.Bus
	// rename renames the prompts of the upstream, nil: their names stay.
	rename func(string) string
}

// userHeader names the user of a request, in the place of authentication.
const userHeader = "X-User"

// newBridgedGateway is a gateway before an upstream over HTTP.
func newBridgedGateway(t *testing.T) *bridgedGateway {
	g := &bridgedGateway{}
	served := httptest.NewServer(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return g.newUpstream() }, nil))
	t.Cleanup(served.Close)
	g.serve(t, gosdk.UpstreamOptions{Transport: func() mcp.Transport {
		return &mcp.StreamableClientTransport{Endpoint: served.URL}
	}})
	return g
}

// serve starts the gateway.
func (g *bridgedGateway) serve(t *testing.T, opts gosdk.UpstreamOptions) {
	t.Helper()
	key, err := keys.NewKey("k1", []byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keys.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	routing := &elicitation.Options{Keys: ring.Derive(elicitation.KeyPurpose),
		MaxPending: -1, MaxPerPrincipal: -1, MaxPerSession: -1, MaxPerUpstream: -1}
	parking := &bridge.Options{Keys: ring.Derive(bridge.KeyPurpose), MaxPerPrincipal: 1000}
	if g.bus != nil {
		parking.Bus = bridge.ShareBus(g.bus)
		routing.Bus = parking.Bus
	}
	router, err := elicitation.New(routing)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bridge.New(router, parking)
	if err != nil {
		t.Fatal(err)
	}
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, &gosdk.Options{
		Bridge: b,
		Principal: func(req mcp.Request) protocol.Principal {
			if req.GetExtra() == nil { // not over HTTP
				return protocol.LocalPrincipal()
			}
			return protocol.Principal{Subject: req.GetExtra().Header.Get(userHeader)}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	opts.Name, opts.Implementation = "up", impl
	up, err := clients.NewUpstream(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	if err := errors.Join(up.PublishTools(t.Context(), server, nil),
		up.PublishPrompts(t.Context(), server, g.rename),
		up.PublishResources(t.Context(), server)); err != nil {
		t.Fatal(err)
	}
	down := httptest.NewServer(clients.Handler(gosdk.NewHandler(
		func(*http.Request) *mcp.Server { return server }, nil)))
	t.Cleanup(down.Close)
	g.url, g.router, g.server, g.users = down.URL, router, server, clients
	t.Cleanup(func() {
		if err := b.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// newUpstream returns a server with a tool that asks two questions, the second about the answer
// to the first, and one that asks two at once.
func (g *bridgedGateway) newUpstream() *mcp.Server {
	s := mcp.NewServer(impl, nil)
	s.AddTool(tool("twice"), func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		g.runs.Add(1)
		first := askReason(ctx, req.Session, "first")
		return text(askReason(ctx, req.Session, "second after "+first)), nil
	})
	s.AddTool(tool("both"), func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		g.runs.Add(1)
		var answers [2]string
		var asked sync.WaitGroup
		for i := range answers {
			asked.Go(func() {
				answers[i] = askReason(ctx, req.Session, fmt.Sprint("question ", i))
			})
		}
		asked.Wait()
		return text(strings.Join(answers[:], ", ")), nil
	})
	return s
}

// askReason asks for a reason and returns the answer, or the error.
func askReason(ctx context.Context, session *mcp.ServerSession, message string) string {
	answer, err := session.Elicit(ctx, &mcp.ElicitParams{
		Message: message, RequestedSchema: json.RawMessage(reasonSchema)})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(answer.Action, " ", answer.Content["reason"])
}

// user connects a client of the official SDK, which answers each question with its message.
func (g *bridgedGateway) user(t *testing.T, revision, name string) *mcp.ClientSession {
	t.Helper()
	return g.connect(t, newUser(name), &mcp.StreamableClientTransport{Endpoint: g.url,
		HTTPClient: &http.Client{Transport: headerTransport{name}}}, revision)
}

// newUser returns a client that answers each question with its message.
func newUser(name string) *mcp.Client {
	modes := &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{},
		URL: &mcp.URLElicitationCapabilities{}}
	return mcp.NewClient(impl, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{
		Elicitation: modes,
	}, ElicitationHandler: func(_ context.Context,
		req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		if req.Params.Mode == "url" {
			return &mcp.ElicitResult{Action: "accept"}, nil
		}
		return &mcp.ElicitResult{Action: "accept",
			Content: map[string]any{"reason": name + " to " + req.Params.Message}}, nil
	}})
}

func (g *bridgedGateway) connect(t *testing.T, c *mcp.Client, over mcp.Transport,
	revision string) *mcp.ClientSession {
	t.Helper()
	session, err := c.Connect(t.Context(), over,
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		t.Fatalf("the client speaks %s, want %s", got, revision)
	}
	return session
}

// A headerTransport names the user of each request.
type headerTransport struct{ user string }

func (h headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(userHeader, h.user)
	return http.DefaultTransport.RoundTrip(r)
}

// Clients of both eras use one upstream of an older revision at one URL.
func TestClientsOfBothErasAreAsked(t *testing.T) {
	g := newBridgedGateway(t)
	for i, revision := range []string{modern, legacy} {
		session := g.user(t, revision, "ann")
		if got, want := call(t, session, "twice", "prod"),
			"accept ann to second after accept ann to first"; got != want {
			t.Errorf("%s: got %q, want %q", revision, got, want)
		}
		if got, want := call(t, session, "both", "prod"),
			"accept ann to question 0, accept ann to question 1"; got != want {
			t.Errorf("%s: got %q, want %q", revision, got, want)
		}
		if n := g.runs.Load(); n != int64(2*(i+1)) {
			t.Errorf("%s: the upstream ran %d times", revision, n)
		}
	}
}

// Upstreams of either era, and child processes, serve clients of both. A link is visited, too.
func TestUpstreamsOfBothErasAskClientsOfBoth(t *testing.T) {
	overHTTP := func(o *mcp.StreamableHTTPOptions) func() mcp.Transport {
		up := newUpstream(t)
		served := httptest.NewServer(mcp.NewStreamableHTTPHandler(
			func(*http.Request) *mcp.Server { return up }, o))
		t.Cleanup(served.Close)
		return func() mcp.Transport {
			return &mcp.StreamableClientTransport{Endpoint: served.URL}
		}
	}
	for name, opts := range map[string]gosdk.UpstreamOptions{
		legacy: {Transport: overHTTP(nil), ProtocolVersion: legacy},
		modern: {Transport: overHTTP(&mcp.StreamableHTTPOptions{Stateless: true}),
			ProtocolVersion: modern},
		"process": {Transport: children(t, new(atomic.Int32)), MaxConnections: 2},
	} {
		for _, revision := range []string{legacy, modern} {
			t.Run(name+" before "+revision, func(t *testing.T) {
				g := &bridgedGateway{}
				g.serve(t, opts)
				session := g.user(t, revision, "ann")
				want := `accept {"reason":"ann to Deploy to prod?"}`
				for range 3 {
					if got := call(t, session, "form", "prod"); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				}
				if name != "process" {
					if got := call(t, session, "visit", ""); !strings.HasPrefix(got, "accept") {
						t.Errorf("got %q", got)
					}
				}
			})
		}
	}
}

// Clients of both eras are asked on standard input and output, and within the process.
func TestClientsWithoutHTTPAreAsked(t *testing.T) {
	g := newBridgedGateway(t)
	for _, revision := range []string{modern, legacy} {
		for name, session := range g.usersWithoutHTTP(t, revision) {
			if got, want := call(t, session, "twice", "prod"),
				"accept ann to second after accept ann to first"; got != want {
				t.Errorf("%s %s: got %q, want %q", name, revision, got, want)
			}
		}
	}
}

// usersWithoutHTTP connects clients on lines and within the process.
func (g *bridgedGateway) usersWithoutHTTP(t *testing.T,
	revision string) map[string]*mcp.ClientSession {
	t.Helper()
	users := map[string]*mcp.ClientSession{}
	connect := func(name string, there, here mcp.Transport) {
		serving, err := g.server.Connect(t.Context(), there, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = serving.Wait() })
		users[name] = g.connect(t, newUser("ann"), here, revision)
	}
	requests, responses := newPipe(), newPipe()
	connect("lines", &mcp.IOTransport{Reader: requests.r, Writer: responses.w},
		&mcp.IOTransport{Reader: responses.r, Writer: requests.w})
	there, here := mcp.NewInMemoryTransports()
	connect("in process", there, here)
	return users
}

// A pipe is one direction of standard input and output.
type pipe struct {
	r *io.PipeReader
	w *io.PipeWriter
}

func newPipe() pipe {
	r, w := io.Pipe()
	return pipe{r, w}
}

// Gateways behind a balancer that knows nothing of calls: each request reaches another one.
func TestReplicasOfTheBridge(t *testing.T) {
	hub := elicitation.NewHub()
	upstreams := &bridgedGateway{}
	served := httptest.NewServer(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return upstreams.newUpstream() }, nil))
	t.Cleanup(served.Close)
	var gateways []*httputil.ReverseProxy
	for range 3 {
		g := &bridgedGateway{bus: hub.Bus()}
		g.serve(t, gosdk.UpstreamOptions{Transport: func() mcp.Transport {
			return &mcp.StreamableClientTransport{Endpoint: served.URL}
		}})
		to, err := url.Parse(g.url)
		if err != nil {
			t.Fatal(err)
		}
		gateways = append(gateways, httputil.NewSingleHostReverseProxy(to))
	}
	var last atomic.Int64
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gateways[last.Add(1)%3].ServeHTTP(w, r)
	}))
	t.Cleanup(balancer.Close)
	front := &bridgedGateway{url: balancer.URL}
	session := front.user(t, modern, "ann")
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if got, want := call(t, session, "twice", rand.Text()),
				"accept ann to second after accept ann to first"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	calls.Wait()
	if n := upstreams.runs.Load(); n != 20 {
		t.Errorf("the upstream ran %d times", n)
	}
}

// The client of this module is asked, too, and each question comes once.
func TestRondosClientIsAsked(t *testing.T) {
	g := newBridgedGateway(t)
	transport, err := clienthttp.New(g.url, &clienthttp.Options{
		Header: http.Header{userHeader: {"eve"}}})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked []string
	c, err := client.New(transport, &client.Options{
		ElicitForm: func(_ context.Context, q *client.FormQuestion) (
			*protocol.ElicitResult, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, q.Message)
			return &protocol.ElicitResult{Action: protocol.ActionAccept,
				Content: json.RawMessage(`{"reason":"r"}`)}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallTool(t.Context(), "twice", map[string]any{"env": "prod"})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Negotiated(); got != modern {
		t.Fatalf("the client speaks %s", got)
	}
	if got := result.Content[0].(*protocol.TextContent).Text; got != "accept r" {
		t.Errorf("got %q", got)
	}
	if len(asked) != 2 || g.runs.Load() != 1 {
		t.Errorf("asked %q in %d runs", asked, g.runs.Load())
	}
}

// Calls of many users at once: each is asked what its own call asks, and each call runs once.
func TestManyUsersOfTheBridge(t *testing.T) {
	g := newBridgedGateway(t)
	const users, each = 8, 10
	var calls sync.WaitGroup
	for u := range users {
		name := fmt.Sprint("user", u)
		session := g.user(t, modern, name)
		for range each {
			calls.Go(func() {
				want := fmt.Sprintf("accept %s to second after accept %s to first", name, name)
				if got := call(t, session, "twice", rand.Text()); got != want {
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
