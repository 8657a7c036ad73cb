package mcpgo_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
)

// newVault returns a server that makes an upstream client for each session, with the token of its
// first call, like vault-mcp-server. Its middleware asks.
func newVault() *mcpserver.MCPServer {
	var clients sync.Map // token by session id
	s := newServer()
	s.Use(aroundTools("guarded", func(_ context.Context, req mcp.CallToolRequest) (
		*mcp.CallToolResult, error) {
		a := mcpserver.ElicitationResponse(req.Params.InputResponses, "sure")
		if a == nil {
			return mcpserver.NewInputRequestBuilder("").Elicit("sure",
				mcp.ElicitationParams{Message: "Sure?", RequestedSchema: map[string]any{
					"type": "object", "properties": map[string]any{
						"text": map[string]any{"type": "string"}}}}).ToolResult(), nil
		}
		return mcp.NewToolResultText(fmt.Sprint(a.Action, a.Content)), nil
	}))
	addTool(s, "guarded", nil)
	addTool(s, "read", func(ctx context.Context, r mcp.CallToolRequest) (string, error) {
		token, _ := clients.LoadOrStore(mcpserver.ClientSessionFromContext(ctx).SessionID(),
			r.Header.Get("X-User"))
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
			noError(t, err)
			t.Cleanup(func() { _ = front.Close() })
			var callers sync.WaitGroup
			for _, token := range []string{"a/1", "a/2", "b/1", "b/2"} {
				for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
					c := hostedtest.NewClient(t, hostedtest.Dial(t, front, token), era,
						hostedtest.Answering(protocol.ActionAccept))
					callers.Go(func() {
						for range 3 {
							want(t, "token", hostedtest.CallTool(t, c, "read"), token)
							want(t, "question", hostedtest.CallTool(t, c, "guarded"),
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
