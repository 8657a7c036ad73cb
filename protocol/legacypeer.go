package protocol

import (
	"context"
	"errors"
)

// ErrSessionGone is within the errors of a [LegacySession] that the server no
// longer knows: it has expired, or the server was started anew. Nothing of it
// can be had back; what is to go on needs a new session.
var ErrSessionGone = errors.New("session is gone")

// A BackCaller is a [Back] that also takes requests. Servers of legacy
// revisions send them while a request runs, or at any other time in a session.
type BackCaller interface {
	Back
	// Call delivers a request and returns the response to it. Cancelling ctx
	// abandons it. An error means that there is no response to be sent, for
	// example because the request was cancelled with notifications/cancelled.
	//
	// Calls may overlap, but not without bound: beyond a number of its own
	// that must be below [MaxBackCalls], Call answers at once that it is busy.
	Call(ctx context.Context, req *Request) (*Response, error)
}

// MaxBackCalls is how many requests of a server a transport handles at the same
// time. It stops reading then, and since a [BackCaller] answers at once beyond a
// lower number, only until answers have been sent.
const MaxBackCalls = 64

// A LegacyPeer is a [Peer] over which legacy revisions can be spoken too. A peer
// that is none speaks modern revisions only.
type LegacyPeer interface {
	Peer
	// Probe delivers a modern request, server/discover, to find out what the
	// server speaks. Legacy reports that it was refused as servers of legacy
	// revisions refuse what they do not know: what that looks like depends on
	// the transport. It may be true with a response and with an error; when it
	// is false an error is what it is to Handle, and says nothing about the
	// server.
	Probe(ctx context.Context, req *Request) (resp *Response, legacy bool, err error)
	// OpenSession delivers an initialize request and returns the response and,
	// unless that is an error, the session. What the server sends in the
	// session outside of any request goes to back, notifications in order.
	OpenSession(ctx context.Context, initialize *Request, back BackCaller) (LegacySession, *Response, error)
}

// A LegacySession is a session of a legacy revision, as seen by a client. Its
// Handle and Notify are those of [Peer] within the session. Where the server
// tells which request its own requests relate to, they go to the back of that
// request if it is a [BackCaller]; all others go to the back of the session. The
// caller sends notifications/initialized first.
//
// Errors of a session that the server has ended are [ErrSessionGone]. Close ends
// the session, and tells the server where the transport has a way to; it
// leaves the peer that it was opened on alone.
type LegacySession interface {
	Peer
	// Done returns a channel that is closed when the session has ended, by
	// whoever ended it.
	Done() <-chan struct{}
	// Err returns why it has ended, nil while it has not.
	Err() error
}

// EraEvidence reports whether e is an error that servers of modern revisions
// alone send, which identifies one (basic/versioning, "Backward
// Compatibility"). Numbers that drafts had for the same errors prove nothing:
// other servers use them for other things.
func (e *Error) EraEvidence() bool {
	if e == nil {
		return false
	}
	switch e.Code {
	case CodeHeaderMismatch, CodeMissingRequiredClientCapability, CodeUnsupportedProtocolVersion:
		return true
	}
	return false
}
