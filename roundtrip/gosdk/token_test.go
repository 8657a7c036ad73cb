package gosdk_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The SDK hands on whatever a client sends as the progress token. One that is
// neither text nor a number is as if there were none.
func TestProgressTokensOfEveryKind(t *testing.T) {
	server := single(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if len(req.Params.InputResponses) == 0 {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}, nil
		}
		return toolText("done"), nil
	})
	for name, token := range map[string]any{
		"array": []any{"p"}, "object": map[string]any{"p": 1}, "true": true, "null": nil, "number": 1.5, "text": "p",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				session := thinker(t, server, 20*time.Second, nil)
				result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t", Meta: mcp.Meta{"progressToken": token}})
				if err != nil || result.IsError {
					t.Fatalf("got %+v, %v", result, err)
				}
				_ = session.Close()
			})
		})
	}
}
