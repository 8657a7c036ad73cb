package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// whoCalls is an upstream whose tool returns the header that names the caller.
func whoCalls() http.Handler {
	srv := mcp.NewServer(&mcp.Implementation{Name: "who", Version: "1"}, nil)
	srv.AddTool(&mcp.Tool{Name: "who", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			user := req.Extra.Header.Get("X-Forwarded-User")
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: user}}}, nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil)
}

func TestUpstreamsAreToldWhoCalls(t *testing.T) {
	result, err := through(t, whoCalls(), client.Options{}).CallTool(t.Context(), "up_who", nil)
	if err != nil || result.Content[0].(*protocol.TextContent).Text != "alice" {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestWhoHasNoTokenIsNotLetIn(t *testing.T) {
	g, err := newGateway(t.Context(), config{users: alice}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.shutdown)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header.Set("Authorization", "Bearer bob")
	if g.handler().ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("got %d", w.Code)
	}
}

// TestChildProcesses: an upstream that the gateway starts itself.
func TestChildProcesses(t *testing.T) {
	t.Setenv("GATEWAY_IS_CHILD", "1")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGateway(t.Context(), config{
		upstreams: map[string]string{"up": "stdio:" + program}, users: alice,
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.shutdown)
	c := connectAs(t, g, "alice", client.Options{
		ElicitForm: func(_ context.Context,
			q *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(map[string]string{"reason": "alice said so"})
		},
	})
	result, err := c.CallTool(t.Context(), "up_deploy", Deploy{Env: "prod"})
	if err != nil ||
		result.Content[0].(*protocol.TextContent).Text != "deployed to prod: alice said so" {
		t.Errorf("got %+v, %v", result, err)
	}
}
