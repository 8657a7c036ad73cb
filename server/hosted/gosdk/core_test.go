//lint:file-ignore SA1019 roots are deprecated, and supported for as long as they exist

package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
)

type (
	back = hostedtest.Back
	core = hostedtest.Core
)

var (
	want   = hostedtest.Want
	textOf = hostedtest.TextOf
)

const noCapabilities = `{}`

// open opens an anonymous session of a peer of s in the modern era.
func open(t testing.TB, s *mcp.Server) *core {
	t.Helper()
	return hostedtest.Open(t, gosdk.Peer(s, nil))
}

func newServer(opts *mcp.ServerOptions) *mcp.Server {
	return mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, opts)
}

func textf(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

type (
	toolRequest = mcp.CallToolRequest
	toolResult  = mcp.CallToolResult
)

func says(text string) func(context.Context, *toolRequest) (*toolResult, error) {
	return func(context.Context, *toolRequest) (*toolResult, error) { return textf("%s", text), nil }
}

func panics(v any) func(context.Context, *toolRequest) (*toolResult, error) {
	return func(context.Context, *toolRequest) (*toolResult, error) { panic(v) }
}

func before(f func(ctx context.Context, method string, req mcp.Request)) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			f(ctx, method, req)
			return next(ctx, method, req)
		}
	}
}

// addTool adds a tool whose errors become failed results.
func addTool(s *mcp.Server, name string,
	h func(context.Context, *toolRequest) (*toolResult, error)) {
	mcp.AddTool(s, &mcp.Tool{Name: name}, func(ctx context.Context, req *toolRequest, _ struct{}) (
		*mcp.CallToolResult, any, error) {
		result, err := h(ctx, req)
		return result, nil, err
	})
}

func addText(s *mcp.Server, name string,
	h func(context.Context, *toolRequest) (string, error)) {
	addTool(s, name, func(ctx context.Context, req *toolRequest) (*toolResult, error) {
		text, err := h(ctx, req)
		return textf("%s", text), err
	})
}

// addRaw adds a tool whose errors become protocol errors.
func addRaw(s *mcp.Server, name string,
	h func(context.Context, *toolRequest) (*toolResult, error)) {
	s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, h)
}

// sameJSON ignores the order of members.
func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return a == b
	}
	return reflect.DeepEqual(x, y)
}

func countSessions(s *mcp.Server) (n int) {
	for range s.Sessions() {
		n++
	}
	return n
}

type call struct{ *toolRequest }

func (c call) Elicit(ctx context.Context) (string, error) {
	a, err := c.Session.Elicit(ctx, form("Why?"))
	if err != nil {
		return "", err
	}
	return a.Action, nil
}

func (c call) ListRoots(ctx context.Context) error {
	_, err := c.Session.ListRoots(ctx, nil)
	return err
}

func (c call) Progress(ctx context.Context, n int) error {
	return c.Session.Log(ctx, logged(fmt.Sprint(n)))
}

func (c call) EndSession() { _ = c.Session.Close() }

func TestCasesOfAllSDKs(t *testing.T) {
	hostedtest.Run(t, hostedtest.SDK{
		Peer: func(tools map[string]hostedtest.Tool) (hosted.Peer, func() int) {
			s := newServer(nil)
			for name, tool := range tools {
				addText(s, name, func(ctx context.Context, req *toolRequest) (string, error) {
					return tool(ctx, call{req})
				})
			}
			return gosdk.Peer(s, nil), func() int { return countSessions(s) }
		},
		Progress: func(n int) string {
			return fmt.Sprintf(`notifications/message {"data":"%d","level":"debug"}`, n)
		},
		Sessions: 2, EndWaits: true,
	})
}
