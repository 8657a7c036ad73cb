package client

import (
	"context"
	"slices"

	"github.com/rondo-mcp/rondo/protocol"
)

// sendAgreed sends one leg, and once more under a new id when the server
// refuses its version and in the same breath names one that this client speaks
// (basic/versioning). A refusal comes before anything is done, so nothing is
// done twice.
func (c *Client) sendAgreed(ctx context.Context, l leg, mirrored []protocol.MirroredParam) (protocol.Result, error) {
	result, err := c.send(ctx, l, mirrored)
	if said, ok := protocol.AsError(err); ok && slices.Contains(said.SupportedVersions(), c.version) {
		return c.send(ctx, l, mirrored)
	}
	return result, err
}
