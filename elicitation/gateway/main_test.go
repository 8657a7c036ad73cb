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
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// serveStdio makes this program a server on standard input and output.
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
	srv, err := server.New(&server.Options{
		ModernOnly: os.Getenv(serveStdio) == "modern",
		Middleware: []server.Middleware{func(next server.Handler) server.Handler {
			return func(ctx context.Context, req *server.Request) (protocol.Result, error) {
				if strings.HasSuffix(os.Getenv(serveStdio), "dies") &&
					req.Message.Method == protocol.MethodCallTool {
					time.AfterFunc(500*time.Millisecond, func() { os.Exit(1) })
				}
				return next(ctx, req)
			}
		}},
	})
	if err != nil {
		panic(err)
	}
	u := &upstreamServer{}
	server.AddTool(srv, server.Tool{Name: "deploy"}, u.deploy)
	server.AddTool(srv, server.Tool{Name: "env"}, func(
		context.Context, *server.ToolCall, struct{},
	) (protocol.CallToolOutcome, error) {
		return server.Text(strings.Join(os.Environ(), "\n")), nil
	})
	if err := srv.ServeStdio(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// thisProgram returns the Connect function of this program as a server.
func thisProgram(
	t *testing.T, as string,
) func(context.Context, gateway.Credential) (protocol.Peer, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return gateway.Command("env", serveStdio+"="+as, program)
}

func TestProgramsAreUpstreams(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
			{Name: "local", Connect: thisProgram(t, upstreamEra.String()),
				Era: upstreamEra},
		}})
		p := &person{}
		c := connect(t, url, clientEra, p)
		awaitTool(t, c, "local_deploy")
		for range 2 { // the second call finds a connection
			result, err := c.CallTool(t.Context(), "local_deploy", nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := textOf(result); got != "deployed to production: true" {
				t.Errorf("got %q", got)
			}
		}
		if len(p.shown) != 4 {
			t.Errorf("shown %q", p.shown)
		}
	})
}

func TestProgressReachesTheRequestThatWaits(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		srv, err := server.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		server.AddTool(srv, server.Tool{Name: "work"}, func(
			ctx context.Context, call *server.ToolCall, _ struct{},
		) (protocol.CallToolOutcome, error) {
			if err := call.Progress(ctx, 1, 3, "before"); err != nil {
				return nil, err
			}
			if _, err := roundtrip.Ask[target](ctx, "where", "Deploy where?"); err != nil {
				return nil, err
			}
			if err := call.Progress(ctx, 2, 3, "after"); err != nil {
				return nil, err
			}
			return server.Text("done"), nil
		})
		url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
			{Name: "ops", Connect: gateway.HTTP(serveHTTP(t, srv), nil), Era: upstreamEra},
		}})
		c := connect(t, url, clientEra, &person{})
		awaitTool(t, c, "ops_work")
		told := make(chan string, 10)
		result, err := c.CallTool(progressTo(t.Context(), told), "ops_work", nil)
		if err != nil || textOf(result) != "done" {
			t.Fatalf("got %q, %v", textOf(result), err)
		}
		close(told)
		seen := map[string]bool{}
		for message := range told {
			seen[message] = true
		}
		if !seen["before"] || !seen["after"] {
			t.Errorf("told of %v", seen)
		}
	})
}

func TestProgramsGetNoSecretsOfTheGateway(t *testing.T) {
	t.Setenv("GATEWAY_KEYS", "a-key-of-the-gateway")
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "local", Connect: thisProgram(t, "legacy")},
	}})
	c := connect(t, url, 0, &person{})
	awaitTool(t, c, "local_env")
	result, err := c.CallTool(t.Context(), "local_env", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := textOf(result); strings.Contains(got, "a-key") || !strings.Contains(got, "PATH=") {
		t.Errorf("the program has %s", got)
	}
}

// refuseIf returns the kinds of questions that an upstream may not ask.
func refuseIf(refused bool, kind protocol.InputKind) []protocol.InputKind {
	if refused {
		return []protocol.InputKind{kind}
	}
	return nil
}
