package gateway_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// serveStdio is the environment variable that makes this program a stdio server.
const serveStdio = "GATEWAY_TEST_SERVE_STDIO"

func TestMain(m *testing.M) {
	if serveChaosProcess() {
		return
	}
	if os.Getenv(serveStdio) == "" {
		flag.Parse()
		_ = flag.Set("test.parallel", "8") // most tests wait for time to pass
		os.Exit(m.Run())
	}
	opts := watch(func(req *server.Request) {
		if strings.HasSuffix(os.Getenv(serveStdio), "dies") &&
			req.Message.Method == protocol.MethodCallTool {
			time.AfterFunc(500*time.Millisecond, func() { os.Exit(1) })
		}
	})
	opts.ModernOnly = os.Getenv(serveStdio) == "modern"
	srv, err := server.New(opts)
	if err != nil {
		panic(err)
	}
	addTool(srv, "deploy", (&upstreamServer{}).deploy)
	addTool(srv, "env", func(context.Context, *server.ToolCall) (outcome, error) {
		return server.Text(strings.Join(os.Environ(), "\n")), nil
	})
	if err := srv.ServeStdio(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func thisProgram(t *testing.T, as string, era protocol.Era) gateway.Upstream {
	t.Helper()
	program, err := os.Executable()
	noError(t, err)
	return gateway.Upstream{Name: "ops", Era: era,
		Connect: gateway.Command("env", serveStdio+"="+as, program)}
}
