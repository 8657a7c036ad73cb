package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

const closedRetryAfter = time.Second // after which clients of a closed session may open another

// A Session is a connection with a client of a revision before 2026-07-28, independent of
// transports. The request initialize opens it (basic/lifecycle of those revisions), and the
// transport closes it. A transport passes on the client's messages:
//
//	request       Admit, then Server.Serve, then send the response unless Abandoned
//	notification  Notify
//	response      Deliver
//
// Questions are sent on the way back of the request that asks: the Back of its [Delivery] must be a
// [BackSender]. All methods may be called concurrently.
type Session struct {
	server        *Server
	principal     protocol.Principal
	sendUnrelated func(ctx context.Context, m protocol.Message) error // may be nil
	lifetime      context.Context
	endLifetime   context.CancelCauseFunc
	pushes        pushTable
	stateless     bool        // it serves one request, see [Server.AdmitStateless]
	announcements *subscriber // changes that the client does not know yet

	// The set requests is for cancellation by id; it is nil on a line stream, which has its own.
	requests *inflight.Set[protocol.ID]

	mu           sync.Mutex
	version      protocol.Version // empty before initialize
	client       protocol.RequestMeta
	level        protocol.LoggingLevel
	clientReady  bool // the client sent notifications/initialized
	announcing   bool // a goroutine is sending changes
	closed       bool
	earlyCancels inflight.EarlyCancels // cancellations that came before their requests
	uriBytes     int                   // bytes of the subscribed URIs
}

const defaultLogLevel = protocol.LevelInfo // until the client sets one

// NewSession returns an unopened session of the principal p. send delivers messages unrelated to
// any request: changes of lists and resources, and [Call.ElicitationComplete]. It may fail while no
// client is connected: the message is lost. Changes are sent one at a time, with a context that
// ends with the session. With a nil send, no changes are promised to the client.
func (s *Server) NewSession(p protocol.Principal,
	send func(ctx context.Context, m protocol.Message) error) *Session {
	x := s.newSession(p, send)
	x.requests = &inflight.Set[protocol.ID]{}
	return x
}

// newSession is NewSession for a transport that tracks the session's requests itself.
func (s *Server) newSession(p protocol.Principal,
	send func(ctx context.Context, m protocol.Message) error) *Session {
	life, end := context.WithCancelCause(context.Background())
	x := &Session{
		server: s, principal: p, sendUnrelated: send, lifetime: life, endLifetime: end,
		level: defaultLogLevel,
	}
	x.announcements = newSubscriber(protocol.SubscriptionFilter{}, nil)
	x.announcements.changed = x.startAnnouncing
	return x
}

// Version returns the revision of the session, empty before it is opened.
func (x *Session) Version() protocol.Version {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.version
}

// ClientName returns the client's self-reported name, at most 256 bytes, empty before initialize.
func (x *Session) ClientName() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.client.ClientInfo == nil {
		return ""
	}
	return x.client.ClientInfo.Name
}

// Principal returns the principal of the session.
func (x *Session) Principal() protocol.Principal { return x.principal }

// Admit is [Server.Admit] for a request of the session: except for pings, the first is initialize,
// which declares capabilities. The principal is the session's. A valid initialize opens the session
// at once, so the client need not wait for the answer; if it fails later the session is as before.
func (x *Session) Admit(req *protocol.Request, d Delivery) *Admission {
	d.Principal = x.principal
	a := newAdmission(x.server, x, req, &d)
	request := &a.request
	request.Version = protocol.V20251125
	params, err := protocol.DecodeParams(request.Message.Method, request.Message.Params)
	meta := protocol.RequestMeta{}
	if params != nil {
		meta = *params.RequestMetadata()
	}
	if err == nil {
		request.Params, request.Target = params, targetOf(params)
		request.boundMeta(&meta)
		request.copyFromBody(&meta)
	}
	// The session's own values take precedence over keys of another era.
	x.mu.Lock()
	defer x.mu.Unlock()
	meta.Version, meta.LogLevel = "", ""
	meta.Capabilities, meta.ClientInfo = x.client.Capabilities, x.client.ClientInfo
	request.Meta = &meta
	if x.version != "" {
		request.Version = x.version
	}
	request.Refuse(x.checkMethodLocked(request.Message.Method))
	if err != nil {
		request.Refuse(rules.PublicError(err))
	}
	if p, ok := request.Params.(*protocol.InitializeParams); ok && request.refusal == nil {
		x.openLocked(request, p)
	}
	return a
}

// checkMethodLocked returns the reason not to dispatch a request, or nil.
func (x *Session) checkMethodLocked(method string) *protocol.Error {
	s := x.server
	switch {
	case x.closed:
		return quota.Refuse(quota.None, closedRetryAfter,
			"the session is closed, call again in a new one")
	case method == protocol.MethodPing:
		return nil
	case method == protocol.MethodInitialize && s.opts.ModernOnly:
		return refuseInitialize()
	case method == protocol.MethodInitialize && x.version != "":
		return protocol.Errorf(protocol.CodeInvalidRequest,
			"invalid request: the session is initialized already")
	case method == protocol.MethodInitialize:
		return nil
	case x.version == "":
		return protocol.Errorf(protocol.CodeInvalidRequest,
			"invalid request: the first request must be initialize")
	case !x.offersMethod(method):
		return protocol.Errorf(protocol.CodeMethodNotFound, "method not found: %s",
			clipQuoted(method))
	}
	return nil
}

// Notify receives a client's notification. It ignores unknown or invalid ones, and all after Close.
func (x *Session) Notify(_ context.Context, n *protocol.Notification) {
	if n == nil {
		return
	}
	switch n.Method {
	case protocol.NotifyInitialized:
		x.noteInitialized()
	case protocol.NotifyCancelled:
		var c protocol.Cancelled
		if jsonx.Decode(n.Params, &c) == nil {
			x.cancelRequest(c.RequestID)
		}
	case protocol.NotifyProgress:
		var p protocol.Progress
		if jsonx.Decode(n.Params, &p) == nil {
			x.pushes.extendPush(p.Token)
		}
	}
	// Roots are not kept, so notifications/roots/list_changed is ignored.
}

// Deliver passes the client's answer to the [roundtrip.Pusher] of this session that waits for it.
// It reports false, without effect, if no such question is pending.
func (x *Session) Deliver(r *protocol.Response) bool {
	return r != nil && x.pushes.deliverAnswer(r)
}

// Close ends the session: its requests are cancelled with the cause errSessionClosed, and its
// questions fail. It does not wait for them. Further requests are refused.
func (x *Session) Close() {
	x.mu.Lock()
	x.closed = true // before subscriptions made meanwhile are removed
	x.mu.Unlock()
	x.server.hub.removeSubscriber(x.announcements)
	if x.requests != nil {
		x.requests.CancelAll(errSessionClosed)
	}
	x.endLifetime(errSessionClosed)
	x.pushes.failPushes()
}

// beginRequest lets the end of the session and a cancellation by id end the request, until
// endRequest. mu orders it and cancelRequest, so that one of the two sees the other.
func (x *Session) beginRequest(a *Admission) {
	if x.requests == nil {
		return
	}
	request := &a.request
	id := request.Message.ID.Value()
	a.task.Uncancellable = request.opensSession
	x.mu.Lock()
	defer x.mu.Unlock()
	switch err := x.requests.Begin(id, &a.task); {
	case err == nil:
		a.inSession = true
	case errors.Is(err, inflight.ErrDuplicate):
		request.Refuse(protocol.Errorf(protocol.CodeInvalidRequest,
			"invalid request: a request with this id is running"))
		a.unfollow = context.AfterFunc(x.lifetime, func() { a.task.Cancel(errSessionClosed) })
		return
	default:
		a.task.Cancel(errSessionClosed)
	}
	if x.earlyCancels.Take(id) && !request.opensSession {
		// Answer, in case the client reuses ids and waits.
		request.Refuse(protocol.Errorf(protocol.CodeInvalidRequest,
			"invalid request: it was cancelled before it began"))
	}
}

// endRequest gets the id at admission: middleware may change it.
func (x *Session) endRequest(a *Admission, id protocol.ID) {
	if a.unfollow != nil {
		a.unfollow()
	}
	if a.inSession {
		x.requests.End(id.Value(), &a.task)
	}
}

func (x *Session) isAbandoned(a *Admission) bool { return a.task.IsCancelled() }

// cancelRequest cancels a request other than initialize (basic/utilities/cancellation). An unknown
// id may have been answered, or be overtaken by its cancellation.
func (x *Session) cancelRequest(id protocol.ID) {
	if x.requests == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.requests.Cancel(id, inflight.ErrCancelled) {
		x.earlyCancels.Note(id)
	}
}

// legacyVersions are the revisions that have sessions, newest first.
func legacyVersions() []protocol.Version {
	return slices.DeleteFunc(protocol.Versions(),
		func(v protocol.Version) bool { return v.Era() != protocol.Legacy })
}

// negotiateVersion returns wanted or the newest legacy revision (lifecycle, "Version Negotiation").
func negotiateVersion(wanted protocol.Version) protocol.Version {
	if slices.Contains(legacyVersions(), wanted) {
		return wanted
	}
	return legacyVersions()[0]
}

// ServesLegacy reports whether the server opens sessions; see [Options].ModernOnly.
func (s *Server) ServesLegacy() bool { return !s.opts.ModernOnly }

// AdmitStateless is [Session.Admit] for an independent request of revision v. An initialize is
// answered as usual. Requests that need a session are refused: subscriptions, log levels and, since
// no capability is known, questions. The returned function must be called after the response.
func (s *Server) AdmitStateless(req *protocol.Request, v protocol.Version,
	d Delivery) (*Admission, func()) {
	x := s.NewSession(d.Principal, nil)
	x.stateless = true
	if req != nil && req.Method != protocol.MethodInitialize {
		x.version = negotiateVersion(v)
		x.client.Capabilities = &protocol.ClientCapabilities{}
		x.level = protocol.LevelEmergency
	}
	a := x.Admit(req, d)
	switch request := &a.request; request.Message.Method {
	case protocol.MethodSubscribe, protocol.MethodUnsubscribe, protocol.MethodSetLevel:
		request.Refuse(protocol.Errorf(protocol.CodeMethodNotFound,
			"method not found: %s needs a session, which this server does not have",
			request.Message.Method))
	}
	return a, x.Close
}
