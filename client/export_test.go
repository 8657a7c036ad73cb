package client

// Waiting reports whether n calls wait for one negotiation.
func (c *Client) Waiting(n int) bool {
	c.negotiator.mu.Lock()
	defer c.negotiator.mu.Unlock()
	return c.negotiator.running != nil && c.negotiator.running.waiters == n
}
