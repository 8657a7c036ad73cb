package gosdk_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// Calls at the same time, of one client and of several, get their own answers.
func TestParallelCalls(t *testing.T) {
	const sessions, calls = 4, 8
	handlers := map[string]mcp.ToolHandler{
		"elicit": func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			answer, err := gosdk.Elicit(ctx, req.Session, nameQuestion(req))
			return nameAnswer(answer, err)
		},
		"unmodified": func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			answer, err := req.Session.Elicit(ctx, nameQuestion(req))
			return nameAnswer(answer, err)
		},
		"returned": func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			if answer, ok := req.Params.InputResponses["name"].(*mcp.ElicitResult); ok {
				return nameAnswer(answer, nil)
			}
			return &mcp.CallToolResult{
				InputRequests: mcp.InputRequestMap{"name": nameQuestion(req)}}, nil
		},
	}
	for name, handler := range handlers {
		t.Run(name, func(t *testing.T) {
			server := single(t, handler, withUnmodifiedHandlers())
			var wg sync.WaitGroup
			for s := range sessions {
				revision := []string{modern, legacy}[s%2]
				ours, theirs := mcp.NewInMemoryTransports()
				run(t, server, theirs)
				c := mcp.NewClient(&mcp.Implementation{Name: "x", Version: "1"}, &mcp.ClientOptions{
					ElicitationHandler: func(_ context.Context,
						req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						return &mcp.ElicitResult{Action: "accept",
							Content: map[string]any{"reason": fmt.Sprint("session ", s, " ",
								req.Params.Message)}}, nil
					}})
				session, err := c.Connect(within(t), ours,
					&mcp.ClientSessionOptions{ProtocolVersion: revision})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = session.Close() })
				for i := range calls {
					wg.Go(func() {
						result, err := session.CallTool(t.Context(),
							&mcp.CallToolParams{Name: "t", Arguments: map[string]any{"n": i}})
						want := fmt.Sprintf(`session %d {"n":%d}`, s, i)
						if err != nil || result.Content[0].(*mcp.TextContent).Text != want {
							t.Errorf("got %+v, %v, want %q", result, err, want)
						}
					})
				}
			}
			wg.Wait()
		})
	}
}

func nameQuestion(req *toolRequest) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: string(req.Params.Arguments),
		RequestedSchema: raw(reasonForm)}
}

func nameAnswer(answer *mcp.ElicitResult, err error) (*mcp.CallToolResult, error) {
	if err != nil {
		return nil, err
	}
	return toolText(answer.Content["reason"].(string)), nil
}
