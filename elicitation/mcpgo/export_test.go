package mcpgo

// CloseIdle closes the connections to other replicas.
func CloseIdle(d *Downstream) { d.forwarder.CloseIdle() }
