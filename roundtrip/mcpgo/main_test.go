package mcpgo_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// asHost makes this program a server on standard input and output instead of the
// tests of it: "changed" or "unmodified", what its handlers are.
const asHost = "RONDO_MCPGO_HOST"

func TestMain(m *testing.M) {
	style := os.Getenv(asHost)
	if style == "" {
		testkit.Main(m)
	}
	s := newHostServer()
	addStyle(s, style)
	a, err := mcpgo.New(&mcpgo.Options{UnmodifiedHandlers: style == "unmodified"})
	if err == nil {
		err = a.Listen(context.Background(), server.NewStdioServer(s), os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// addStyle adds what flowScenarios call.
func addStyle(s *server.MCPServer, style string) {
	if style == "unmodified" {
		addFlow(s, unchanged(s))
	} else {
		addFlow(s, changed())
	}
}
