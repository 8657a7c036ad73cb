//lint:file-ignore SA1019 sampling and roots are deprecated, but supported, so they are tested

package gosdk_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

func TestMissingCapabilitiesAreRefused(t *testing.T) {
	sample := &mcp.CreateMessageWithToolsParams{MaxTokens: 1, Messages: []*mcp.SamplingMessageV2{},
		Tools: []*mcp.Tool{{Name: "x", InputSchema: raw(`{"type":"object"}`)}}}
	tests := []struct {
		name, declared string
		asked          mcp.InputRequestMap
		missing        string
	}{
		{"form, nothing declared", `{}`, mcp.InputRequestMap{"q": formQuestion()},
			`{"elicitation":{}}`},
		{"form, URLs only", `{"elicitation":{"url":{}}}`, mcp.InputRequestMap{"q": formQuestion()},
			`{"elicitation":{"form":{}}}`},
		{"URL, forms only", `{"elicitation":{"form":{}}}`,
			mcp.InputRequestMap{"q": &mcp.ElicitParams{Mode: "url", Message: "m",
				URL: "https://example.com"}}, `{"elicitation":{"url":{}}}`},
		{"tools, sampling only", `{"sampling":{}}`, mcp.InputRequestMap{"q": sample},
			`{"sampling":{"tools":{}}}`},
		{"all at once", `{}`, mcp.InputRequestMap{"a": formQuestion(), "b": &mcp.ListRootsParams{}},
			`{"elicitation":{},"roots":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := dialWire(t, single(t, asks(&mcp.CallToolResult{InputRequests: tt.asked})))
			w.capabilities = tt.declared
			got := w.call("t", "")
			got.wantError(protocol.CodeMissingRequiredClientCapability, http.StatusBadRequest)
			var data struct{ RequiredCapabilities json.RawMessage }
			if got.Error != nil {
				_ = json.Unmarshal(got.Error.Data, &data)
			}
			missing, err := protocol.DecodeClientCapabilities(data.RequiredCapabilities)
			if err != nil || missing.IsZero() {
				t.Errorf("got %s, want %s", got.body, tt.missing)
			}
		})
	}
}

// On an event stream the status must have been decided before it begins.
func TestMissingCapabilitiesOnAStream(t *testing.T) {
	endpoint, recorder := serve(t,
		handlerOf(t,
			single(t,
				asks(&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}})),
			nil))
	w := &wire{t: t, endpoint: endpoint, client: &http.Client{Transport: recorder},
		capabilities: "{}"}
	w.call("t", "").wantError(protocol.CodeMissingRequiredClientCapability, http.StatusBadRequest)
}
