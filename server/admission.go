package server

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A Delivery is the request metadata that a transport supplies to a [Server] or a [Session].
// Middleware sees it in the fields of the [Request].
type Delivery struct {
	// Principal sends the request; the zero value is an anonymous client. A [Session] uses its own
	// instead.
	Principal protocol.Principal
	// Access is what the request may do. Nil: nothing that has scopes. Transports whose
	// callers are local set [UnlimitedAccess].
	Access *Access
	// RequestID names the request in events and logs, and must be safe to log.
	// Empty: a server that has an observer makes one up.
	RequestID string
	// RemoteAddr is the address that the transport knows, maybe that of a proxy; empty on other
	// transports.
	RemoteAddr string
	// TraceParent is the header of that name (W3C Trace Context), if any; that of _meta is in
	// [Request].Meta.
	TraceParent string
	// Credential is the value of the header Authorization, Cookie or X-Api-Key, the first that is
	// present. It is used only to mask it in logs.
	Credential string
	// Back is the way back to the client while the request runs. Nil: none. In a session whose
	// client can be asked it is a [BackSender].
	Back protocol.Back
	// Panicked is called when code outside of handlers and middleware panics, such as an observer:
	// after the observer and before the request is answered with an internal error. Its own panic
	// goes to the caller of [Server.Serve], for transports that give some values a meaning. May be
	// nil.
	Panicked func(ctx context.Context, p event.HandlerPanicked)
	// Private keeps lists out of shared caches. Transports that authenticate set it.
	Private bool
}

// An Admission is a request that [Server.Admit], [Session.Admit] or [Server.AdmitStateless] has
// admitted, and [Server.Serve] uses up. It must not be used concurrently.
type Admission struct { // all that a request needs until its response, in one allocation
	request  Request
	panicked func(ctx context.Context, p event.HandlerPanicked)
	task     inflight.Request // in the set of the server, and maybe in that of a session
	channel  requestChannel
	response protocol.Response
	served   bool
	// inSession means that task is in the set of the session, too.
	inSession bool
	// unfollow is set for a request of a session with the id of another. It is not in the session's
	// set and follows the end of the session by itself.
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

// Request returns the request as middleware will see it. A transport may refuse it, see
// [Request.Refuse].
func (a *Admission) Request() *Request { return &a.request }

// ReplaceRefusal refuses the request with e in place of an earlier refusal: for transports whose
// headers contradict the message, so that no fault of the message counts.
func (a *Admission) ReplaceRefusal(e *protocol.Error) { a.request.refusal = e }

// CheckParamHeaders compares the Mcp-Param-* headers of a tools/call with the arguments
// (basic/transports/streamable-http, "Server Behavior for Custom Headers"). lines has the values of
// a header by its name, as an http.Header does. The error names the header that is missing,
// repeated, malformed or does not match. In a session, whose revision does not have them, none is
// missing. Transports without headers need not call it.
func (a *Admission) CheckParamHeaders(lines headerLines) error {
	request := &a.request
	p, ok := request.Params.(*protocol.CallToolParams)
	if !ok {
		return nil
	}
	t, ok := find(request.server, request, KindTool, toolsOf, p.Name)
	if !ok {
		// The call will be refused, with the same words either way, unless middleware names the
		// tool's catalog.
		request.paramHeaders = lines
		return nil
	}
	return request.checkParamHeaders(t.headers, p.Arguments, lines)
}

// headerLines are the headers of a request. Unlike a function it costs no allocation to pass.
type headerLines interface{ Values(name string) []string }

func (request *Request) checkParamHeaders(
	mirrored rules.Mirrors, arguments json.RawMessage, lines headerLines,
) error {
	if request.era.hasParamHeaders() {
		return mirrored.Check(arguments, lines.Values)
	}
	return mirrored.CheckGiven(arguments, lines.Values)
}

// Abandoned reports whether the client cancelled the request of a session with
// notifications/cancelled: its response must not be sent.
func (a *Admission) Abandoned() bool { return a.request.era.isAbandoned(a) }
