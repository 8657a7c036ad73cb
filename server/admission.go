package server

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/wire/headers"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A Delivery is what a transport knows about a request that it hands to a
// [Server] or a [Session]. Middleware sees it in the fields of the [Request].
type Delivery struct {
	// Principal is who sends the request; the zero value is an anonymous client.
	// A [Session] has its own and passes over this one.
	Principal protocol.Principal
	// Access is what the request may do. Nil: nothing that has scopes. Transports whose
	// callers are local set [UnlimitedAccess].
	Access *Access
	// RequestID names the request in events and logs, and must be safe to log.
	// Empty: a server that has an observer makes one up.
	RequestID string
	// RemoteAddr is the address that the request came from, as the transport
	// knows it, which may be that of a proxy; empty on other transports.
	RemoteAddr string
	// TraceParent is the header of that name (W3C Trace Context), if there was
	// one; what _meta says is in [Request].Meta.
	TraceParent string
	// Credential is what the caller authenticated with: the value of the header
	// Authorization, Cookie or X-Api-Key, the first there is. It is kept so that
	// it can be kept out of logs; nothing else reads it.
	Credential string
	// Back is the way back to the client while the request runs. Nil: none. In a
	// session it is a [BackSender] where the client can be asked.
	Back protocol.Back
	// Panicked is told of a panic outside of handlers and middleware, of an observer for example,
	// beside the observer and before the request is answered with an internal error. It may panic
	// itself, which goes on to the caller of [Server.Serve], for transports to which some values
	// mean something. Nil: nobody.
	Panicked func(ctx context.Context, p event.HandlerPanicked)
	// Private keeps lists out of caches that several users share. Transports
	// that authenticate set it.
	Private bool
}

// An Admission is a request that a transport has handed in: made by [Server.Admit], [Session.Admit]
// or [Server.AdmitStateless], and used up by [Server.Serve]. One goroutine at a time uses it.
type Admission struct { // all that a request needs until its response, in one allocation
	request  Request
	panicked func(ctx context.Context, p event.HandlerPanicked)
	task     inflight.Request // in the set of the server, and maybe in that of a session
	channel  requestChannel
	response protocol.Response
	served   bool
	// inSession means that task is in the set of the session, too.
	inSession bool
	// unfollow is set for a request of a session that has the id of another: it is
	// not in the session's set and follows the end of the session by itself.
	unfollow func() bool
}

// newAdmission returns the admission of message, which may be nil, to be served by s.
func newAdmission(s *Server, e era, message *protocol.Request, d *Delivery) *Admission {
	a := &Admission{panicked: d.Panicked}
	request := &a.request
	request.server, request.era, request.Message = s, e, message
	request.Principal, request.Access, request.RequestID = d.Principal, d.Access, d.RequestID
	request.RemoteAddr = d.RemoteAddr
	request.TraceParent, request.Credential = d.TraceParent, d.Credential
	request.back, request.private = d.Back, d.Private
	if message == nil {
		request.Message = &protocol.Request{}
		request.Refuse(protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: nil"))
	}
	return a
}

// NamesTarget reports whether the header Mcp-Name must repeat the target of the request
// (basic/transports/streamable-http, "Request Metadata").
func (a *Admission) NamesTarget() bool {
	method := a.request.Message.Method
	if protocol.MultiRoundTrip(method) {
		return true
	}
	m := a.request.server.extensionMethod(method)
	return m != nil && m.Target != ""
}

// Request returns the request as middleware will see it. A transport may refuse
// it, see [Request.Refuse].
func (a *Admission) Request() *Request { return &a.request }

// ReplaceRefusal refuses the request with e in place of what it was refused with before. That is
// for transports that say by other means than the message, as HTTP does by headers, what the
// message is: where they contradict it, nothing that was found in it counts.
func (a *Admission) ReplaceRefusal(e *protocol.Error) { a.request.refusal = e }

// CheckParamHeaders holds the Mcp-Param-* headers of a tools/call against the arguments
// (basic/transports/streamable-http, "Server Behavior for Custom Headers"). lines has the values of
// a header by its name, as an http.Header does. The error names the header that is missing,
// repeated, malformed or does not match. None is missing in a session, whose revision does not have
// them. Transports without headers need not call it.
func (a *Admission) CheckParamHeaders(lines headerLines) error {
	request := &a.request
	p, ok := request.Params.(*protocol.CallToolParams)
	if !ok {
		return nil
	}
	t, ok := find(request.server, request, KindTool, toolsOf, p.Name)
	if !ok {
		// The call will be refused, in words that are the same for both, unless middleware
		// names the tool's catalog.
		request.paramHeaders = lines
		return nil
	}
	return request.checkParamHeaders(t.headers, p.Arguments, lines)
}

// headerLines are the headers of a request. What is no function costs no memory to pass.
type headerLines interface{ Values(name string) []string }

func (request *Request) checkParamHeaders(
	mirrored headers.Table, arguments json.RawMessage, lines headerLines,
) error {
	if request.era.hasParamHeaders() {
		return mirrored.Check(arguments, lines.Values)
	}
	return mirrored.CheckGiven(arguments, lines.Values)
}

// Abandoned reports whether the client cancelled the request, which runs or ran
// in a session, with notifications/cancelled: its response must not be sent.
func (a *Admission) Abandoned() bool { return a.request.era.isAbandoned(a) }
