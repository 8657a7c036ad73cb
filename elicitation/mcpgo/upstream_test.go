package mcpgo_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
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
)

// asUpstream makes this program an upstream on standard input and output.
const asUpstream = "RONDO_TEST_UPSTREAM"

func TestMain(m *testing.M) {
	if gatewaytest.ServeGateway(newFleetGateway) {
		return
	}
	if os.Getenv(asUpstream) != "" {
		s := newUpstream(setting{})
		s.AddTool(mcp.NewTool("die"), func(context.Context,
			mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			os.Exit(0)
			return nil, nil
		})
		if err := server.ServeStdio(s); err != nil {
			os.Exit(1)
		}
		return
	}
	testkit.Main(m)
}

// newUpstreamGateway is a gateway before one upstream with the tools of newUpstream.
func newUpstreamGateway(t *testing.T, opts mcpgo.UpstreamOptions) *gateway {
	t.Helper()
	router, err := elicitation.New(&elicitation.Options{
		Limits: elicitation.Limits{Pending: -1, PerPrincipal: -1, PerSession: -1, PerUpstream: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1", server.WithElicitation(), server.WithLogging())
	clients, err := mcpgo.NewDownstream(router, s, &mcpgo.Options{
		Principal: func(ctx context.Context) protocol.Principal {
			from, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo)
			if !ok {
				return protocol.Principal{}
			}
			return protocol.Principal{Subject: from.GetClientInfo().Name}
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
	for _, name := range []string{"form", "die", "report"} {
		s.AddTool(mcp.NewTool(name), func(ctx context.Context,
			r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return up.CallTool(ctx, r, name)
		})
	}
	down := httptest.NewServer(server.NewStreamableHTTPServer(s, quiet))
	t.Cleanup(down.Close)
	keep := transport.WithHTTPBasicClient(testHTTPClient(t))
	return &gateway{router: router, open: overHTTP(t, down.URL+"/mcp", keep)}
}

// named connects a client that is called name.
func (g *gateway) named(t *testing.T, name string, f answering,
	watch func(mcp.JSONRPCNotification)) *client.Client {
	t.Helper()
	c := client.NewClient(g.open(), client.WithProtocolVersion(legacy),
		client.WithElicitationHandler(f))
	if watch != nil {
		c.OnNotification(watch)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	var hello mcp.InitializeRequest
	hello.Params.ClientInfo = mcp.Implementation{Name: name, Version: "1"}
	if _, err := c.Initialize(t.Context(), hello); err != nil {
		t.Fatal(err)
	}
	return c
}

func callNamed(ctx context.Context, c *client.Client, tool, env string) string {
	var r mcp.CallToolRequest
	r.Params.Name, r.Params.Arguments = tool, map[string]any{"env": env}
	result, err := c.CallTool(ctx, r)
	if err != nil {
		return "error: " + err.Error()
	}
	return result.Content[0].(mcp.TextContent).Text
}

// children returns transports over child processes, and counts them.
func children(t *testing.T, started *atomic.Int32) func() (transport.Interface, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return func() (transport.Interface, error) {
		started.Add(1)
		return transport.NewStdio(program, []string{asUpstream + "=yes"}), nil
	}
}

// TestChildProcessesServeManyUsers: a bounded number of children, each of which serves one
// call at a time.
func TestChildProcessesServeManyUsers(t *testing.T) {
	var started atomic.Int32
	g := newUpstreamGateway(t, mcpgo.UpstreamOptions{Transport: children(t, &started),
		MaxConnections: 4, IdleTimeout: time.Hour})
	each := 50
	if testkit.Slow {
		each = 500
	}
	var calls sync.WaitGroup
	for _, name := range []string{"alice", "bob"} {
		c := g.named(t, name, func(_ context.Context, r mcp.ElicitationRequest) (
			*mcp.ElicitationResult, error) {
			return result("accept",
				map[string]any{"reason": name + " answers " + r.Params.Message}), nil
		}, nil)
		for n := range each {
			calls.Go(func() {
				env := fmt.Sprintf("%s-%d", name, n)
				want := fmt.Sprintf(`accept {"reason":"%s answers Deploy to %s?"}`, name, env)
				if got := callNamed(t.Context(), c, "form", env); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	}
	calls.Wait()
	if n := started.Load(); n > 5 { // the first was made to see of what type it is
		t.Errorf("%d processes were started, want 4 at most", n-1)
	}
}

// TestCancelledCallsOnChildren: a child whose call was given up is replaced, and the calls
// of others find one.
func TestCancelledCallsOnChildren(t *testing.T) {
	var started atomic.Int32
	g := newUpstreamGateway(t, mcpgo.UpstreamOptions{Transport: children(t, &started),
		MaxConnections: 2})
	asked, over := make(chan struct{}), make(chan struct{})
	alice := g.named(t, "alice", func(context.Context, mcp.ElicitationRequest) (
		*mcp.ElicitationResult, error) {
		asked <- struct{}{}
		<-over
		return result("decline", nil), nil
	}, nil)
	t.Cleanup(func() { close(over) })
	bob := g.named(t, "bob", accept("bob"), nil)
	for range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			callNamed(ctx, alice, "form", "alice")
		}()
		<-asked
		cancel()
		<-ended
		if got := callNamed(within(t), bob, "form", "bob"); got != `accept {"reason":"bob"}` {
			t.Errorf("bob: got %s", got)
		}
	}
}

// TestAFloodLeavesTheQueueToOthers: a user who makes more calls than may wait has some refused,
// and another has none.
func TestAFloodLeavesTheQueueToOthers(t *testing.T) {
	var started atomic.Int32
	g := newUpstreamGateway(t, mcpgo.UpstreamOptions{Transport: children(t, &started),
		MaxConnections: 2, MaxWaiting: 10})
	asked, over := make(chan struct{}, 64), make(chan struct{})
	alice := g.named(t, "alice", func(context.Context, mcp.ElicitationRequest) (
		*mcp.ElicitationResult, error) {
		asked <- struct{}{}
		<-over
		return result("decline", nil), nil
	}, nil)
	bob := g.named(t, "bob", accept("bob"), nil)
	results := make(chan string, 64)
	for range 40 {
		go func() { results <- callNamed(t.Context(), alice, "form", "alice") }()
	}
	const served, waiting = 1, 5
	for range 40 - served - waiting {
		if got := <-results; !strings.Contains(got, "Too many calls wait for the upstream") {
			t.Errorf("alice: got %s", got)
		}
	}
	<-asked
	for range 4 {
		if got := callNamed(within(t), bob, "form", "bob"); got != `accept {"reason":"bob"}` {
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

// TestAChildDies: its call fails, and the next one gets another child; so does one after a
// child that died without a call.
func TestAChildDies(t *testing.T) {
	var started atomic.Int32
	g := newUpstreamGateway(t, mcpgo.UpstreamOptions{Transport: children(t, &started),
		MaxConnections: 1})
	c := g.named(t, "alice", accept("r"), nil)
	for range 3 {
		if got := callNamed(within(t), c, "die", ""); !strings.HasPrefix(got, "error: ") {
			t.Errorf("a call of a child that dies: got %s", got)
		}
		if got := callNamed(within(t), c, "form", "prod"); got != `accept {"reason":"r"}` {
			t.Errorf("after a child died: got %s", got)
		}
	}
}

// TestUpstreamOverHTTP: progress reaches the client whose call it is about, and a session
// that the upstream has lost is replaced.
func TestUpstreamOverHTTP(t *testing.T) {
	up := newUpstream(setting{})
	heard := map[string]chan struct{}{"alice": make(chan struct{}), "bob": make(chan struct{})}
	up.AddTool(mcp.NewTool("report"), func(ctx context.Context,
		r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		name := r.GetString("env", "")
		// Again until it is heard: where requests share a session, one that ends drops what
		// mcp-go's server has queued for the other.
		for i := 1; ; i++ {
			if err := up.SendNotificationToClient(ctx, protocol.NotifyProgress, map[string]any{
				"progressToken": r.Params.Meta.ProgressToken, "progress": i, "message": name,
			}); err != nil {
				return nil, err
			}
			select {
			case <-heard[name]:
				return mcp.NewToolResultText("done"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	served := httptest.NewServer(server.NewStreamableHTTPServer(up, quiet))
	t.Cleanup(served.Close)
	keep := transport.WithHTTPBasicClient(testHTTPClient(t))
	g := newUpstreamGateway(t, mcpgo.UpstreamOptions{
		Transport: func() (transport.Interface, error) {
			return overHTTP(t, served.URL+"/mcp", keep)(), nil
		},
	})
	var users sync.WaitGroup
	for name, signal := range heard {
		users.Go(func() {
			var mu sync.Mutex
			var got []string
			c := g.named(t, name, accept("r"), func(n mcp.JSONRPCNotification) {
				if n.Method == protocol.NotifyProgress {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, fmt.Sprint(n.Params.AdditionalFields["progressToken"], " ",
						n.Params.AdditionalFields["message"]))
					if len(got) == 1 {
						close(signal)
					}
				}
			})
			var r mcp.CallToolRequest
			r.Params.Name, r.Params.Arguments = "report", map[string]any{"env": name}
			r.Params.Meta = &mcp.Meta{ProgressToken: "of " + name}
			if _, err := c.CallTool(within(t), r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			want := "of " + name + " " + name
			mu.Lock()
			if len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return s != want }) {
				t.Errorf("%s: got %q, want %q and nothing else", name, got, want)
			}
			mu.Unlock()
			if got := callNamed(within(t), c, "form", name); got != `accept {"reason":"r"}` {
				t.Errorf("%s: got %s", name, got)
			}
		})
	}
	users.Wait()
}

// newRawGateway is a gateway before an upstream over HTTP that writes its messages itself.
func newRawGateway(t *testing.T, raw *gatewaytest.Upstream) (up *mcpgo.Upstream, url string) {
	t.Helper()
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	up, err = clients.NewUpstream(mcpgo.UpstreamOptions{Name: "up",
		Transport: func() (transport.Interface, error) { return overHTTP(t, raw.URL)(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	for _, name := range []string{gatewaytest.ToolAsk, gatewaytest.ToolFault} {
		s.AddTool(mcp.NewTool(name), func(ctx context.Context,
			r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return up.CallTool(ctx, r, name)
		})
	}
	down := httptest.NewServer(clients.Handler(server.NewStreamableHTTPServer(s, quiet)))
	t.Cleanup(down.Close)
	return up, down.URL + "/mcp"
}

// TestWhatTheUpstreamAnswers: the upstream's own error reaches the client as it is, and an upstream
// that does not answer with nothing of the cause, which has its address.
func TestWhatTheUpstreamAnswers(t *testing.T) {
	for _, test := range []struct{ name, status, body, want string }{
		{"its own error", "200",
			`{"code":-32050,"message":"not\n<here>","data":{"why":["x"]}}`,
			`{"code":-32050,"message":"not\n<here>","data":{"why":["x"]}}`},
		{"an error without data", "200", `{"code":-32601,"message":"no tool"}`,
			`{"code":-32601,"message":"no tool"}`},
		{"a refused request", "500", `"oops"`,
			`{"code":-32603,"message":"The upstream server cannot be reached"}`},
		{"no answer", "0", "",
			`{"code":-32603,"message":"The upstream server cannot be reached"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			raw := gatewaytest.NewUpstream(t)
			raw.Intercept = func(w http.ResponseWriter, _ *http.Request,
				m *gatewaytest.Message) bool {
				if m.Method != "tools/call" {
					return false
				}
				switch test.status {
				case "0":
					panic(http.ErrAbortHandler)
				case "500":
					http.Error(w, test.body, http.StatusInternalServerError)
				default:
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, test.body)
				}
				return true
			}
			_, url := newRawGateway(t, raw)
			c := gatewaytest.Connect(t, url, `{"elicitation":{}}`, "", nil)
			if got := c.Call(t, gatewaytest.ToolAsk, "{}"); !sameJSON(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestLostSessionsAreForgotten: an upstream that forgets its sessions again and again leaves no
// connections behind.
func TestLostSessionsAreForgotten(t *testing.T) {
	raw := gatewaytest.NewUpstream(t)
	var calls atomic.Int32
	raw.Intercept = func(w http.ResponseWriter, _ *http.Request, m *gatewaytest.Message) bool {
		if m.Method != "tools/call" || calls.Add(1)%2 == 1 {
			return false
		}
		http.Error(w, "no session", http.StatusNotFound)
		return true
	}
	up, url := newRawGateway(t, raw)
	const answer = `{"action":"accept","content":{"why":"because"}}`
	c := gatewaytest.Connect(t, url, `{"elicitation":{}}`, `"result":`+answer, nil)
	const question = `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}`
	for range 10 {
		if got := c.Call(t, gatewaytest.ToolAsk, question); got != answer {
			t.Fatalf("got %s", got)
		}
	}
	for limit := time.Now().Add(10 * time.Second); mcpgo.Connections(up) > 1; runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatalf("%d connections are open, want 1", mcpgo.Connections(up))
		}
	}
}
