package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/earlycancel"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/lazyctx"
	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// ErrSessionClosed is the cause with which the contexts of a session's requests
// are cancelled when it is closed.
var ErrSessionClosed = errors.New("server: the session has been closed")

// closedRetryAfter is when a client may try again whose session is closed: it opens
// a new one first.
const closedRetryAfter = time.Second

// ErrUnsolicited says that a response answers nothing that is being asked: the
// question was withdrawn, has been answered, or was asked in another session.
var ErrUnsolicited = errors.New("server: the response answers no question of this session")

// A Session is one connection with a client of a revision before 2026-07-28,
// free of transports. It is opened by the request initialize
// (basic/lifecycle of those revisions) and ends when the transport closes it. A
// transport hands it what the client sends:
//
//	request       Admit, then Server.Serve, then send the response unless in.Abandoned
//	notification  Notify
//	response      Deliver
//
// Requests are asked of the client on the way back of the request that needs
// them: their [Incoming].Back must be a [BackSender]. All methods may be called
// concurrently.
type Session struct {
	server    *Server
	principal roundtrip.Principal
	send      func(ctx context.Context, m protocol.Message) error // may be nil
	life      context.Context
	end       context.CancelCauseFunc
	pushes    pushTable
	stateless bool        // it serves one request, see [Server.AdmitStateless]
	news      *subscriber // what changed and the client does not know yet

	mu       sync.Mutex
	version  protocol.Version // empty before initialize
	client   protocol.RequestMeta
	level    protocol.LoggingLevel
	ready    bool // the client sent notifications/initialized
	telling  bool // a goroutine sends the news
	closed   bool
	running  map[protocol.ID]*sessionRequest
	early    earlycancel.Set // cancellations that came before their requests
	uriBytes int             // of the resources subscribed to
}

// sessionRequest is a request that runs in a session.
type sessionRequest struct {
	ctx       *lazyctx.Context
	opens     bool // an initialize, which cannot be cancelled
	cancelled bool
	stop      func() bool // for one that goes by the id of another: it does not hear of the end of the session any more
}

// DefaultLogLevel is the least severe log message that a session sends before
// its client has chosen a level with logging/setLevel.
const DefaultLogLevel = protocol.LevelInfo

// NewSession returns a session that no client has opened yet; everything in it
// is done in the name of p. send delivers messages that relate to no request:
// news of lists and resources, and [Call.ElicitationComplete]. It may fail when
// nobody listens: the message is lost then. News are sent by one goroutine at a
// time, with a context that ends with the session. Where send is nil the client
// is told that there will be none.
func (s *Server) NewSession(p roundtrip.Principal, send func(ctx context.Context, m protocol.Message) error) *Session {
	life, end := context.WithCancelCause(context.Background())
	x := &Session{
		server: s, principal: p, send: send, life: life, end: end, level: DefaultLogLevel,
		running: map[protocol.ID]*sessionRequest{},
	}
	x.news = newSubscriber(protocol.SubscriptionFilter{})
	x.news.changed = x.tell
	return x
}

// OpenSession returns a session that counts as opened in revision v, of whose
// client nothing is known: it declares no capabilities, so it cannot be asked
// anything. It serves a request of a client that opened a session elsewhere, or
// on a transport that keeps none. It is an error when v is no revision that has
// sessions.
func (s *Server) OpenSession(p roundtrip.Principal, v protocol.Version) (*Session, error) {
	if negotiate(v) != v {
		return nil, fmt.Errorf("server: revision %q has no sessions", v)
	}
	x := s.NewSession(p, nil)
	x.version = v
	return x, nil
}

// Version returns the revision that the session was opened in, empty before it
// is.
func (x *Session) Version() protocol.Version {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.version
}

// Principal returns in whose name the session is.
func (x *Session) Principal() roundtrip.Principal { return x.principal }

// Admit is [Server.Admit] for a request of the session: the first must be
// initialize, save pings, and capabilities are those declared there. The result
// has the session's principal. An initialize that is not refused opens the
// session at once, so that the client need not wait for the answer; if it fails
// after all the session is as before.
func (x *Session) Admit(req *protocol.Request) *Incoming {
	in := newIncoming()
	in.Request, in.Version, in.Principal, in.server, in.session = req, protocol.V20251125, x.principal, x.server, x
	if req == nil {
		in.Request = &protocol.Request{}
		in.Refuse(protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: nil"))
	}
	params, err := protocol.DecodeParams(in.Request.Method, in.Request.Params)
	meta := protocol.RequestMeta{}
	if params != nil {
		meta = *params.RequestMetadata()
	}
	if err == nil {
		in.Params, in.Target = params, target(params)
		in.copyFromBody(&meta)
	}
	// What the session says holds, whatever the keys of another era claim.
	x.mu.Lock()
	defer x.mu.Unlock()
	meta.Version, meta.LogLevel = "", ""
	meta.Capabilities, meta.ClientInfo = x.client.Capabilities, x.client.ClientInfo
	in.Meta = &meta
	if x.version != "" {
		in.Version = x.version
	}
	in.Refuse(x.check(in.Request.Method))
	if err != nil {
		in.Refuse(asError(err))
	}
	if p, ok := in.Params.(*protocol.InitializeParams); ok && in.refusal == nil {
		x.open(in, p)
	}
	return in
}

// check returns why a request may not be dispatched. It is called with mu held.
func (x *Session) check(method string) *protocol.Error {
	s := x.server
	switch {
	case x.closed:
		return quota.Refuse(quota.None, closedRetryAfter, "the session is closed, call again in a new one")
	case method == protocol.MethodPing:
		return nil
	case method == protocol.MethodInitialize && s.opts.ModernOnly:
		return refuseInitialize()
	case method == protocol.MethodInitialize && x.version != "":
		return protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: the session is initialized already")
	case method == protocol.MethodInitialize:
		return nil
	case x.version == "":
		return protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: the first request must be initialize")
	case !x.offers(method):
		return protocol.Errorf(protocol.CodeMethodNotFound, "method not found: %s", clip(method))
	}
	return nil
}

// Notify receives a notification of the client. Those that are not known, and
// those that cannot be read, are ignored, as is everything once the session is
// closed.
func (x *Session) Notify(_ context.Context, n *protocol.Notification) {
	if n == nil {
		return
	}
	switch n.Method {
	case protocol.NotifyInitialized:
		x.initialized()
	case protocol.NotifyCancelled:
		var c protocol.Cancelled
		if jsonx.Decode(n.Params, &c) == nil {
			x.cancelled(c.RequestID)
		}
	case protocol.NotifyProgress:
		var p protocol.Progress
		if jsonx.Decode(n.Params, &p) == nil {
			x.pushes.progress(p.Token)
		}
	}
	// notifications/roots/list_changed needs no more: roots are not kept.
}

// Deliver receives the client's answer to what it was asked in this session. A
// response to anything else is [ErrUnsolicited] and has no effect.
func (x *Session) Deliver(r *protocol.Response) error {
	if r == nil || !x.pushes.deliver(r) {
		return ErrUnsolicited
	}
	return nil
}

// Running returns how many requests of the session are being served.
func (x *Session) Running() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.running)
}

// Close ends the session: its requests are cancelled with the cause
// [ErrSessionClosed], what the client is being asked fails. It does not wait
// for either. Further requests are refused.
func (x *Session) Close() {
	x.server.hub.remove(x.news)
	x.mu.Lock()
	x.closed = true
	for _, r := range x.running {
		r.ctx.Cancel(ErrSessionClosed)
	}
	x.mu.Unlock()
	x.end(ErrSessionClosed)
	x.pushes.close()
}

// begin has a request that runs end with the session, or when the client cancels
// it by its id, until finished is called.
func (x *Session) begin(l *leg, in *Incoming) {
	id := in.Request.ID
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		l.ctx.Cancel(ErrSessionClosed)
	}
	if _, taken := x.running[id]; taken {
		in.Refuse(protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: a request with this id is running"))
		l.request.stop = context.AfterFunc(x.life, func() { l.ctx.Cancel(ErrSessionClosed) })
		return
	}
	if x.early.Take(id) && !in.opens {
		// Answered, lest a client wait that uses its ids more than once.
		in.Refuse(protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: it was cancelled before it began"))
	}
	l.request = sessionRequest{ctx: &l.ctx, opens: in.opens}
	in.running = &l.request
	x.running[id] = in.running
}

// finished is called when the request, with the id that it began with, has been
// served.
func (x *Session) finished(l *leg, id protocol.ID) {
	if l.request.stop != nil {
		l.request.stop()
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.running, id)
}

// cancelled cancels a request. Unknown ids are no error: the request may just
// have been answered, or not have begun. initialize cannot be cancelled (basic/utilities/cancellation).
func (x *Session) cancelled(id protocol.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r, ok := x.running[id]
	if !ok {
		x.early.Note(id)
	} else if !r.opens {
		r.cancelled = true
		r.ctx.Cancel(errCancelled)
	}
}

// Abandoned reports whether the client cancelled the request, which runs or ran
// in a session, with notifications/cancelled: its response must not be sent.
func (in *Incoming) Abandoned() bool {
	if in.session == nil || in.running == nil {
		return false
	}
	in.session.mu.Lock()
	defer in.session.mu.Unlock()
	return in.running.cancelled
}

// Session returns the session that the request belongs to, nil for requests of
// revisions without sessions.
func (in *Incoming) Session() *Session { return in.session }

// legacyVersions are the revisions that a session can be opened in, newest
// first.
func legacyVersions() []protocol.Version {
	return slices.DeleteFunc(protocol.Versions(), func(v protocol.Version) bool { return v.Era() != protocol.Legacy })
}

// negotiate returns the revision to answer a client that asks for wanted: that
// one, or else the newest that a session can have (basic/lifecycle, "Version
// Negotiation").
func negotiate(wanted protocol.Version) protocol.Version {
	if slices.Contains(legacyVersions(), wanted) {
		return wanted
	}
	return legacyVersions()[0]
}
