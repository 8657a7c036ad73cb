package gosdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// A request whose params are missing, or null, is served as any other. Those that the SDK
// answers by itself, and those that the host's middleware answers.
func TestRequestsOfASessionWithoutParams(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult,
			error) {
			return nil, nil
		})
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "prompts/list" {
				return &mcp.ListPromptsResult{Prompts: []*mcp.Prompt{}}, nil
			}
			return next(ctx, method, req)
		}
	})
	installWith(t, server, &gosdk.Options{ExactWire: true})
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out}) }()
	defer func() {
		cancel()
		toServer.Close()
		<-ended
	}()
	answers := json.NewDecoder(fromServer)
	ask := func(id int, method, params string) string {
		t.Helper()
		if _, err := fmt.Fprintf(toServer, `{"jsonrpc":"2.0","id":%d,"method":%q%s}`+"\n", id, method, params); err != nil {
			t.Fatal(err)
		}
		var answer json.RawMessage
		if err := answers.Decode(&answer); err != nil {
			t.Fatal(err)
		}
		return string(bytes.TrimSpace(answer))
	}
	ask(0, "initialize", `,"params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
	if _, err := io.WriteString(toServer, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	for id, method := range []string{"ping", "tools/list", "prompts/list", "server/discover"} {
		for _, params := range []string{"", `,"params":null`, `,"params":{}`} {
			got := ask(id+1, method, params)
			if strings.Contains(got, `"ttlMs"`) || !strings.Contains(got, `"jsonrpc"`) {
				t.Errorf("%s%s: got %s", method, params, got)
			}
		}
	}
}
