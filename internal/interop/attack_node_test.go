//go:build node

package interop_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestSurveyOfServerEverything: what mcpattack says of npm's server that has all features, over its
// standard input and output.
func TestSurveyOfServerEverything(t *testing.T) {
	dir := installed(t)
	script := dir.file("@modelcontextprotocol", "server-everything", "dist", "index.js")
	connect := func(string) (protocol.Peer, error) {
		return client.Command(exec.Command(dir.node(), script, "stdio"),
			&client.CommandOptions{Grace: 200 * time.Millisecond})
	}
	rows := surveyRows(t, connect,
		attack.ToolCall{Name: "echo", Arguments: json.RawMessage(`{"message":"hello"}`)},
		attack.ToolCall{Name: "trigger-elicitation-request", Arguments: json.RawMessage(`{}`)})
	for _, want := range []string{
		"2026-07-28 echo 0 result - - - - - -",
		"2026-07-28 trigger-elicitation-request (not listed)", // nobody could be asked there
		"2025-11-25 echo 0 result - - - - - -",
		"2025-11-25 trigger-elicitation-request 1 result ok ok ok ok - kept",
	} {
		if !slices.Contains(rows, want) {
			t.Errorf("no row %q", want)
		}
	}
}
