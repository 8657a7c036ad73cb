package server

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
)

// An era implements the differences between requests of revision 2026-07-28 ([modernEra]) and of
// older revisions, which belong to a session ([*Session]). It is chosen once, in [Server.Admit] or
// [Session.Admit]; nothing else tests which era it is.
type era interface {
	// beginRequest is called before the middleware, endRequest after the response, with the id at
	// admission. In between a session's client can cancel the request by its id.
	beginRequest(a *Admission)
	endRequest(a *Admission, id protocol.ID)
	// isAbandoned reports whether the client no longer wants a response.
	isAbandoned(a *Admission) bool
	// newPusher returns nil where questions are returned instead or cannot be sent.
	newPusher(request *Request) *pusher
	sessionKey() any // identifies the session to the funnel; nil: no session
	// answerOwnMethod answers the methods of this era, and reports false for others.
	answerOwnMethod(ctx context.Context, request *Request) (protocol.Result, error, bool)
	// logLevel returns the least severe level that the client wants, empty for none.
	logLevel(meta *protocol.RequestMeta) protocol.LoggingLevel
	// hasParamHeaders reports whether headers must mirror arguments. If sent, they must agree.
	hasParamHeaders() bool
	refuseCapabilities(missing protocol.ClientCapabilities) error
	// refuseTool returns the outcome of a call whose tool the client cannot use.
	refuseTool(err error) (protocol.Result, error)
	// namesServer reports whether results carry the server's name in _meta.
	namesServer() bool
	// sendNow sends an unrelated message after the response, or fails with ErrEnded.
	sendNow(ctx context.Context, m protocol.Message) error
	// spellError converts an error, which may be nil, for the wire of this era.
	spellError(ctx context.Context, request *Request, e *protocol.Error) *protocol.Error
	// revertFailedOpen is called at the end of each request; err is nil on success. An initialize
	// opens its session on admission, so that requests may follow at once; if it fails, the session
	// becomes unopened and the client may send another.
	revertFailedOpen(request *Request, err error)
}

var (
	_ era = modernEra{}
	_ era = (*Session)(nil)
)
