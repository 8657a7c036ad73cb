package client

// Waiting reports whether n calls wait for one negotiation.
func (c *Client) Waiting(n int) bool {
	c.nego.mu.Lock()
	defer c.nego.mu.Unlock()
	return c.nego.running != nil && c.nego.running.waiting == n
}
