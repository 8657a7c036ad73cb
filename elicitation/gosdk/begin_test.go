package gosdk_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
)

// A gateway that passes on all requests, by middleware, begins calls for requests whose
// params may be missing, too.
func TestACallBeginsForARequestWithoutParams(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	server := mcp.NewServer(impl, nil)
	server.AddTool(tool("form"),
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, nil
		})
	clients, err := gosdk.NewDownstream(router, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method != "tools/list" {
				return next(ctx, method, req)
			}
			call, err := clients.Begin(ctx, req, "up")
			if err != nil {
				return nil, err
			}
			defer call.End()
			if !call.Origin().ProgressToken.IsZero() {
				t.Errorf("the token is %v, want none", call.Origin().ProgressToken)
			}
			return next(ctx, method, req)
		}
	})
	url := overHTTPAt(t, server, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	for _, params := range []string{``, `,"params":null`, `,"params":{}`} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/list"` + params + `}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(answer), `"tools":[`) {
			t.Errorf("%s: got %s, %v", body, answer, err)
		}
	}
}
