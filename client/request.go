package client

import (
	"context"
	"slices"

	"github.com/rondo-mcp/rondo/protocol"
)

// sendAgreed sends one leg over what has been agreed on, and once more under a
// new id when the server refuses its version and in the same breath names one
// that this client speaks (basic/versioning), or turns out to speak another era
// than it did. A refusal comes before anything is done, so nothing is done
// twice.
func (c *Client) sendNegotiated(ctx context.Context, l leg, mirrored []protocol.MirroredParam) (protocol.Result, error) {
	conn, err := c.negotiator.connect(ctx)
	if err != nil {
		return nil, err
	}
	if empty := c.undeclaredList(ctx, conn, l.method); empty != nil {
		return empty, nil
	}
	result, err := c.sendOverConnection(ctx, conn, l, mirrored)
	if empty := c.unknownList(ctx, conn, l.method, err); empty != nil {
		return empty, nil
	}
	return result, err
}

// sendTo sends one leg over a connection, and once more where that is due.
func (c *Client) sendOverConnection(ctx context.Context, conn *connection, l leg, mirrored []protocol.MirroredParam) (protocol.Result, error) {
	result, err := c.sendOnce(ctx, conn, l, mirrored)
	if said, ok := protocol.AsError(err); ok && slices.Contains(said.SupportedVersions(), conn.version) {
		return c.sendOnce(ctx, conn, l, mirrored)
	}
	if other := c.negotiator.recheckEra(ctx, conn, err); other != nil && l.subscription == nil {
		if empty := c.undeclaredList(ctx, other, l.method); empty != nil {
			return empty, nil
		}
		return c.sendOnce(ctx, other, l, nil)
	}
	return result, err
}
