package server

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A Handler answers one request. The client gets an [*protocol.Error] as it is, and any other error
// as an internal error whose text goes to the observer.
type Handler func(ctx context.Context, req *Request) (protocol.Result, error)

// A Middleware wraps the handling of every request, refusals included (see [Request.Refusal]), and
// of each leg of a multi round-trip flow. Results may be shared: it returns another instead of
// changing one.
type Middleware func(next Handler) Handler

// A Request is one request from its admission to its response. Middleware may set Principal, Access
// and Catalogs before it calls the next handler. A Request belongs to the goroutine that serves it:
// it is not safe for concurrent writing. Tests of middleware may make their own.
type Request struct {
	// Message is the message as it came. In a session, where a call may wait for a person, its
	// parameters are dropped before the handler of a tool, prompt or resource runs if they are
	// longer than what the handler gets: read them before calling the next handler.
	Message *protocol.Request
	// Params are its parameters, nil when they could not be read.
	Params protocol.Params
	// Meta is the _meta of the parameters, never nil; it is zero if unreadable.
	Meta *protocol.RequestMeta
	// Version is the revision that the request is served in.
	Version protocol.Version
	// Target is the name of the tool or prompt, or the URI of the resource; empty for other
	// methods.
	Target string
	// Principal sends the request.
	Principal protocol.Principal
	// Access is what the request may do.
	Access *Access
	// Catalogs are what the request sees beside the server's own. In case of equal names the first
	// counts. A subscription, and a session from its next list or subscription on, hears of their
	// changes.
	Catalogs []*Catalog
	// RequestID names the request in events and logs; see [roundtrip.RequestID]. It is empty
	// without an observer.
	RequestID string
	// RemoteAddr, TraceParent and Credential are those of the [Delivery].
	RemoteAddr  string
	TraceParent string
	Credential  string

	back             protocol.Back // of the Delivery; nil: none
	onWritten        func()        // is told that the response is out; nil: nobody
	private          bool          // of the Delivery
	inTask           bool          // a run of a task
	opensSession     bool          // an initialize that opened session
	bodyCopied       bool          // Params and Meta hold nothing of a long body
	droppedMeta      bool          // _meta was longer than maxMeta
	server           *Server
	refusal          *protocol.Error
	lack             *ScopeError     // with which the request was refused last; nil: with none
	checkedArguments json.RawMessage // the arguments of a tools/call as they came, strict JSON
	era              era             // chosen by Server.Admit or Session.Admit
	pusher           *pusher         // nil where the client cannot be asked
	channel          *requestChannel // back for handlers, closed when the request is answered
	// lines of the headers that are still to be checked against the arguments; nil: none
	paramHeaders headerLines
	// the page that was dispatched, if its encoding may be reused
	encodedPage *page
}

// Authenticates reports whether the callers of the transport can authenticate; see
// [Delivery].Private.
func (request *Request) Authenticates() bool { return request.private }

// Refuse answers the request with e instead of dispatching it. Middleware still
// sees the request. Only the first refusal counts; nil is passed over.
func (request *Request) Refuse(e *protocol.Error) {
	if request.refusal == nil {
		request.refusal = e
	}
}

// Refusal returns the error with which the request is refused before it is
// dispatched, nil when it is not.
func (request *Request) Refusal() *protocol.Error { return request.refusal }

// Notify sends a notification to the client while the request is served, as
// [Call.Notify] does for handlers.
func (request *Request) Notify(ctx context.Context, n *protocol.Notification) error {
	if request.channel == nil {
		return nil
	}
	return request.channel.Notify(ctx, n)
}

// OnWritten has f called when the transport has written the response, and never if it cannot. Where
// a transport does not report this, f is called when the response is made. Middleware may call it
// repeatedly, and f must return promptly.
func (request *Request) OnWritten(f func()) {
	if before := request.onWritten; before != nil {
		after := f
		f = func() { before(); after() }
	}
	request.onWritten = f
	if b, ok := request.back.(interface{ OnWritten(f func()) }); ok {
		b.OnWritten(f)
	}
}

// eventWhere describes the request in events.
func (request *Request) eventWhere() event.Where {
	return event.Where{Version: request.Version, Method: request.Message.Method,
		Target:  rpc.LogTarget(request.Message.Method, request.Target),
		Request: request.RequestID}
}

type principalKey struct{}

// WithPrincipal returns a context under which [Server.Handle] serves requests as sent by p. Without
// it callers in process are [protocol.LocalPrincipal].
func WithPrincipal(ctx context.Context, p protocol.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

func principalFrom(ctx context.Context) protocol.Principal {
	if p, ok := ctx.Value(principalKey{}).(protocol.Principal); ok {
		return p
	}
	return protocol.LocalPrincipal()
}

// maxBodySlack limits the bytes of a body that a waiting call holds beside what its handler got.
// Copying costs more than a few hundred bytes are worth.
const maxBodySlack = 1 << 10

// copyFromBody copies the parts of the body that the handler of a session's request gets, arguments
// and _meta, so that a call that waits for a person does not hold the rest. Retry members do not
// exist in these revisions. Modern requests do not wait.
func (request *Request) copyFromBody(meta *protocol.RequestMeta) {
	if len(request.Message.Params) <= maxBodySlack {
		return
	}
	given := len(meta.Extra)
	switch p := request.Params.(type) {
	case *protocol.CallToolParams:
		given += len(p.Arguments)
	case *protocol.GetPromptParams:
		given += len(p.Arguments)
	case *protocol.ReadResourceParams:
	default:
		return
	}
	if len(request.Message.Params)-given <= maxBodySlack {
		return
	}
	meta.Extra = bytes.Clone(meta.Extra)
	// What the client can do is the session's, in whichever spelling it came.
	own := protocol.RequestMeta{ProgressToken: meta.ProgressToken, Extra: meta.Extra}
	switch p := request.Params.(type) {
	case *protocol.CallToolParams:
		p.Arguments, p.Retry, p.RequestMeta = bytes.Clone(p.Arguments), protocol.Retry{}, own
	case *protocol.GetPromptParams:
		p.Arguments, p.Retry, p.RequestMeta = bytes.Clone(p.Arguments), protocol.Retry{}, own
	case *protocol.ReadResourceParams:
		p.Retry, p.RequestMeta = protocol.Retry{}, own
	}
	request.bodyCopied = true
}

// maxMeta limits the bytes of _meta that a handler gets, because a waiting call keeps them. The
// protocol's own keys take less than one KiB.
const maxMeta = 16 << 10

// boundMeta drops foreign keys from a _meta that is longer than maxMeta.
func (request *Request) boundMeta(meta *protocol.RequestMeta) {
	if len(meta.Extra) <= maxMeta {
		return
	}
	request.droppedMeta = true
	kept := protocol.Meta("{}")
	for _, key := range []string{protocol.MetaProtocolVersion, protocol.MetaClientInfo,
		protocol.MetaClientCapabilities, protocol.MetaLogLevel, protocol.MetaProgressToken,
		protocol.MetaTraceParent, protocol.MetaTraceState, protocol.MetaBaggage} {
		value, _ := meta.Extra.Get(key)
		if value == nil || len(kept)+len(value) > maxMeta {
			continue
		}
		if longer, err := kept.With(key, value); err == nil {
			kept = longer
		}
	}
	meta.Extra = kept
}

// keptBytes is the size of the body that the request keeps beside its arguments.
func (request *Request) keptBytes(arguments int) int32 {
	if request.bodyCopied {
		return int32(len(request.Meta.Extra))
	}
	return int32(max(len(request.Message.Params)-arguments, 0))
}

// releaseBody drops the body before the handler runs, which may wait for a person.
func (request *Request) releaseBody() {
	if request.bodyCopied {
		request.Message = &protocol.Request{ID: request.Message.ID, Method: request.Message.Method}
	}
}
