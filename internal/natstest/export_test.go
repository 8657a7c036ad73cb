package natstest

// PeekPort returns the port that is given to the next server.
func PeekPort() int { return firstPort + portOrder[portsGiven.Load()%portCount] }
