package mcpgo

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// refuseModern is the hook that refuses requests of revision 2026-07-28, server/discover among
// them, with the revisions that have sessions: clients take that as the answer of an older server
// and initialize. mcp-go sends the text alone, with the code of an invalid request, which makes
// clients fall back as well; [Downstream.Handler] and [Downstream.Listen] send the whole error.
func (d *Downstream) refuseModern(ctx context.Context, id, message any) error {
	data, _ := message.(json.RawMessage)
	var request struct {
		Method mcp.MCPMethod
		Params struct {
			Meta *mcp.Meta `json:"_meta"`
		}
	}
	// mcp-go reads the revision of a request in the same way.
	if json.Unmarshal(data, &request) != nil {
		return nil // it says what it cannot read
	}
	requested := request.Params.Meta.ProtocolVersion()
	if !mcp.IsModernProtocol(requested) {
		return nil
	}
	var supported []protocol.Version
	for _, v := range mcp.ValidProtocolVersions {
		if !mcp.IsModernProtocol(v) {
			supported = append(supported, protocol.Version(v))
		}
	}
	wire := protocol.UnsupportedVersion(requested, supported)
	d.recordRefusal(ctx, id, request.Method, nil, &upstreamError{wire: wire, cause: nil})
	return wire
}
