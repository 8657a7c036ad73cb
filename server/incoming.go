package server

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/inflight"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A Handler answers one request. What it returns goes to the client: an
// [*protocol.Error] as it is, any other error as an internal error whose text
// stays with the observer.
type Handler func(ctx context.Context, in *Incoming) (protocol.Result, error)

// A Middleware wraps the handling of every request: refusals (see
// [Incoming.Refusal]) as well as calls, and each leg of a multi round-trip flow
// for itself. It must not change a result that it is given; results may be
// shared. Return another one instead.
type Middleware func(next Handler) Handler

// An Incoming is one request on its way through a [Server]. It is made by
// [Server.Admit], completed by the transport, and read by middleware. It
// belongs to one request and is not safe for concurrent writing.
type Incoming struct {
	// Request is the message as it came. In a session, where a call may wait for
	// a person, its parameters are dropped before the handler of a tool, prompt or
	// resource runs if they are longer than what the handler is given: look at
	// them before calling the next handler.
	Request *protocol.Request
	// Params are its parameters, nil when they could not be read.
	Params protocol.Params
	// Meta is the _meta of the parameters, never nil; it is zero when it could
	// not be read.
	Meta *protocol.RequestMeta
	// Version is the revision that the request is served in.
	Version protocol.Version
	// Target is the name of the tool or prompt, or the URI of the resource,
	// that the request is about; empty for other methods.
	Target string
	// Principal is who sends the request. Transports set it; it starts as
	// [protocol.LocalPrincipal].
	Principal protocol.Principal
	// RequestID names the request in events and logs; see
	// [roundtrip.RequestID]. A server that has an observer makes one up for a
	// request that has none. A transport may set it to something of its own that
	// is safe to log.
	RequestID string
	// RemoteAddr is the address that the request came from, as the transport
	// knows it, which may be that of a proxy; empty on other transports.
	RemoteAddr string
	// TraceParent is the header of that name (W3C Trace Context), if there was
	// one; what _meta says is in Meta.
	TraceParent string
	// Credential is what the caller authenticated with: the value of the header
	// Authorization, Cookie or X-Api-Key, the first there is. It is kept so that
	// it can be kept out of logs; nothing else reads it.
	Credential string
	// Back is the way back to the client while the request runs. Nil: none.
	Back protocol.Back
	// Panicked is told of a panic outside of handlers and middleware, of an
	// observer for example, beside the observer and before the request is
	// answered with an internal error. It may panic itself, which goes on to the
	// caller of [Server.Serve], for transports to which some values mean
	// something. Nil: nobody.
	Panicked func(ctx context.Context, p event.HandlerPanicked)

	// Private keeps lists out of caches that several users share. Transports
	// that authenticate set it.
	Private bool
	// DraftErrorCodes says that the response will carry the numbers of drafts;
	// see [Options].
	DraftErrorCodes bool

	opensSession     bool // an initialize that opened session
	bodyCopied       bool // Params and Meta hold nothing of a long body
	server           *Server
	active           *activeRequest // that it lies in, nil: none, or it has been served
	refusal          *protocol.Error
	checkedArguments json.RawMessage   // the arguments of a tools/call as they came, strict JSON
	era              era               // chosen by Server.Admit or Session.Admit
	task             *inflight.Request // once it is served
	pusher           *pusher           // nil where the client cannot be asked
	channel          *requestChannel   // Back for handlers, closed when the request is answered
	// the page that was dispatched, if its encoding may be reused
	encodedPage *page
}

// Refuse answers the request with e instead of dispatching it. Middleware still
// sees the request. Only the first refusal counts; nil is passed over.
func (in *Incoming) Refuse(e *protocol.Error) {
	if in.refusal == nil {
		in.refusal = e
	}
}

// Refusal returns the error with which the request is refused before it is
// dispatched, nil when it is not.
func (in *Incoming) Refusal() *protocol.Error { return in.refusal }

// CheckParamHeaders holds the Mcp-Param-* headers of a tools/call against the
// arguments (basic/transports/streamable-http, "Server Behavior for Custom
// Headers"). lines returns the values of a header by its name. The error names
// the header that is missing, repeated, malformed or does not match. None is
// missing in a session, whose revision does not have them. Transports without
// headers need not call it.
func (in *Incoming) CheckParamHeaders(lines func(name string) []string) error {
	p, ok := in.Params.(*protocol.CallToolParams)
	if !ok || in.server == nil {
		return nil
	}
	t, ok := in.server.tools.loadSnapshot().index[p.Name]
	if !ok || !in.server.isVisible(in, protocol.MethodListTools, p.Name) {
		return nil // the call will be refused, in words that are the same for both
	}
	if in.era.hasParamHeaders() {
		return t.headers.Check(p.Arguments, lines)
	}
	return t.headers.CheckGiven(p.Arguments, lines)
}

// Session returns the session that the request belongs to, nil for requests of
// revisions without sessions.
func (in *Incoming) Session() *Session {
	x, _ := in.era.(*Session)
	return x
}

// Abandoned reports whether the client cancelled the request, which runs or ran
// in a session, with notifications/cancelled: its response must not be sent.
func (in *Incoming) Abandoned() bool {
	return in.Session() != nil && in.task != nil && in.task.IsCancelled()
}

// eventWhere describes the request in events.
func (in *Incoming) eventWhere() event.Where {
	return event.Where{Version: in.Version, Method: in.Request.Method, Target: in.Target,
		Request: in.RequestID}
}

type principalKey struct{}

// WithPrincipal returns a context under which [Server.Handle] serves requests
// as sent by p, for hosts that know who calls in process. Without it callers in
// process are [protocol.LocalPrincipal].
func WithPrincipal(ctx context.Context, p protocol.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

func principalFrom(ctx context.Context) protocol.Principal {
	if p, ok := ctx.Value(principalKey{}).(protocol.Principal); ok {
		return p
	}
	return protocol.LocalPrincipal()
}

// An activeRequest is all that one request needs from its arrival to its response,
// allocated together.
type activeRequest struct {
	incoming Incoming
	task     inflight.Request // in the set of the server, and maybe in that of a session
	channel  requestChannel
	response protocol.Response
	// inSession says that task is in the set of the session, too.
	inSession bool
	// unfollow is set for a request of a session that has the id of another: it is
	// not in the session's set and follows the end of the session by itself.
	unfollow func() bool
}

// newActiveRequest returns a request that lies in an activeRequest.
func newActiveRequest() *Incoming {
	l := &activeRequest{}
	l.incoming.active = l
	return &l.incoming
}

// takeActive returns the memory to serve the request with, once. A request that no
// server admitted, or that is served again, gets new memory.
func (in *Incoming) takeActive() *activeRequest {
	l := in.active
	if in.active = nil; l == nil {
		l = &activeRequest{}
	}
	return l
}

// maxBodySlack is how many bytes of a body a waiting call may hold that its
// handler has not been given. Copying costs more than a few hundred bytes are
// worth.
const maxBodySlack = 1 << 10

// copyFromBody copies the parts of the body that the handler of a session's
// request is given, arguments and _meta, so that a call that waits for a person
// does not hold the rest. The retry members do not exist in these revisions.
// Modern requests do not wait.
func (in *Incoming) copyFromBody(meta *protocol.RequestMeta) {
	if len(in.Request.Params) <= maxBodySlack {
		return
	}
	given := len(meta.Extra)
	switch p := in.Params.(type) {
	case *protocol.CallToolParams:
		given += len(p.Arguments)
	case *protocol.GetPromptParams:
		given += len(p.Arguments)
	case *protocol.ReadResourceParams:
	default:
		return
	}
	if len(in.Request.Params)-given <= maxBodySlack {
		return
	}
	meta.Extra = bytes.Clone(meta.Extra)
	// What the client can do is the session's, in whichever spelling it came.
	own := protocol.RequestMeta{ProgressToken: meta.ProgressToken, Extra: meta.Extra}
	switch p := in.Params.(type) {
	case *protocol.CallToolParams:
		p.Arguments, p.Retry, p.RequestMeta = bytes.Clone(p.Arguments), protocol.Retry{}, own
	case *protocol.GetPromptParams:
		p.Arguments, p.Retry, p.RequestMeta = bytes.Clone(p.Arguments), protocol.Retry{}, own
	case *protocol.ReadResourceParams:
		p.Retry, p.RequestMeta = protocol.Retry{}, own
	}
	in.bodyCopied = true
}

// releaseBody drops the body before the handler runs, which may wait for a person
// for long.
func (in *Incoming) releaseBody() {
	if in.bodyCopied {
		in.Request = &protocol.Request{ID: in.Request.ID, Method: in.Request.Method}
	}
}
