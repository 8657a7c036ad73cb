package mcpgo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestSelfTest: mcp-go passes, and each check fails where what it tries has changed.
func TestSelfTest(t *testing.T) {
	if err := mcpgo.RunSelfTest(mcpgo.BrokenHost{}); err != nil {
		t.Fatalf("this version of mcp-go: %v", err)
	}
	without := func(old, new string) func(json.RawMessage) json.RawMessage {
		return func(m json.RawMessage) json.RawMessage {
			return bytes.ReplaceAll(m, []byte(old),
				[]byte(new))
		}
	}
	saying := func(old, new string) func(string) string {
		return func(m string) string { return strings.ReplaceAll(m, old, new) }
	}
	for _, tc := range []struct {
		name string
		host mcpgo.BrokenHost
		want string
	}{
		{"answers do not reach a handler",
			mcpgo.BrokenHost{Request: without("inputResponses", "answers")},
			"a middleware sees all"},
		{"nor does the state", mcpgo.BrokenHost{Request: without("requestState", "state")},
			"a middleware sees all"},
		{"arguments lose digits", mcpgo.BrokenHost{Request: without("9007199254740993",
			"9007199254740992")}, "a middleware sees all"},
		{"capabilities are not known",
			mcpgo.BrokenHost{Request: without(`{"elicitation":{"form":{}}}`, "{}")},
			"a middleware sees all"},
		{"the context is another", mcpgo.BrokenHost{Context: func(context.Context) context.Context { return context.Background() }}, "the context is not that of the request"},
		{"a result that asks is complete",
			mcpgo.BrokenHost{Response: saying("input_required", "complete")},
			"a middleware sees all"},
		{"a form is put in order", mcpgo.BrokenHost{Response: saying(`{"b":{"type":"string"},"a":{"type":"string"}}`, `{"a":{"type":"string"},"b":{"type":"string"}}`)}, "a middleware sees all"},
		{"errors have another text",
			mcpgo.BrokenHost{Response: saying("refused [rondo-marker]", "internal error")},
			"the text of a handler's error"},
		{"sessions do not remember",
			mcpgo.BrokenHost{Response: saying("2025-11-25 ?", "2025-03-26 ?")},
			"an older revision's calls"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := mcpgo.RunSelfTest(tc.host); err == nil ||
				!strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
