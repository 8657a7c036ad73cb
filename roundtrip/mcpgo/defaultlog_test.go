package mcpgo_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Without an observer the operator finds the reason of a refusal in the default log, under the
// reference that the client was given.
func TestReasonsGoToTheDefaultLogWithoutAnObserver(t *testing.T) {
	over(t, nil, addGuard, func(t *testing.T, send sender) {
		var out bytes.Buffer
		before := slog.Default()
		defer slog.SetDefault(before)
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
		first := send(typed.message())
		other := typed
		other.arguments = `{"n":1}`
		send(other.retry(first, yes).message())
		for _, want := range []string{"mcp.state_rejected", "reason=other_arguments",
			"reference="} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in %s", want, out.String())
			}
		}
		if strings.Contains(out.String(), "much") {
			t.Errorf("an answer is in the log: %s", out.String())
		}
	})
}
