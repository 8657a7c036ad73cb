package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/bearer/bearertest"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// asServer in the environment makes the test binary the attacked server.
const asServer = "MCPATTACK_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		testkit.Main(m)
		return
	}
	srv, err := newServer()
	if err == nil {
		err = srv.ServeStdio(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type consent struct {
	Sure   bool   `json:"sure"`
	Reason string `json:"reason" minLength:"20"`
	Where  string `json:"where" enum:"no,yes"`
}

var sure = roundtrip.MustQuestion[consent]("sure")

// newServer returns a server with tools that hold, ask until accepted, forget answers, never ask.
func newServer() (*server.Server, error) {
	srv, err := server.New(&server.Options{
		Info: protocol.Implementation{Name: "attacked", Version: "1"}})
	if err != nil {
		return nil, err
	}
	server.AddRawTool(srv, server.Tool{Name: "holds"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			in, err := roundtrip.Ask[consent](ctx, "sure", "Delete it?")
			if err != nil {
				return nil, err
			}
			return server.Text("deleted: " + in.Reason), nil
		})
	server.AddRawTool(srv, server.Tool{Name: "open"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			answer := sure.Answer(ctx)
			switch answer.Outcome {
			case roundtrip.Accepted, roundtrip.Declined, roundtrip.Cancelled,
				roundtrip.Unseen:
				return server.Text("deleted: " + answer.Content.Reason), nil
			}
			return roundtrip.InputRequired(sure.Elicit("Delete it?")), nil
		})
	server.AddRawTool(srv, server.Tool{Name: "forgets"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			return roundtrip.InputRequired(sure.Elicit("Delete it?", roundtrip.AskAgain())), nil
		})
	server.AddRawTool(srv, server.Tool{Name: "plain"},
		func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
			return server.Text("done"), nil
		})
	server.AddRawTool(srv, server.Tool{Name: "sometimes"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			if call.Version.Era() == protocol.Legacy {
				return server.Text("deleted"), nil
			}
			_, err := roundtrip.Ask[consent](ctx, "sure", "Delete it?")
			return server.Text("deleted"), err
		})
	return srv, nil
}

// runCommand runs mcpattack on the test binary and returns its exit status and output.
func runCommand(t *testing.T, args ...string) (status int, output string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asServer, "1")
	var out, errOut strings.Builder
	status = run(append(args, "--", program), &out, &errOut)
	t.Logf("status %d\n%s%s", status, out.String(), errOut.String())
	return status, out.String() + errOut.String()
}

// linesOf returns the output about a tool in an era.
func linesOf(output, era, tool string) (lines []string) {
	for line := range strings.Lines(output) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), era+"  "+tool+"  "); ok {
			lines = append(lines, strings.TrimSpace(rest))
		}
	}
	return lines
}

func TestToolThatFailsOpenIsFound(t *testing.T) {
	status, output := runCommand(t, "-tool", "holds", "-tool", "open={}", "-tool", "plain")
	if status != statusFound {
		t.Errorf("exit status %d, want %d", status, statusFound)
	}
	open := []string{`OPEN: a decline to "form: Delete it?"`,
		`OPEN: a decline at once to "form: Delete it?"`, `OPEN: a cancel to "form: Delete it?"`}
	for _, era := range []string{"2026-07-28", "2025-11-25"} {
		for tool, want := range map[string][]string{"holds": nil, "open": open, "plain": nil} {
			lines := linesOf(output, era, tool)
			var found []string
			for _, line := range lines {
				if strings.HasPrefix(line, "OPEN") {
					found = append(found, line)
				}
			}
			if !slices.Equal(found, want) || len(lines) == 0 {
				t.Errorf("%s of %s: %q, want %q", tool, era, found, want)
			}
			says := strings.Contains(fmt.Sprint(lines), "asks nothing")
			if says != (tool == "plain") {
				t.Errorf("%s of %s: %q", tool, era, lines)
			}
		}
	}
	// Only attacks without requirements were run.
	if lines := linesOf(output, "2026-07-28", "holds"); len(lines) != 5 ||
		lines[0] != "asks 1, held 18 of 18" {
		t.Errorf("%q", lines)
	}
	for _, want := range []string{"not tried: replay: -single-use is not set",
		"not tried: other user: " + envOther, "not tried: expire: it takes a test"} {
		if !strings.Contains(output, want) {
			t.Errorf("the output does not say %q", want)
		}
	}
}

func TestToolThatLosesAnswersIsFound(t *testing.T) {
	status, output := runCommand(t, "-tool", "forgets")
	if status != statusFound {
		t.Errorf("exit status %d, want %d", status, statusFound)
	}
	for _, era := range []string{"2026-07-28", "2025-11-25"} {
		if lines := linesOf(output, era, "forgets"); len(lines) != 1 ||
			!strings.HasPrefix(lines[0], "LOST") {
			t.Errorf("%s: got %q, want LOST", era, lines)
		}
	}
}

func TestToolThatAsksInOneEraAloneIsFound(t *testing.T) {
	status, output := runCommand(t, "-tool", "sometimes")
	if status != statusFound {
		t.Errorf("exit status %d, want %d", status, statusFound)
	}
	const want = "2025-11-25  sometimes  OPEN: acts without asking, but asks in 2026-07-28"
	if !strings.Contains(output, want) {
		t.Errorf("no note %q", want)
	}
}

func TestWithoutToolNothingIsCalled(t *testing.T) {
	status, output := runCommand(t)
	if status != statusHeld {
		t.Errorf("exit status %d", status)
	}
	for _, want := range []string{"2026-07-28  forgets", "2025-11-25  holds",
		"not called"} {
		if !strings.Contains(output, want) {
			t.Errorf("the list does not say %q", want)
		}
	}
}

func TestToolThatHolds(t *testing.T) {
	if status, _ := runCommand(t, "-tool", "holds"); status != statusHeld {
		t.Errorf("exit status %d, want %d", status, statusHeld)
	}
}

func TestWrongArguments(t *testing.T) {
	for name, args := range map[string][]string{
		"no server":         {},
		"arguments no JSON": {"-tool", "open=yes", "--", "true"},
		"arguments a list":  {"-tool", "open=[]", "--", "true"},
		"unknown flag":      {"-fast", "http://127.0.0.1:1/"},
		"nobody listens":    {"http://127.0.0.1:1/"},
		"no such command":   {"--", "/nonexistent/server"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut strings.Builder
			if status := run(args, &out, &errOut); status != statusFailed {
				t.Errorf("exit status %d, want %d", status, statusFailed)
			}
			if errOut.Len() == 0 {
				t.Error("nothing says why")
			}
		})
	}
}

func TestToolThatIsNotListed(t *testing.T) {
	status, output := runCommand(t, "-tool", "nowhere")
	if status != statusFailed || !strings.Contains(output, "(not listed)") {
		t.Errorf("exit status %d, want %d and a row that says so", status, statusFailed)
	}
}

// TestServerBehindOAuth: the token is sent, but not printed.
func TestServerBehindOAuth(t *testing.T) {
	srv, err := newServer()
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	const resource = "http://127.0.0.1/mcp"
	issuer := bearertest.NewIssuer("https://login.example.com")
	guard, err := bearer.New(bearer.Options{Resource: resource,
		Issuers: []bearer.Issuer{issuer.Trusted()}})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := serverhttp.New(srv, &serverhttp.Options{Authority: guard})
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewServer(handler)
	defer listening.Close()
	token := issuer.Issue(bearertest.Token{Subject: "ann", Audience: resource})
	for name, of := range map[string]struct {
		credentials string
		status      int
	}{"token": {"Bearer " + token, statusHeld}, "none": {"", statusFailed}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(envAuthorization, of.credentials)
			var out, errOut strings.Builder
			if status := run([]string{"-timeout", "2s", "-tool", "holds", listening.URL}, &out,
				&errOut); status != of.status {
				t.Errorf("exit status %d, want %d: %s%s", status, of.status, &out, &errOut)
			}
			if strings.Contains(out.String()+errOut.String(), token) {
				t.Error("the token is printed")
			}
		})
	}
}
