package server

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A Delivery is the request metadata that a transport supplies to a [Server] or [Session].
// Middleware sees it in the fields of the [Request].
type Delivery struct {
	// Principal sends the request; zero is anonymous. A [Session] uses its own instead.
	Principal protocol.Principal
	// Access has the request's permissions; nil has no scopes, [UnlimitedAccess] is for local use.
	Access *Access
	// RequestID names the request in events and logs; it must be safe to log. Empty means random.
	RequestID string
	// RemoteAddr is the address of the connection, maybe a proxy's; empty if there is none.
	RemoteAddr string
	// TraceParent is the header (W3C Trace Context), if any; the one in _meta is in [Request].Meta.
	TraceParent string
	// Credential is the first of Authorization, Cookie and X-Api-Key, used only to mask it in logs.
	Credential string
	// Back sends messages to the client while the request runs. Nil means that nothing can be sent.
	// In a session whose client can be asked it is a [BackSender].
	Back protocol.Back
	// Panicked is called when code outside handlers and middleware, such as an observer, panics:
	// after the observer and before the internal error is returned. A panic of Panicked reaches the
	// caller of [Server.Serve], for transports that give some values a meaning. May be nil.
	Panicked func(ctx context.Context, p event.HandlerPanicked)
	Private  bool // keeps lists out of shared caches; transports that authenticate set it
}

// An Admission is a request admitted by [Server.Admit], [Session.Admit] or [Server.AdmitStateless],
// to be served once by [Server.Serve]. It must not be used concurrently.
type Admission struct { // all that a request needs until its response, in one allocation
	request   Request
	panicked  func(ctx context.Context, p event.HandlerPanicked)
	task      inflight.Request // in the server's set, and maybe in a session's
	channel   requestChannel
	response  protocol.Response
	served    bool
	inSession bool // task is also in the set of the session
	// unfollow is set if the id of a session's request is taken: the request is not in the
	// session's set and ends with the session by itself.
	unfollow func() bool
}

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

// Request returns the request as middleware will see it; transports may [Request.Refuse] it.
func (a *Admission) Request() *Request { return &a.request }

// ReplaceRefusal replaces an earlier refusal with e: for headers that contradict the message.
func (a *Admission) ReplaceRefusal(e *protocol.Error) { a.request.refusal = e }

// CheckParamHeaders compares the Mcp-Param-* headers of a tools/call with the arguments
// (basic/transports/streamable-http, "Server Behavior for Custom Headers"). lines returns the
// values of a header, as http.Header does. The error names the header that is missing, repeated,
// malformed or different. In sessions, whose revisions lack these headers, none is missing.
func (a *Admission) CheckParamHeaders(lines headerLines) error {
	request := &a.request
	p, ok := request.Params.(*protocol.CallToolParams)
	if !ok {
		return nil
	}
	t, ok := find(request.server, request, KindTool, toolsOf, p.Name)
	if !ok {
		// Unknown so far: the call is refused later unless middleware names the tool's catalog.
		request.paramHeaders = lines
		return nil
	}
	return request.checkParamHeaders(t.headers, p.Arguments, lines)
}

// headerLines are the headers of a request: an interface, because a function would allocate.
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
