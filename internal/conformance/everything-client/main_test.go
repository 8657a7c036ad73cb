package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var noError = testkit.NoError

func connect(t *testing.T) (*client.Client, *server.Server) {
	t.Helper()
	srv, err := server.New(nil)
	noError(t, err)
	c, err := client.New(srv, options())
	noError(t, err)
	t.Cleanup(func() { c.Close() })
	return c, srv
}

func TestAgree(t *testing.T) {
	type form struct {
		Sure  bool   `json:"sure"`
		Count int    `json:"count" default:"3"`
		Loud  bool   `json:"loud" default:"false"`
		Note  string `json:"note,omitempty"`
	}
	question := roundtrip.MustQuestion[form]("question")
	c, srv := connect(t)
	server.AddRawTool(srv, server.Tool{Name: "ask"}, func(ctx context.Context,
		_ *server.ToolCall) (protocol.CallToolOutcome, error) {
		if got, ok := question.AcceptedContent(ctx); ok {
			return server.Structured(got)
		}
		return roundtrip.InputRequired(question.Elicit("Sure?")), nil
	})
	got, err := c.CallTool(t.Context(), "ask", nil)
	noError(t, err)
	if want := `{"sure":true,"count":3,"loud":false}`; string(got.StructuredContent) != want {
		t.Errorf("got %s, want %s", got.StructuredContent, want)
	}
}

// The suite checks a scenario's requests. This test checks that the client notices bad responses.
func TestScenariosFail(t *testing.T) {
	c, srv := connect(t)
	server.AddRawTool(srv, server.Tool{Name: "broken"}, func(context.Context,
		*server.ToolCall) (protocol.CallToolOutcome, error) {
		return server.ErrorText("out of order"), nil
	})
	for name, more := range map[string]string{
		"tools_call":                       "",
		"sep-2322-client-request-state":    "",
		"http-standard-headers":            "",
		"http-invalid-tool-headers":        "",
		"json-schema-2020-12-preservation": "",
		"http-custom-headers":              `{"toolCalls":[{"name":"broken","arguments":{}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := scenarios()[name](t.Context(), c, json.RawMessage(more)); err == nil {
				t.Error("no error with a server that has none of its tools")
			}
		})
	}
	if err := callAsTold(t.Context(), c, nil); err == nil ||
		!strings.Contains(err.Error(), "context") {
		t.Errorf("without a context: error %v, want one that says so", err)
	}
}

func TestRunRefuses(t *testing.T) {
	t.Setenv("MCP_CONFORMANCE_SCENARIO", "no-such-scenario")
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"no URL", nil, "usage"},
		{"unknown scenario", []string{"http://127.0.0.1:1/mcp"}, "no-such-scenario"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := run(t.Context(), test.args); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that mentions %s", err, test.want)
			}
		})
	}
	t.Setenv("MCP_CONFORMANCE_SCENARIO", "tools_call")
	if err := run(t.Context(), []string{"not a URL"}); err == nil {
		t.Error("no error for what is no URL")
	}
}
