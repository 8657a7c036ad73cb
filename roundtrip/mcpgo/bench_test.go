package mcpgo_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
)

// BenchmarkTwoLegs is a question and its answer through ServeHTTP, with mcp-go
// alone and behind the adapter.
func BenchmarkTwoLegs(b *testing.B) {
	quiet := server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler))
	native := func() *server.MCPServer {
		s := newHostServer()
		s.AddTool(mcp.NewTool("ask"),
			func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if answer := server.ElicitationResponse(r.Params.InputResponses,
					"confirm"); answer != nil {
					return mcp.NewToolResultText(string(answer.Action)), nil
				}
				return server.NewInputRequestBuilder("s").Elicit("confirm",
						form("Sure?")).ToolResult(),
					nil
			})
		return s
	}
	alone := native()
	b.Run("mcp-go", func(b *testing.B) { twoLegs(b, server.NewStreamableHTTPServer(alone, quiet)) })
	adapted := native()
	a := install(b, adapted, nil)
	b.Run("adapted", func(b *testing.B) {
		twoLegs(b,
			a.Handler(server.NewStreamableHTTPServer(adapted, quiet)))
	})
}

func twoLegs(b *testing.B, h http.Handler) {
	ask := request{method: protocol.MethodCallTool, target: "ask"}
	send := func(message string) answered {
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(message))
		for name, value := range map[string]string{"Content-Type": "application/json",
			"Mcp-Protocol-Version": modern,
			"Mcp-Method":           ask.method, "Mcp-Name": ask.target} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		body, err := io.ReadAll(w.Body)
		var got answered
		if err == nil {
			err = json.Unmarshal(body, &got)
		}
		if err != nil {
			b.Fatal(err)
		}
		return got
	}
	b.ReportAllocs()
	for b.Loop() {
		first := send(ask.message())
		if got := send(ask.retry(first, yes).message()); got.text() != "accept" {
			b.Fatalf("got %s", got.text())
		}
	}
}
