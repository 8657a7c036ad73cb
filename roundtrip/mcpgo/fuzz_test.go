package mcpgo_test

import (
	"bytes"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// FuzzStrict: whatever comes, a message passes, is cleaned for good, or is
// refused.
func FuzzStrict(f *testing.F) {
	seeds := []string{
		typed.message(),
		request{method: protocol.MethodReadResource, target: "vault://codes", more: `,"RequestState":"x","inputResponses":{}`}.message(),
		request{method: protocol.MethodGetPrompt, target: "brief", outer: `,"Params":{},"METHOD":1`}.message(),
		request{method: protocol.MethodCallTool, target: "x", more: `,"requestState":1`}.message(),
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, `[]`, `{"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
	}
	for _, seed := range seeds {
		if seed == "" {
			f.Fatal("an empty seed")
		}
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, message []byte, modern bool) {
		clean, id, refused := mcpgo.Strict(bytes.Clone(message), modern)
		if refused != nil {
			if clean != nil || len(id) == 0 {
				t.Errorf("refused with clean %q and id %q", clean, id)
			}
			return
		}
		again, _, refused := mcpgo.Strict(bytes.Clone(clean), modern)
		if refused != nil || !bytes.Equal(again, clean) {
			t.Errorf("%q became %q, then %q, %v", message, clean, again, refused)
		}
	})
}
