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

// TestProgress: a client that says it is still at it is waited for, and the
// upstream hears of it with the token that it gave.
func TestProgress(t *testing.T) {
	const patience = 800 * time.Millisecond
	router, err := elicitation.New(&elicitation.Options{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan any, 20)
	up := mcp.NewServer(impl, &mcp.ServerOptions{ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationServerRequest) {
		heard <- req.Params.ProgressToken
	}})
	up.AddTool(tool("form"), func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return tell(req.Session.Elicit(ctx, &mcp.ElicitParams{
			Meta: mcp.Meta{"progressToken": "up-7"}, Message: "m",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string"}}}`),
		})), nil
	})
	upHTTP := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return up }, nil))
	t.Cleanup(upHTTP.Close)

	others := make(chan any, 1) // progress that is the host's
	server := mcp.NewServer(impl, &mcp.ServerOptions{ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationServerRequest) {
		others <- req.Params.ProgressToken
	}})
	clients := gosdk.NewDownstream(router, server, nil)
	server.AddTool(tool("form"), func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call, err := clients.Begin(ctx, req, "up")
		if err != nil {
			return nil, err
		}
		defer call.End()
		session, err := mcp.NewClient(impl, gosdk.ClientOptions(router, call, "up", nil)).Connect(ctx,
			&mcp.StreamableClientTransport{Endpoint: upHTTP.URL}, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
		if err != nil {
			return nil, err
		}
		defer session.Close()
		return session.CallTool(ctx, &mcp.CallToolParams{Name: "form"})
	})
	down := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(down.Close)

	g := &gateway{router: router, url: down.URL}
	person := g.person(t, &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		for i := range 6 { // half as long again as the router waits
			time.Sleep(patience / 4)
			if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i)}); err != nil {
				t.Error(err)
			}
		}
		if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "other", Progress: 1}); err != nil {
			t.Error(err)
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"reason": "slow"}}, nil
	}})
	if got := call(t, person, "form", "prod"); got != `accept {"reason":"slow"}` {
		t.Errorf("got %s", got)
	}
	if token := <-others; token != "other" {
		t.Errorf("the host hears of %v", token)
	}
	if token := <-heard; token != "up-7" {
		t.Errorf("the upstream hears of %v", token)
	}
}
