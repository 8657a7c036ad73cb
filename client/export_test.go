package client

import (
	"errors"

	"github.com/rondo-mcp/rondo/protocol"
)

var (
	ErrUndeclared        error = &undeclaredError{}
	ErrSubscriptionEnded       = errSubscriptionEnded
	ErrMessageTooLong          = errMessageTooLong
	ErrOverrun                 = errOverrun
)

func IsUndeclared(err error) bool {
	_, undeclared := errors.AsType[*undeclaredError](err)
	return undeclared
}

// Waiting reports whether n calls are waiting for one negotiation.
func (c *Client) Waiting(n int) bool {
	c.negotiator.mu.Lock()
	defer c.negotiator.mu.Unlock()
	return c.negotiator.running != nil && c.negotiator.running.waiters == n
}

// Negotiated returns the revision of the connection, or "".
func (c *Client) Negotiated() protocol.Version {
	conn := c.negotiator.current.Load()
	if conn == nil {
		return ""
	}
	return conn.version
}

func (p *Pending) Round() int { return p.loadCall().round }
