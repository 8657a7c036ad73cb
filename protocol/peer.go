package protocol

import "context"

// A Peer is the other end of a connection, as seen by a client. A server in
// the same process is one, and so is a transport that carries messages to a
// server elsewhere: neither side need know the other.
//
// All methods may be called concurrently.
type Peer interface {
	// Handle delivers a request and returns the response to it. While the
	// request runs, whatever the peer says about it goes to back, in order,
	// before Handle returns; back may be nil. Cancelling ctx abandons the
	// request. An error means that no response was received; what the peer
	// says is always in the response.
	Handle(ctx context.Context, req *Request, back Back) (*Response, error)
	// Notify delivers a notification.
	Notify(ctx context.Context, n *Notification) error
	// Close ends the connection. Requests that are running are abandoned.
	Close() error
}

// Back is the way back to the sender of a request while that request runs.
// Calls may overlap.
type Back interface {
	// Notify delivers a notification that relates to the request. An error
	// means that the sender can no longer be reached.
	Notify(ctx context.Context, n *Notification) error
}
