package mcpgo_test

import (
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestUnseenInEveryStyle: a client that refuses without showing the question. Handlers in mcp-go's
// own terms get the action as the client sent it, which refuses; those of package roundtrip get an
// outcome of its own, and their friendly words for a person are not said.
func TestUnseenInEveryStyle(t *testing.T) {
	opts := mcpgo.Options{Options: roundtrip.Options{MinHumanTime: time.Hour}}
	eras(t, opts, addGuard, []scenario{
		{name: "guard", answers: map[string]string{"Sure?": "decline"}, call: tool("typed"),
			want: "without showing the question", asked: []string{"Sure?"}},
		{name: "guard, cancelled", answers: map[string]string{"Sure?": "cancel"},
			call: tool("typed"), want: "without showing the question", asked: []string{"Sure?"}},
	})
	eras(t, opts, addNative, []scenario{
		{name: "native", answers: map[string]string{"First?": "decline", "Second?": "cancel"},
			call: tool("native"),
			want: "one+two, decline <nil> <nil>, cancel", asked: []string{"First?", "Second?"}},
	})
	var declines []scenario
	for _, sc := range flowScenarios() {
		if sc.name == "declined" {
			declines = append(declines, sc)
		}
	}
	eras(t, opts, func(s *server.MCPServer) { addFlow(s, changed()) }, declines)
	opts.UnmodifiedHandlers = true
	eras(t, opts, func(s *server.MCPServer) { addFlow(s, unchanged(s)) }, declines)
}
