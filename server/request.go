package server

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A Handler answers one request. The client gets an [*protocol.Error] unchanged, and any other
// error as an internal error whose text goes to the observer.
type Handler func(ctx context.Context, req *Request) (protocol.Result, error)

// A Middleware wraps every request, refused ones included (see [Request.Refusal]), and each leg of
// a flow. Results may be shared: return another instead of changing one.
type Middleware func(next Handler) Handler

// A Request is one request from admission to response. Middleware may set Principal, Access and
// Catalogs before it calls the next handler. It belongs to the goroutine that serves it and must
// not be written concurrently. Tests of middleware may make their own.
type Request struct {
	// Message is the original message. In a session, its parameters are dropped before the handler
	// of a tool, prompt or resource runs if they are longer than the part that the handler gets,
	// because a call may wait for a user: read them before calling the next handler.
	Message   *protocol.Request
	Params    protocol.Params       // of Message, nil if unreadable
	Meta      *protocol.RequestMeta // _meta of Params, never nil, zero if unreadable
	Version   protocol.Version      // revision of the request
	Target    string                // name of the tool or prompt, URI of the resource, or empty
	Principal protocol.Principal    // of the sender
	Access    *Access               // the request's permissions
	// Catalogs are visible to the request besides the server's own; on equal names the first wins.
	// Subscriptions, and sessions from their next list or subscription on, follow their changes.
	Catalogs []*Catalog
	// RequestID is the id in events and logs; see [roundtrip.RequestID]. Empty without observer.
	RequestID string
	// RemoteAddr, TraceParent and Credential are as in [Delivery].
	RemoteAddr  string
	TraceParent string
	Credential  string

	back             protocol.Back // of the Delivery; nil: none
	onWritten        func()        // called when the response is written; may be nil
	private          bool          // of the Delivery
	inTask           bool          // a run of a task
	opensSession     bool          // an initialize that opened session
	bodyCopied       bool          // Params and Meta hold nothing of a long body
	droppedMeta      bool          // _meta was longer than maxMeta
	server           *Server
	refusal          *protocol.Error
	lack             *ScopeError     // of the latest refusal for lack of scopes, or nil
	checkedArguments json.RawMessage // the arguments of a tools/call as they came, strict JSON
	era              era             // chosen by Server.Admit or Session.Admit
	pusher           *pusher         // nil where the client cannot be asked
	channel          *requestChannel // back for handlers, closed when the request is answered
	// headers still to be compared with the arguments, or nil
	paramHeaders headerLines
	encodedPage  *page // the page whose encoding may be reused, or nil
}

// Authenticates reports whether the transport authenticates; see [Delivery].Private.
func (request *Request) Authenticates() bool { return request.private }

// Refuse answers the request with e, unless nil or refused already, instead of dispatching it.
func (request *Request) Refuse(e *protocol.Error) {
	if request.refusal == nil {
		request.refusal = e
	}
}

// Refusal returns the error with which the request was refused before dispatch, or nil.
func (request *Request) Refusal() *protocol.Error { return request.refusal }

// Notify sends a notification while the request is served, as [Call.Notify] does for handlers.
func (request *Request) Notify(ctx context.Context, n *protocol.Notification) error {
	if request.channel == nil {
		return nil
	}
	return request.channel.Notify(ctx, n)
}

// OnWritten registers f to run when the transport has written the response, or made it if the
// transport does not report writing. f does not run if writing fails, and must return promptly.
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

func (request *Request) eventWhere() event.Where {
	return event.Where{Version: request.Version, Method: request.Message.Method,
		Target:  rpc.LogTarget(request.Message.Method, request.Target),
		Request: request.RequestID}
}

type principalKey struct{}

// WithPrincipal returns a context under which [Server.Handle] serves requests as sent by p. Without
// it the principal is [protocol.LocalPrincipal].
func WithPrincipal(ctx context.Context, p protocol.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

func principalFrom(ctx context.Context) protocol.Principal {
	if p, ok := ctx.Value(principalKey{}).(protocol.Principal); ok {
		return p
	}
	return protocol.LocalPrincipal()
}

// maxBodySlack limits the unused bytes of a body that a waiting call keeps: more is worth a copy.
const maxBodySlack = 1 << 10

// copyFromBody copies the parts of the body that a session's handler gets, arguments and _meta, so
// that a waiting call does not keep the rest. Modern requests do not wait.
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
	// Capabilities are the session's.
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

const maxMeta = 16 << 10 // bytes of _meta, kept by waiting calls; the protocol's keys need 1 KiB

// boundMeta drops foreign keys from a _meta longer than maxMeta.
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

// keptBytes returns the size of the body that is kept besides the arguments.
func (request *Request) keptBytes(arguments int) int32 {
	if request.bodyCopied {
		return int32(len(request.Meta.Extra))
	}
	return int32(max(len(request.Message.Params)-arguments, 0))
}

// releaseBody drops the body before the handler runs, which may wait for a user.
func (request *Request) releaseBody() {
	if request.bodyCopied {
		request.Message = &protocol.Request{ID: request.Message.ID, Method: request.Message.Method}
	}
}
