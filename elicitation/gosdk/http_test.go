package gosdk_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
)

// believe is a verifier of tokens that are the names of their users.
func believe(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	if token == "" {
		return nil, errors.Join(auth.ErrInvalidToken)
	}
	return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
}

// TestDeleteByAnother: who knows the id of a session and is another user ends nothing.
func TestDeleteByAnother(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	up := gatewaytest.NewUpstream(t)
	server.AddTool(tool(gatewaytest.ToolAsk),
		passRaw(t, router, clients, up, gatewaytest.SharedHTTP))
	handler := clients.Handler(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server }, nil))
	served := httptest.NewServer(auth.RequireBearerToken(believe, nil)(handler))
	t.Cleanup(served.Close)
	as := func(user string) http.Header { return http.Header{"Authorization": {"Bearer " + user}} }

	alice := gatewaytest.Connect(t, served.URL, `{"elicitation":{}}`, "", as("alice"))
	stream := alice.StartCall(t, gatewaytest.ToolAsk,
		`{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}`)
	defer stream.Close()
	stream.WaitForQuestion(t)
	if got := alice.As(as("mallory")).Delete(t); got != http.StatusForbidden {
		t.Errorf("mallory gets %d", got)
	}
	if n := router.Pending(); n != 1 {
		t.Errorf("%d questions are pending after mallory's DELETE, want 1", n)
	}
	if got := alice.Delete(t); got >= http.StatusMultipleChoices {
		t.Errorf("alice gets %d", got)
	}
	if n := router.Pending(); n != 0 {
		t.Errorf("%d questions are pending after alice's DELETE", n)
	}
}

// TestSessionsOfOthers: a user of another issuer with the same id is another user.
func TestSessionsOfOthers(t *testing.T) {
	verify := func(_ context.Context, issuer string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "ada", Expiration: time.Now().Add(time.Hour),
			Extra: map[string]any{"iss": issuer}}, nil
	}
	of := func(issuer string) http.Header {
		return http.Header{"Authorization": {"Bearer " + issuer}}
	}
	build := func(t *testing.T, router *elicitation.Router, up *gatewaytest.Upstream) string {
		served := httptest.NewServer(auth.RequireBearerToken(verify,
			nil)(buildUpstream(t, router, up, false)))
		t.Cleanup(served.Close)
		return served.URL
	}
	gatewaytest.AcceptOwners(t, build, of("https://a.example"), of("https://b.example"))
}

// TestModernClientBeforeAnOlderUpstream: the revision in the context of a handler does not
// reach the upstream.
func TestModernClientBeforeAnOlderUpstream(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	up := mcp.NewServer(impl, nil)
	up.AddTool(tool("form"), func(context.Context,
		*mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("done"), nil
	})
	upURL := overHTTPAt(t, up, nil)
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(tool("form"), func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call, err := clients.Begin(ctx, req, "up")
		if err != nil {
			return nil, err
		}
		defer call.End()
		on := gosdk.UpstreamContext(ctx)
		session, err := gosdk.NewClient(router, call, "up", impl, nil).Connect(on,
			&mcp.StreamableClientTransport{Endpoint: upURL},
			&mcp.ClientSessionOptions{ProtocolVersion: legacy})
		if err != nil {
			return nil, err
		}
		defer session.Close()
		return session.CallTool(gosdk.WithCall(on, call), &mcp.CallToolParams{Name: "form"})
	})
	url := overHTTPAt(t, server, &mcp.StreamableHTTPOptions{Stateless: true})
	session, err := mcp.NewClient(impl, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: url},
		&mcp.ClientSessionOptions{ProtocolVersion: modern})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	if got := call(t, session, "form", ""); got != "done" {
		t.Errorf("got %s", got)
	}
}
