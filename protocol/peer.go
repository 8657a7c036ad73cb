package protocol

import "context"

// A Peer is the other end of a client's connection: a server in-process or a transport to one.
//
// All methods may be called concurrently.
type Peer interface {
	// Handle sends a request and returns its response. Related notifications are delivered to back,
	// which may be nil, in order before Handle returns. Cancelling ctx abandons the request. An
	// error means that no response was received; an error of the peer is in the response.
	Handle(ctx context.Context, req *Request, back Back) (*Response, error)
	// Notify sends a notification.
	Notify(ctx context.Context, n *Notification) error
	// Close ends the connection and abandons requests in flight.
	Close() error
}

// Back delivers messages to the sender of a request in flight. Calls may overlap.
type Back interface {
	// Notify delivers a related notification. An error means that the sender is unreachable.
	Notify(ctx context.Context, n *Notification) error
}

// A BackCaller is a [Back] that also takes requests, which legacy servers send during a request or
// at any other time in a session.
type BackCaller interface {
	Back
	// Call delivers a request and returns its response. Cancelling ctx abandons it. An error means
	// that there is no response to send, for example after notifications/cancelled.
	//
	// Calls may overlap up to a limit of the implementation, below [MaxBackCalls]; beyond it, Call
	// answers at once that it is busy.
	Call(ctx context.Context, req *Request) (*Response, error)
}

// MaxBackCalls is the number of server requests in flight at which a transport stops reading. The
// limit of a [BackCaller] is lower and refuses at once, so that the transport reads on.
const MaxBackCalls = 200

// A LegacyPeer is a [Peer] that also supports legacy revisions.
type LegacyPeer interface {
	Peer
	// Probe sends server/discover, a modern request, to find out the server's era. If legacy is
	// true, the request was refused in the way of legacy servers with unknown requests, which
	// depends on the transport; resp or err may be set. If not, err is a transport failure.
	Probe(ctx context.Context, req *Request) (resp *Response, legacy bool, err error)
	// OpenSession sends an initialize request and returns the response and, unless that is an
	// error, the session. Server messages that relate to no request go to back in order.
	OpenSession(
		ctx context.Context, initialize *Request, back BackCaller,
	) (LegacySession, *Response, error)
}

// A LegacySession is a client's session in a legacy revision. Handle and Notify are as in [Peer],
// within the session. The caller sends notifications/initialized first.
//
// A server request that relates to a client request is delivered to the Back of that request if it
// is a [BackCaller], otherwise to the Back of the session.
//
// Once the server has ended the session, errors wrap [ErrSessionGone]. Close ends the session, and
// notifies the server if the transport can; it does not close the peer.
type LegacySession interface {
	Peer
	// Done returns a channel that is closed when either side has ended the session.
	Done() <-chan struct{}
	// Err returns the reason for the end, or nil before it.
	Err() error
}
