package mcpgo

// CloseIdle closes the connections to other replicas.
func CloseIdle(d *Downstream) { d.forwarder.CloseIdle() }

// Connections returns how many connections an upstream has open.
func Connections(u *Upstream) int { return u.conns.Len() }
