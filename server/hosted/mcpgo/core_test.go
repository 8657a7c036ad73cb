package mcpgo_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
)

type back = hostedtest.Back

var want = hostedtest.Want

func newServer(opts ...mcpserver.ServerOption) *mcpserver.MCPServer {
	return mcpserver.NewMCPServer("hosted", "1.0.0", slices.Concat([]mcpserver.ServerOption{
		mcpserver.WithToolCapabilities(true), mcpserver.WithPromptCapabilities(true),
		mcpserver.WithResourceCapabilities(true, true), mcpserver.WithLogging(),
		mcpserver.WithElicitation(), mcpserver.WithRoots(), mcpserver.WithCompletions(),
	}, opts)...)
}

func addTool(s *mcpserver.MCPServer, name string,
	f func(ctx context.Context, req mcp.CallToolRequest) (string, error)) {
	s.AddTool(mcp.NewTool(name),
		func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, err := f(ctx, req)
			if err != nil {
				return nil, err
			}
			return mcp.NewToolResultText(text), nil
		})
}

// aroundTools replaces the tools with that name.
func aroundTools(name string, with mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerMiddleware {
	return func(next mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerFunc {
		return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if req.Params.Name == name {
				return with(ctx, req)
			}
			return next(ctx, req)
		}
	}
}

const declared = `{"elicitation":{},"sampling":{}}`

// open opens a session of a server, by default s1 and anonymous.
func open(t testing.TB, s *mcpserver.MCPServer, caller *hosted.Caller) *hostedtest.Core {
	t.Helper()
	if caller == nil {
		caller = &hosted.Caller{SessionID: "s1"}
	}
	return hostedtest.OpenAs(t, mcpgo.Peer(s), caller, declared)
}

func wantLines(t testing.TB, what string, got []string, lines ...string) {
	t.Helper()
	if !slices.Equal(got, lines) {
		t.Errorf("%s:\ngot  %q\nwant %q", what, got, lines)
	}
}

type call struct {
	*mcpserver.MCPServer
	ctx context.Context
}

func (c call) Elicit(ctx context.Context) (string, error) {
	a, err := c.RequestElicitation(ctx, form("Why?"))
	if err != nil {
		return "", err
	}
	return string(a.Action), nil
}

func (c call) ListRoots(ctx context.Context) error {
	session := mcpserver.ClientSessionFromContext(c.ctx)
	_, err := session.(mcpserver.SessionWithRoots).ListRoots(ctx, mcp.ListRootsRequest{})
	return err
}

func (c call) Progress(ctx context.Context, n int) error { return progress(c.MCPServer, ctx, n) }

func (c call) EndSession() { c.UnregisterSession(context.Background(), "s1") }

func TestCasesOfAllSDKs(t *testing.T) {
	hostedtest.Run(t, hostedtest.SDK{
		Peer: func(tools map[string]hostedtest.Tool) (hosted.Peer, func() int) {
			registered := 0
			var counting sync.Mutex
			count := func(n int) func(context.Context, mcpserver.ClientSession) {
				return func(context.Context, mcpserver.ClientSession) {
					counting.Lock()
					defer counting.Unlock()
					registered += n
				}
			}
			hooks := &mcpserver.Hooks{}
			hooks.AddOnRegisterSession(count(1))
			hooks.AddOnUnregisterSession(count(-1))
			s := newServer(mcpserver.WithHooks(hooks))
			for name, tool := range tools {
				addTool(s, name, func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
					return tool(ctx, call{s, ctx})
				})
			}
			return mcpgo.Peer(s), func() int {
				counting.Lock()
				defer counting.Unlock()
				err := s.SendNotificationToSpecificClient("s1", "x", nil)
				if registered == 0 && err == nil {
					return -1 // the session is registered nevertheless
				}
				return registered
			}
		},
		Progress: progressText, Sessions: 1, Cause: protocol.ErrSessionGone,
	})
}
