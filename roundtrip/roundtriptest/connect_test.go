package roundtriptest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// asServer in the environment makes the test binary a stdio server.
const asServer = "ROUNDTRIPTEST_TEST_SERVER"

var noError = testkit.NoError

func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		testkit.Main(m)
		return
	}
	srv, err := newConnected()
	if err == nil {
		err = srv.ServeStdio(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func roundtripAsk(ctx context.Context) (Confirmation, error) {
	return roundtrip.Ask[Confirmation](ctx, "sure", "Sure?")
}

// newConnected's tools ask, ask with a nonce, ask differently in each era, and misbehave.
func newConnected() (*server.Server, error) {
	srv, err := server.New(&server.Options{Info: protocol.Implementation{Name: "connected",
		Version: "1"}})
	if err != nil {
		return nil, err
	}
	ask := func(name string, words func(*server.ToolCall) string) {
		server.AddRawTool(srv, server.Tool{Name: name},
			func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
				answer, ok := confirm.AcceptedContent(ctx)
				if !ok {
					return roundtrip.InputRequired(confirm.Elicit(words(call))), nil
				}
				return server.Text("done: " + answer.Reason), nil
			})
	}
	var nonce atomic.Int64
	ask("asks", func(*server.ToolCall) string { return "Sure?" })
	ask("nonce", func(*server.ToolCall) string {
		return fmt.Sprintf("Sure? Compare x-%d with your screen.", nonce.Add(1))
	})
	ask("era", func(call *server.ToolCall) string {
		return "Sure in " + string(call.Version) + "?"
	})
	server.AddRawTool(srv, server.Tool{Name: "mistaken"},
		func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
			return nil, errors.Join() // neither a result nor an error
		})
	return srv, nil
}

func newConnectedHandler() (http.Handler, error) {
	srv, err := newConnected()
	if err != nil {
		return nil, err
	}
	return serverhttp.New(srv, nil)
}

func connectedFlow(tool string) roundtriptest.Flow {
	return roundtriptest.Flow{Name: tool, Request: roundtriptest.Tool(tool, nil),
		Answers: roundtriptest.Answers{"confirm": because("tested")}, Want: "done: tested"}
}

func TestSubjectsOfOneLine(t *testing.T) {
	program, err := os.Executable()
	noError(t, err)
	handler, err := newConnectedHandler()
	noError(t, err)
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	t.Setenv(asServer, "1")
	for name, subject := range map[string]roundtriptest.Subject{
		"server":  roundtriptest.Server(newConnected),
		"handler": roundtriptest.Handler(newConnectedHandler),
		"command": roundtriptest.Command(program), "url": roundtriptest.URL(web.URL),
	} {
		t.Run(name, func(t *testing.T) {
			roundtriptest.Run(t, subject, connectedFlow("asks"))
			if problems, _ := roundtriptest.RunAttack(t, subject, connectedFlow("asks"),
				"tamper"); len(problems) > 0 {
				t.Error(problems)
			}
		})
	}
}

// TestNonceIsNoDifferenceOfEras, but other texts are.
func TestNonceIsNoDifferenceOfEras(t *testing.T) {
	var shared *server.Server
	subject := roundtriptest.Server(func() (*server.Server, error) {
		var err error
		if shared == nil { // so that the nonce goes on
			shared, err = newConnected()
		}
		return shared, err
	})
	if problems := roundtriptest.FindProblems(t, subject,
		connectedFlow("nonce")); len(problems) > 0 {
		t.Errorf("nonce: %v", problems)
	}
	problems := errors.Join(roundtriptest.FindProblems(t, subject, connectedFlow("era"))...)
	if problems == nil || !strings.Contains(problems.Error(), "the eras ask differently") {
		t.Errorf("words of an era: %v", problems)
	}
}

func TestReasonOfInternalErrorIsPrinted(t *testing.T) {
	for name, subject := range map[string]roundtriptest.Subject{
		"server":  roundtriptest.Server(newConnected),
		"handler": roundtriptest.Handler(newConnectedHandler),
	} {
		t.Run(name, func(t *testing.T) {
			flow := roundtriptest.Flow{Name: "mistaken",
				Request: roundtriptest.Tool("mistaken", nil), Want: "done"}
			problems := errors.Join(roundtriptest.FindProblems(t, subject, flow)...)
			if problems == nil {
				t.Fatal("nothing was found wrong")
			}
			t.Log(problems)
			if n := strings.Count(problems.Error(), "the server says: "); n != 2 {
				t.Errorf("%d eras print the reason, want 2", n)
			}
		})
	}
}
