package protocol

import "context"

// A Peer is the other end of a connection, as seen by a client. A server in the same process is
// one, and so is a transport that carries messages to a server elsewhere: neither side need know
// the other.
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
	// Notify delivers a notification that relates to the request. An error means that the sender
	// can no longer be reached.
	Notify(ctx context.Context, n *Notification) error
}

// A BackCaller is a [Back] that also takes requests. Servers of legacy revisions send them while a
// request runs, or at any other time in a session.
type BackCaller interface {
	Back
	// Call delivers a request and returns the response to it. Cancelling ctx abandons it. An error
	// means that there is no response to be sent, for example because the request was cancelled
	// with notifications/cancelled.
	//
	// Calls may overlap, but not without bound: beyond a number of its own that must be below
	// [MaxBackCalls], Call answers at once that it is busy.
	Call(ctx context.Context, req *Request) (*Response, error)
}

// MaxBackCalls is how many requests of a server a transport handles at the same time. When they are
// in flight it stops reading. A [BackCaller] has a lower limit, beyond which it answers at once, so
// the transport reads on as soon as such an answer is sent.
const MaxBackCalls = 200

// A LegacyPeer is a [Peer] that supports legacy revisions too. A Peer that does not implement it
// supports modern revisions only.
type LegacyPeer interface {
	Peer
	// Probe sends server/discover, a modern request, to find out which era the server speaks.
	// Legacy reports that the request was refused in the way in which servers of legacy revisions
	// refuse unknown requests, which depends on the transport. It may be true with a response or
	// with an error. If it is false, an error is a transport failure, as from Handle, and decides
	// nothing.
	Probe(ctx context.Context, req *Request) (resp *Response, legacy bool, err error)
	// OpenSession sends an initialize request and returns the response and, unless that is an
	// error, the session. Messages of the server that relate to no request are delivered to back,
	// notifications in order.
	OpenSession(
		ctx context.Context, initialize *Request, back BackCaller,
	) (LegacySession, *Response, error)
}

// A LegacySession is a session of a legacy revision, as seen by a client. Its Handle and Notify are
// those of [Peer] within the session. The caller sends notifications/initialized first.
//
// A request of the server that relates to a request of the client is delivered to the Back of that
// request if it is a [BackCaller]. All others are delivered to the Back of the session.
//
// Errors of a session that the server has ended wrap [ErrSessionGone]. Close ends the session, and
// tells the server if the transport has a way to. It does not close the peer that opened the
// session.
type LegacySession interface {
	Peer
	// Done returns a channel that is closed when the session has ended, whichever side ended it.
	Done() <-chan struct{}
	// Err returns why it has ended, nil while it has not.
	Err() error
}
