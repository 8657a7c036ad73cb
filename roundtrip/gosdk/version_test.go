package gosdk_test

import (
	"context"
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
	key := first.onlyKey()
	answer := accepts(key)
	w.retry("t", first, answer).wantText("1 accept")
	version = "2"
	second := w.retry("t", first, answer)
	second.wantAsks(key)
	w.retry("t", second, answer).wantText("2 accept")
}
