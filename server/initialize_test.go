package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestMalformedInitialize: the error names the member as the client spelled it.
func TestMalformedInitialize(t *testing.T) {
	const version, meta = `"protocolVersion":"2025-11-25"`, `"_meta":{"io.modelcontextprotocol/`
	for _, tc := range []struct{ params, names string }{
		{`{}`, "protocolVersion: "},
		{`{"protocolVersion":5,"capabilities":{}}`, "protocolVersion: "},
		{`{` + version + `,"capabilities":null}`, "capabilities: "},
		{`{` + version + `,"capabilities":[]}`, "capabilities: "},
		{`{` + version + `,"capabilities":{"elicitation":true}}`, "capabilities: elicitation: "},
		{`{` + version + `,"capabilities":{"sampling":{"tools":1}}}`, "capabilities: sampling: tools: "},
		{`{` + version + `,"capabilities":{"roots":{"listChanged":"yes"}}}`, "capabilities: roots: listChanged: "},
		{`{` + version + `,"clientInfo":"c"}`, "clientInfo: "},
		{`{` + version + `,"clientInfo":{"name":5}}`, "clientInfo: name: "},
		{`{` + version + `,` + meta + `clientCapabilities":5}}`, "_meta: io.modelcontextprotocol/clientCapabilities: "},
		{`{` + version + `,` + meta + `clientInfo":5}}`, "_meta: io.modelcontextprotocol/clientInfo: "},
	} {
		x := newHarness(t, nil).NewSession(roundtrip.Local(), nil)
		in := x.Admit(&protocol.Request{ID: protocol.IntID(1), Method: protocol.MethodInitialize, Params: json.RawMessage(tc.params)})
		e := in.Refusal()
		if e == nil || e.Code != protocol.CodeInvalidParams || !strings.HasPrefix(e.Message, "invalid params: "+tc.names) || x.Version() != "" {
			t.Errorf("%s: got %v, session in %q, want an error that begins with %q", tc.params, e, x.Version(), tc.names)
		}
	}
}
