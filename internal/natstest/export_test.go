package natstest

// TakenSoon is the port that is taken next.
func TakenSoon() int { return firstPort + portOrder[portsGiven.Load()%portCount] }
