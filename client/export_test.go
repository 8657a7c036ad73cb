package client

// Errors that callers do not tell apart, and tests do.
var (
	ErrUndeclared        = errUndeclared
	ErrSubscriptionEnded = errSubscriptionEnded
	ErrMessageTooLong    = errMessageTooLong
	ErrOverrun           = errOverrun
)

// Waiting reports whether n calls wait for one negotiation.
func (c *Client) Waiting(n int) bool {
	c.negotiator.mu.Lock()
	defer c.negotiator.mu.Unlock()
	return c.negotiator.running != nil && c.negotiator.running.waiters == n
}
