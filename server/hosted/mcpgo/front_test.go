package mcpgo_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// serve serves a hosted server over HTTP, whose callers are named by their tokens.
func serve(t *testing.T, front *hosted.Server, err error) (endpoint string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	handler, err := front.Handler(&serverhttp.Options{
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			return protocol.Principal{Subject: r.Header.Get("Authorization")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(hosted.KeepHeaders(handler, "Authorization"))
	t.Cleanup(func() {
		_ = handler.Shutdown(context.Background())
		web.Close()
		_ = front.Close()
	})
	return web.URL
}

// connect returns a client that answers each form with its message.
func connect(t *testing.T, endpoint, token string, era protocol.Era) *client.Client {
	t.Helper()
	through := &http.Transport{}
	over, err := clienthttp.New(endpoint, &clienthttp.Options{
		HTTPClient: &http.Client{Transport: through},
		Header:     http.Header{"Authorization": {token}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(over, &client.Options{Era: era, ElicitForm: func(_ context.Context,
		q *client.FormQuestion) (*protocol.ElicitResult, error) {
		return client.Accept(map[string]string{"text": q.Message})
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		through.CloseIdleConnections()
	})
	return c
}

func callText(t *testing.T, c *client.Client, tool string) string {
	t.Helper()
	result, err := c.CallTool(t.Context(), tool, nil)
	if err != nil {
		return "failed: " + err.Error()
	}
	return result.Content[0].(*protocol.TextContent).Text
}

// newVault returns a server that makes a client of another service for each session, with the
// token of the session's first call, as vault-mcp-server does. Its middleware asks.
func newVault() *mcpserver.MCPServer {
	var clients sync.Map // token by session id
	s := newServer()
	s.Use(func(next mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerFunc {
		return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if req.Params.Name != "guarded" {
				return next(ctx, req)
			}
			a := mcpserver.ElicitationResponse(req.Params.InputResponses, "sure")
			if a == nil {
				return mcpserver.NewInputRequestBuilder("").Elicit("sure",
					mcp.ElicitationParams{Message: "Sure?", RequestedSchema: map[string]any{
						"type": "object", "properties": map[string]any{
							"text": map[string]any{"type": "string"}}}}).ToolResult(), nil
			}
			return mcp.NewToolResultText(fmt.Sprint(a.Action, a.Content)), nil
		}
	})
	addTool(s, "guarded", nil)
	addTool(s, "read", func(ctx context.Context, r mcp.CallToolRequest) (string, error) {
		token, _ := clients.LoadOrStore(mcpserver.ClientSessionFromContext(ctx).SessionID(),
			r.Header.Get("Authorization"))
		return token.(string), nil
	})
	return s
}

func TestCallersOfOneServerAreKeptApart(t *testing.T) {
	for name, open := range map[string]func() (*hosted.Server, error){
		"one server": func() (*hosted.Server, error) { return mcpgo.New(newVault(), nil) },
		"a server for each session": func() (*hosted.Server, error) {
			return mcpgo.NewEach(func(context.Context, *hosted.Caller) (
				*mcpserver.MCPServer, error) {
				return newVault(), nil
			}, nil)
		},
		"a server for each group": func() (*hosted.Server, error) {
			of := map[string]*mcpserver.MCPServer{"": newVault(), "a": newVault(),
				"b": newVault()}
			return mcpgo.NewEach(func(_ context.Context, c *hosted.Caller) (
				*mcpserver.MCPServer, error) {
				group, _, _ := strings.Cut(c.Principal.Subject, "/")
				return of[group], nil
			}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			front, err := open()
			endpoint := serve(t, front, err)
			var callers sync.WaitGroup
			for _, token := range []string{"a/1", "a/2", "b/1", "b/2"} {
				for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
					c := connect(t, endpoint, token, era)
					callers.Go(func() {
						for range 3 {
							want(t, "token", callText(t, c, "read"), token)
							want(t, "question", callText(t, c, "guarded"),
								"acceptmap[text:Sure?]")
						}
					})
				}
			}
			callers.Wait()
		})
	}
}

func TestNoServerIsAnError(t *testing.T) {
	if _, err := mcpgo.New(nil, nil); err == nil {
		t.Error("New(nil) has no error")
	}
	for _, given := range []error{nil, fmt.Errorf("unknown tenant")} {
		_, err := mcpgo.NewEach(func(context.Context, *hosted.Caller) (
			*mcpserver.MCPServer, error) {
			return nil, given
		}, nil)
		if err == nil || given != nil && !strings.Contains(err.Error(), given.Error()) {
			t.Errorf("NewEach: %v", err)
		}
	}
}
