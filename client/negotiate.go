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
func (c *Client) sendAgreed(ctx context.Context, l leg, mirrored []protocol.MirroredParam) (protocol.Result, error) {
	conn, err := c.connection(ctx)
	if err != nil {
		return nil, err
	}
	if empty := c.emptyList(ctx, conn, l.method); empty != nil {
		return empty, nil
	}
	result, err := c.sendTo(ctx, conn, l, mirrored)
	if empty := c.refusedList(ctx, conn, l.method, err); empty != nil {
		return empty, nil
	}
	return result, err
}

// sendTo sends one leg over a connection, and once more where that is due.
func (c *Client) sendTo(ctx context.Context, conn *connection, l leg, mirrored []protocol.MirroredParam) (protocol.Result, error) {
	result, err := c.send(ctx, conn, l, mirrored)
	if said, ok := protocol.AsError(err); ok && slices.Contains(said.SupportedVersions(), conn.version) {
		return c.send(ctx, conn, l, mirrored)
	}
	if other := c.doubt(ctx, conn, err); other != nil && l.sub == nil {
		if empty := c.emptyList(ctx, other, l.method); empty != nil {
			return empty, nil
		}
		return c.send(ctx, other, l, nil)
	}
	return result, err
}
