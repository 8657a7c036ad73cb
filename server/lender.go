package server

// A BufferLender is a way back to the client ([Incoming].Back) that has memory
// for the result, from which the transport can send it as it is. The response
// may then alias that memory, or memory that is shared between requests, and
// must not be changed.
type BufferLender interface {
	// Lend returns what the result is appended to. It is called at most once
	// a request, when its handler has returned.
	Lend() []byte
	// Return is handed what was lent, grown maybe, with the result behind it.
	// It is not called when there is no result.
	Return(buf []byte)
}
