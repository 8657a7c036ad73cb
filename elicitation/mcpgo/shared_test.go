package mcpgo_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
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
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// sharedCalls is how many calls each of two users makes at once on one connection.
func sharedCalls() int {
	if testkit.Slow {
		return 500
	}
	return 50
}

// newSharedGateway is a gateway whose calls of the tool form all go on one connection.
func newSharedGateway(t *testing.T, opts *elicitation.Options) *gateway {
	t.Helper()
	router, err := elicitation.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	keep := transport.WithHTTPBasicClient(testHTTPClient(t))
	up := httptest.NewServer(server.NewStreamableHTTPServer(newUpstream(setting{}), quiet))
	t.Cleanup(up.Close)
	shared := mcpgo.NewSharedClient(router, "shared", overHTTP(t, up.URL+"/mcp", keep)(),
		client.WithProtocolVersion(legacy))
	if err := shared.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shared.Close() })
	if _, err := shared.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.AddTool(mcp.NewTool("form"), func(ctx context.Context, r mcp.CallToolRequest) (
		*mcp.CallToolResult, error) {
		call, err := clients.Begin(ctx, "shared")
		if err != nil {
			return nil, err
		}
		defer call.End()
		var on mcp.CallToolRequest
		on.Params.Name, on.Params.Arguments = "form", r.GetArguments()
		return shared.CallTool(mcpgo.WithCall(mcpgo.UpstreamContext(ctx), call), on)
	})
	down := httptest.NewServer(server.NewStreamableHTTPServer(s, quiet))
	t.Cleanup(down.Close)
	return &gateway{router: router, open: overHTTP(t, down.URL+"/mcp", keep)}
}

// testHTTPClient keeps connections, since a new one for each of a thousand requests at once
// takes longer than the rest of the test.
func testHTTPClient(t *testing.T) *http.Client {
	over := http.DefaultTransport.(*http.Transport).Clone()
	over.MaxIdleConnsPerHost = 100
	t.Cleanup(over.CloseIdleConnections)
	return mcpgo.HTTPClient(&http.Client{Transport: over})
}

// TestOneConnectionServesManyUsers: mcp-go derives the context of a question from that of
// the call on whose stream it comes. All questions are pending before the first is answered.
func TestOneConnectionServesManyUsers(t *testing.T) {
	g := newSharedGateway(t, &elicitation.Options{
		Limits: elicitation.Limits{Pending: -1, PerPrincipal: -1, PerSession: -1, PerUpstream: -1},
	})
	total := int64(2 * sharedCalls())
	var asked atomic.Int64
	all := make(chan struct{}) // closed when everybody has been asked
	var calls sync.WaitGroup
	for _, name := range []string{"alice", "bob"} {
		user := g.mcpGo(t, legacy, nil, func(ctx context.Context, r mcp.ElicitationRequest) (
			*mcp.ElicitationResult, error) {
			if asked.Add(1) == total {
				close(all)
			}
			select {
			case <-all:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return result("accept",
				map[string]any{"reason": name + " answers " + r.Params.Message}), nil
		}, nil)
		for n := range sharedCalls() {
			calls.Go(func() {
				env := fmt.Sprintf("%s-%d", name, n)
				want := fmt.Sprintf(`accept {"reason":"%s answers Deploy to %s?"}`, name, env)
				if got, err := user(t.Context(), "form", env); err != nil || got != want {
					t.Errorf("got %s, %v, want %s", got, err, want)
				}
			})
		}
	}
	calls.Wait()
	if asked.Load() != total || g.router.Pending() != 0 {
		t.Errorf("%d questions were asked, want %d; %d are pending", asked.Load(), total,
			g.router.Pending())
	}
}

// TestCancelledCallsHarmNobodyElse: on a connection that users share one of them cancels
// every call. The questions of the other arrive at once.
func TestCancelledCallsHarmNobodyElse(t *testing.T) {
	g := newSharedGateway(t, nil)
	asked, over := make(chan struct{}), make(chan struct{})
	alice := g.mcpGo(t, legacy, nil, func(context.Context, mcp.ElicitationRequest) (
		*mcp.ElicitationResult, error) {
		asked <- struct{}{}
		<-over // her stream is gone with the call: nothing tells her client
		return result("decline", nil), nil
	}, nil)
	t.Cleanup(func() { close(over) })
	bob := g.mcpGo(t, legacy, nil, accept("bob"), nil)
	for range 8 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = alice(ctx, "form", "alice")
		}()
		<-asked
		cancel()
		<-ended
		if got, err := bob(within(t), "form", "bob"); err != nil ||
			got != `accept {"reason":"bob"}` {
			t.Errorf("bob: got %s, %v", got, err)
		}
	}
}

// TestWhatAClientDeclaredIsRecorded when it connects, before its first call. What the client before
// it on standard input and output has declared does not count, although mcp-go has one session for
// both.
func TestWhatAClientDeclaredIsRecorded(t *testing.T) {
	for _, lines := range []bool{false, true} {
		t.Run(fmt.Sprintf("lines=%v", lines), func(t *testing.T) {
			both := &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}
			newGateway(t, setting{revision: legacy, downLines: lines}).mcpGo(t, legacy, both,
				accept("r"), nil)
			g := newGateway(t, setting{revision: legacy, downLines: lines})
			form := &mcp.ElicitationCapability{Form: &struct{}{}}
			g.mcpGo(t, legacy, form, accept("r"), nil)
			var all []*elicitation.Session
			for deadline := time.Now().Add(10 * time.Second); len(all) == 0; {
				if all = g.router.Sessions(); time.Now().After(deadline) {
					t.Fatal("no session is known") // over HTTP mcp-go answers before it registers
				}
				runtime.Gosched()
			}
			c := all[0].UpstreamCapabilities().Elicitation
			if len(all) != 1 || c == nil || !c.Form || c.URL {
				t.Errorf("%d sessions are known, the first with %+v, want form mode", len(all), c)
			}
		})
	}
}
