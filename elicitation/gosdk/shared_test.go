package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// sharedCalls is how many calls each of two users makes at once on one connection.
func sharedCalls() int {
	if testkit.Slow {
		return 500
	}
	return 50
}

// connectShared returns the connection of a gateway that all calls share, over HTTP to up.
func connectShared(t *testing.T, router *elicitation.Router, up *mcp.Server) *mcp.ClientSession {
	t.Helper()
	transport := &mcp.StreamableClientTransport{
		Endpoint: overHTTPAt(t, up, nil), HTTPClient: gosdk.HTTPClient(testHTTPClient(t)),
	}
	shared, err := gosdk.NewSharedClient(router, "shared", impl, nil).Connect(t.Context(),
		transport, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shared.Close() })
	return shared
}

// testHTTPClient keeps connections, since a new one for each of a thousand requests at once
// takes longer than the rest of the test.
func testHTTPClient(t *testing.T) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// newSharedGateway is a gateway whose calls of the tool form all go on one connection.
func newSharedGateway(t *testing.T, router *elicitation.Router, up *mcp.Server) *gateway {
	t.Helper()
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	shared := connectShared(t, router, up)
	server.AddTool(tool("form"), func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call, err := clients.Begin(ctx, req, "shared")
		if err != nil {
			return nil, err
		}
		defer call.End()
		return shared.CallTool(gosdk.WithCall(gosdk.UpstreamContext(ctx), call),
			&mcp.CallToolParams{Name: "form", Arguments: req.Params.Arguments})
	})
	return &gateway{router: router, url: overHTTPAt(t, server, nil)}
}

// TestOneConnectionServesManyUsers: the stream on which a question comes says which call
// asks it. All questions are pending before the first is answered.
func TestOneConnectionServesManyUsers(t *testing.T) {
	router, err := elicitation.New(&elicitation.Options{
		Limits: elicitation.Limits{Pending: -1, PerPrincipal: -1, PerSession: -1, PerUpstream: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := newSharedGateway(t, router, newUpstream(t))
	total := int64(2 * sharedCalls())
	var asked atomic.Int64
	all := make(chan struct{}) // closed when everybody has been asked
	var calls sync.WaitGroup
	for _, name := range []string{"alice", "bob"} {
		session := g.person(t, &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context,
			req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if asked.Add(1) == total {
				close(all)
			}
			select {
			case <-all:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return &mcp.ElicitResult{Action: "accept",
				Content: map[string]any{"reason": name + " answers " + req.Params.Message}}, nil
		}})
		for n := range sharedCalls() {
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
	if asked.Load() != total || router.Pending() != 0 {
		t.Errorf("%d questions were asked, want %d; %d are pending", asked.Load(), total,
			router.Pending())
	}
}

// TestCancelledCallsHarmNobodyElse: on a connection that users share one of them cancels
// every call. The questions of the other arrive at once.
func TestCancelledCallsHarmNobodyElse(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	g := newSharedGateway(t, router, newUpstream(t))
	asked, over := make(chan struct{}), make(chan struct{})
	alice := g.person(t, &mcp.ClientOptions{ElicitationHandler: func(context.Context,
		*mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked <- struct{}{}
		<-over // her stream is gone with the call: nothing tells her client
		return &mcp.ElicitResult{Action: "decline"}, nil
	}})
	t.Cleanup(func() { close(over) })
	bob := g.person(t, &mcp.ClientOptions{ElicitationHandler: accept("bob")})
	for range 8 {
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

// TestForgedMarks: an upstream cannot give a question to another call by what it sends.
func TestForgedMarks(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	up := mcp.NewServer(impl, nil)
	up.AddTool(tool("form"), func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return tell(req.Session.Elicit(ctx, &mcp.ElicitParams{
			Meta: mcp.Meta{"rondo/call": "made up", "kept": "yes"}, Message: "Mine?",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
		})), nil
	})
	g := newSharedGateway(t, router, up)
	meta := make(chan mcp.Meta, 1)
	session := g.person(t, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context,
		req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		meta <- req.Params.Meta
		return &mcp.ElicitResult{Action: "decline"}, nil
	}})
	if got := call(t, session, "form", "prod"); got != "decline null" {
		t.Errorf("got %s", got)
	}
	select {
	case got := <-meta:
		if _, marked := got["rondo/call"]; marked || got["kept"] != "yes" {
			t.Errorf("the client reads _meta %v, want only what the upstream said", got)
		}
	case <-time.After(patience):
		t.Error("nobody was asked")
	}
}
