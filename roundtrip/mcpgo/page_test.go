package mcpgo_test

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// The code of README.md, which has to compile.
var _ = []any{servePage, shareKeyOfPage, liftTimeoutOfPage, limitOfPage}

func servePage(s *server.MCPServer, opts ...server.StreamableHTTPOption) error {
	a, err := mcpgo.New(nil) // once a process
	if err != nil {
		return err
	}
	http.Handle("/mcp", a.Handler(server.NewStreamableHTTPServer(s, opts...)))
	return nil
}

func shareKeyOfPage() error {
	ring, err := keys.KeyringFromEnv(os.LookupEnv, "STATE_KEYS")
	if err != nil {
		return err
	}
	a, err := mcpgo.New(&mcpgo.Options{Options: roundtrip.Options{
		Sealer: ring, RequireSharedKey: true, Audience: "files.example.com",
	}})
	_ = a
	return err
}

func liftTimeoutOfPage(a *mcpgo.Adapter, streamable *server.StreamableHTTPServer) {
	h := a.Handler(streamable)
	http.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		h.ServeHTTP(w, r)
	})
}

func limitOfPage(a *mcpgo.Adapter, s *server.MCPServer, limiter interface{ Allow() bool }) error {
	if err := a.Install(s); err != nil {
		return err
	}
	s.Use(func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if roundtrip.RoundOf(ctx).Number == 1 && !limiter.Allow() {
				return mcp.NewToolResultError("too many calls; try again in a minute"), nil
			}
			return next(ctx, r)
		}
	})
	return nil
}
