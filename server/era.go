package server

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
)

// An era is what differs between requests of revision 2026-07-28, which stand for themselves
// ([modernEra]), and requests of older revisions, which belong to a session ([*Session]). It is
// chosen once, when a request is admitted: by the transport, which calls [Server.Admit] or
// [Session.Admit]. Everything else asks the era and never tests which one it is.
type era interface {
	// beginRequest is called before the middleware, endRequest after the response has
	// been made, with the id that the request began with. A session remembers the
	// request between the two, so that the client can cancel it by its id.
	beginRequest(a *Admission)
	endRequest(a *Admission, id protocol.ID)
	// isAbandoned reports whether the client wants no response any more.
	isAbandoned(a *Admission) bool
	// newPusher returns what asks the client while the request runs, nil where
	// questions are returned instead or there is no way to send one.
	newPusher(request *Request) *pusher
	// sessionKey names the session to the funnel, nil: there is none.
	sessionKey() any
	// answerOwnMethod answers the methods that this era alone has. It reports false for others.
	answerOwnMethod(ctx context.Context, request *Request) (protocol.Result, error, bool)
	// logLevel returns the least severe level that the client wants, empty for none.
	logLevel(meta *protocol.RequestMeta) protocol.LoggingLevel
	// hasParamHeaders reports whether arguments must be mirrored into headers. Where they
	// need not be, those that are there must agree all the same.
	hasParamHeaders() bool
	// refuseCapabilities returns the error for a client that lacks capabilities.
	refuseCapabilities(missing protocol.ClientCapabilities) error
	// refuseTool returns the answer to a call whose tool the client cannot use.
	refuseTool(err error) (protocol.Result, error)
	// namesServer reports whether results carry the name of the server in _meta.
	namesServer() bool
	// sendNow sends a message that relates to no request, to the client of a request
	// that has been answered. It fails with ErrEnded where there is no way to.
	sendNow(ctx context.Context, m protocol.Message) error
	// spellError returns an error as this era has it on the wire. e may be nil.
	spellError(ctx context.Context, request *Request, e *protocol.Error) *protocol.Error
	// revertFailedOpen is told how each request ended, err is nil where it went well. An
	// initialize opens its session when it is admitted, before it is answered, so that
	// requests may follow at once; where it failed the session is as unopened as before,
	// and the client may send another initialize.
	revertFailedOpen(request *Request, err error)
}

var (
	_ era = modernEra{}
	_ era = (*Session)(nil)
)
