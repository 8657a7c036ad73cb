package gosdk_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

// Without an observer the operator finds the reason of a refusal in the default log, under the
// reference that the client was given.
func TestReasonsGoToTheDefaultLogWithoutAnObserver(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	w := dialWire(t, serverOf(t, guarded()))
	if !strings.Contains(out.String(), "mcp.ephemeral_key") {
		t.Errorf("nothing says that other replicas cannot open the states: %s", out.String())
	}
	first := w.call("deploy", "")
	const yes = `,"inputResponses":{"confirm":{"action":"accept","content":{"reason":"xyzzy"}}}`
	w.send(protocol.MethodCallTool, `{"name":"deploy","arguments":{"env":"test"}`+yes+
		`,"requestState":`+string(first.member("requestState"))+`}`)
	for _, want := range []string{"mcp.anonymous_state", "mcp.state_rejected",
		"reason=other_arguments", "reference="} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "xyzzy") {
		t.Errorf("an answer is in the log: %s", out.String())
	}
}
