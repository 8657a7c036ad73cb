package server

// Running returns how many requests of a session are being served.
func Running(x *Session) int { return x.requests.Len() }
