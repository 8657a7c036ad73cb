package gosdk_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// TestFlowVersionInHandlers: what the adapter looks up before a handler runs does
// not keep the handler from choosing its version.
func TestFlowVersionInHandlers(t *testing.T) {
	version := "1"
	w := dialWire(t, single(t, func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult,
		error) {
		if err := roundtrip.FlowVersion(ctx, version); err != nil {
			return nil, err
		}
		answer, err := gosdk.Elicit(ctx, req.Session, formQuestion())
		if err != nil {
			return nil, err
		}
		return toolText(version + " " + answer.Action), nil
	}))
	first := w.call("t", "")
	var asked map[string]json.RawMessage
	if err := json.Unmarshal(first.member("inputRequests"), &asked); err != nil || len(asked) != 1 {
		t.Fatalf("got %s, %v, want one question", first.body, err)
	}
	key := slices.Collect(maps.Keys(asked))[0]
	answer := `{"` + key + `":{"action":"accept","content":{"reason":"because"}}}`
	w.retry("t", first, answer).wantText("1 accept")
	version = "2"
	second := w.retry("t", first, answer)
	second.wantAsks(key)
	w.retry("t", second, answer).wantText("2 accept")
}
