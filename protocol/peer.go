package protocol

import "context"

// A Peer is the other end of a connection, as seen by a client. A server in
// the same process is one, and so is a transport that carries messages to a
// server elsewhere: neither side need know the other.
//
// All methods may be called concurrently.
type Peer interface {
	// Handle sends a request and returns the response to it. Notifications that relate to the
	// request are delivered to back in order, before Handle returns; back may be nil. Cancelling
	// ctx abandons the request. An error means that no response was received; an error of the peer
	// is in the response.
	Handle(ctx context.Context, req *Request, back Back) (*Response, error)
	// Notify sends a notification.
	Notify(ctx context.Context, n *Notification) error
	// Close ends the connection. Requests that are running are abandoned.
	Close() error
}

// Back delivers messages to the sender of a request while that request runs. Calls may overlap.
type Back interface {
	// Notify delivers a notification that relates to the request. An error
	// means that the sender can no longer be reached.
	Notify(ctx context.Context, n *Notification) error
}
