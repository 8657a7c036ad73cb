package mcpgo_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestAllMissingCapabilitiesAreNamed: one error names everything, before anything is asked.
func TestAllMissingCapabilitiesAreNamed(t *testing.T) {
	add := func(s *server.MCPServer) {
		s.AddTool(mcp.NewTool("all"),
			func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcpgo.ToolInput(confirm.Elicit("?"), mcpgo.Question("go", visit("Go?")),
					mcpgo.SamplingQuestion("model", sampling())), nil
			})
	}
	over(t, nil, add, func(t *testing.T, send sender) {
		got := send(request{method: protocol.MethodCallTool, target: "all",
			capabilities: `{}`}.message())
		var data struct {
			RequiredCapabilities json.RawMessage `json:"requiredCapabilities"`
		}
		if err := json.Unmarshal(got.Error.Data, &data); err != nil {
			t.Fatalf("%v: %s", err, got.body)
		}
		if want := `{"elicitation":{"form":{},"url":{}},"sampling":{}}`; string(data.RequiredCapabilities) != want {
			t.Errorf("required %s, want %s", data.RequiredCapabilities, want)
		}
	})
}
