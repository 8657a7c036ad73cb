package gosdk_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
)

// TestWithoutSessionStream: a client that opens no GET stream is asked on that
// of its call.
func TestWithoutSessionStream(t *testing.T) {
	settings(t, func(t *testing.T, set setting) {
		g := newGateway(t, set)
		session, err := mcp.NewClient(impl,
			&mcp.ClientOptions{ElicitationHandler: accept("yes")}).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: g.url, DisableStandaloneSSE: true},
			&mcp.ClientSessionOptions{ProtocolVersion: legacy})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() })
		if got := call(t, session, "form", "prod"); got != `accept {"reason":"yes"}` {
			t.Errorf("got %s", got)
		}
	})
}

// TestStreamDies: when the client's stream is cut while a person thinks, the
// question ends, and nothing reports that it was delivered.
func TestStreamDies(t *testing.T) {
	g := newGateway(t, setting{upstream: legacy})
	asked, over := make(chan struct{}), make(chan struct{})
	session := g.person(t, &mcp.ClientOptions{ElicitationHandler: func(context.Context,
		*mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(asked)
		<-over
		return &mcp.ElicitResult{Action: "decline"}, nil
	}})
	t.Cleanup(func() { close(over) })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = session.CallTool(ctx,
			&mcp.CallToolParams{Name: "form", Arguments: map[string]any{"env": "prod"}})
	}()
	<-asked
	cancel()
	select {
	case <-g.cancelled:
	case <-time.After(patience):
		t.Fatal("the question is still open")
	}
	if n := g.router.Pending(); n != 0 {
		t.Errorf("%d questions are still open", n)
	}
	if g.logs.FilterMessage("elicitation.delivered").Len() != 0 ||
		g.logs.FilterMessage("elicitation.cancelled").Len() != 1 {
		t.Errorf("logged: %v", g.logs.All())
	}
}

// TestAbandonedCall: what an upstream asks about a call whose client has gone is
// not put to the next client on a connection that calls share.
func TestAbandonedCall(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	alices, bobs, asked := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	up, server := mcp.NewServer(impl, nil), mcp.NewServer(impl, nil)
	up.AddTool(tool("slow"), func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ Env string }
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
			return nil, err
		}
		if args.Env == "bob" {
			close(bobs)
			<-asked
			return text("done"), nil
		}
		close(alices)
		<-bobs // even though its own request was cancelled
		// The stream of that request has gone with it: the question has to come on the
		// stream of the session, which a context of another origin selects.
		_, err := req.Session.Elicit(t.Context(), &mcp.ElicitParams{Message: "For alice",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)})
		asked <- err
		return nil, err
	})
	upHTTP := httptest.NewServer(
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return up }, nil))
	t.Cleanup(upHTTP.Close)
	shared, err := gosdk.NewSharedClient(router, "shared", impl, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: upHTTP.URL},
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shared.Close() })
	clients, err := gosdk.NewDownstream(router, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(tool("slow"),
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			release, err := router.AcquireUpstream(ctx, "shared")
			if err != nil {
				return nil, err
			}
			defer release()
			call, err := clients.Begin(ctx, req, "shared")
			if err != nil {
				return nil, err
			}
			defer call.End()
			return shared.CallTool(ctx, &mcp.CallToolParams{Name: "slow",
				Arguments: req.Params.Arguments})
		})
	down := httptest.NewServer(
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(down.Close)
	g := &gateway{router: router, url: down.URL}
	connect := func(name string) *mcp.ClientSession {
		return g.person(t, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context,
			req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			t.Errorf("%s is asked %q", name, req.Params.Message)
			return &mcp.ElicitResult{Action: "decline"}, nil
		}})
	}
	alice, bob := connect("alice"), connect("bob")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = alice.CallTool(ctx, &mcp.CallToolParams{Name: "slow",
			Arguments: map[string]any{"env": "alice"}})
	}()
	<-alices
	cancel()
	if got := call(t, bob, "slow", "bob"); got != "done" {
		t.Errorf("bob gets %s", got)
	}
}
