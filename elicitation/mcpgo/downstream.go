package mcpgo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/limits/humantime"
	"github.com/rondo-mcp/rondo/internal/naming"
	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/internal/wire/accepthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// Options configure a [Downstream]. The zero value, and nil, are good defaults.
type Options struct {
	// Principal returns the principal of a request, from what the host has put into its context:
	// its authentication, around [Downstream.Handler], or server.WithHTTPContextFunc. Nil: all are
	// anonymous. The handler calls it before mcp-go does, with the context of the HTTP request.
	// Calls may overlap.
	Principal func(ctx context.Context) protocol.Principal
	// LogName returns the name of a session in logs and audit. Nil: a random name, since
	// whoever knows the id of an HTTP session may be able to use it.
	LogName func(session server.ClientSession) string
	// HandleProgress is called for a client's progress on anything but a question. mcp-go has
	// one handler for each method, and [NewDownstream] sets that of
	// notifications/progress: a handler set before is replaced, and one set after it
	// prevents that questions are extended. Nil: ignored. Calls may overlap.
	HandleProgress server.NotificationHandlerFunc
	// Replicas let several gateways serve the clients of one endpoint behind a balancer that
	// knows nothing of sessions: [Downstream.Handler] passes requests for a session, answers
	// among them, on to the gateway that has it. Each session, its calls and its questions
	// then are at one gateway. The other way are sticky sessions: a balancer that selects the
	// gateway by the header Mcp-Session-Id. Nil: there is one gateway, or the balancer does.
	Replicas *replicas.Options
	// ServeModern has mcp-go serve requests of revision 2026-07-28, for hosts whose own tools
	// return questions as results: upstreams of older revisions cannot ask such clients. False:
	// they are refused with the revisions that have sessions, and clients that know one of those
	// open a session, in which they can be asked.
	ServeModern bool
}

// A Downstream is the side of a gateway that its clients connect to. All
// methods may be called concurrently.
type Downstream struct {
	router    *elicitation.Router
	server    *server.MCPServer
	opts      Options
	forwarder *hophttp.Forwarder  // nil: nothing is passed on
	claims    naming.Claims       // of the upstreams
	endpoint  accepthttp.Endpoint // of Handler
	asks      questionIDs

	mu       sync.Mutex
	sessions map[server.ClientSession]*registeredSession
	openers  map[string]protocol.Principal // of sessions that were opened through Handler, by id
}

// registeredSession is a session that mcp-go has registered.
type registeredSession struct{ session *elicitation.Session } // nil until its first call

// NewDownstream attaches the sessions of s to router, each from its initialization until
// mcp-go unregisters it, with the capabilities of its client. It adds hooks and middleware to s;
// call it before s serves. It fails without a router or a server.
func NewDownstream(
	router *elicitation.Router, s *server.MCPServer, opts *Options,
) (*Downstream, error) {
	if router == nil || s == nil {
		return nil, errors.New("elicitation: the router or the server is nil")
	}
	d := &Downstream{router: router, server: s,
		sessions: make(map[server.ClientSession]*registeredSession),
		openers:  make(map[string]protocol.Principal)}
	if opts != nil {
		d.opts = *opts
	}
	var err error
	if d.forwarder, err = hophttp.New(d.opts.Replicas); err != nil {
		return nil, fmt.Errorf("elicitation options: Replicas: %w", err)
	}
	if s.GetHooks() == nil {
		server.WithHooks(&server.Hooks{})(s)
	}
	s.GetHooks().AddOnRegisterSession(func(ctx context.Context, session server.ClientSession) {
		d.mu.Lock()
		d.sessions[session] = &registeredSession{}
		d.mu.Unlock()
		d.recordClient(ctx, session)
	})
	s.GetHooks().AddAfterInitialize(func(ctx context.Context, _ any, _ *mcp.InitializeRequest,
		_ *mcp.InitializeResult) {
		session := server.ClientSessionFromContext(ctx)
		d.dropRecord(session)
		d.recordClient(ctx, session)
	})
	s.GetHooks().AddOnUnregisterSession(func(_ context.Context,
		session server.ClientSession) {
		d.forgetSession(session)
	})
	s.GetHooks().AddOnError(d.recordRefusal)
	if !d.opts.ServeModern {
		s.GetHooks().AddOnRequestInitialization(d.refuseModern)
	}
	s.AddNotificationHandler(protocol.NotifyProgress, d.receiveProgress)
	addRequestMiddleware(s)
	return d, nil
}

func (d *Downstream) forgetSession(session server.ClientSession) {
	d.mu.Lock()
	known := d.sessions[session]
	delete(d.sessions, session)
	delete(d.openers, session.SessionID())
	d.mu.Unlock()
	if known != nil && known.session != nil {
		known.session.Detach()
	}
}

// Begin begins the call of a client's request, whose handler has ctx, on the upstream
// connection named by key. Questions that come on the connection are asked on the stream
// of that request, until [elicitation.Call.End]. A call that the handler has not ended ends when
// it returns. While one is open, a client that gave a progress token gets progress.
//
// ctx must be the context of mcp-go's handler, which has the session and the stream. Pass
// the call on with [WithCall].
func (d *Downstream) Begin(ctx context.Context,
	key elicitation.UpstreamKey) (*elicitation.Call, error) {
	session := server.ClientSessionFromContext(ctx)
	if session == nil {
		return nil, errors.New("elicitation call: the context is not that of a handler of mcp-go")
	}
	info, err := d.describeClient(ctx, session)
	if err != nil {
		return nil, err
	}
	to, err := d.attachSession(ctx, session, info)
	if err != nil {
		return nil, err
	}
	origin := elicitation.Origin{
		Session: to, Principal: info.Principal, Capabilities: &info.Capabilities,
		CallID: rand.Text(),
	}
	origin.ProgressToken, _ = ctx.Value(tokenKey{}).(protocol.ProgressToken)
	if _, here := session.(*server.InProcessSession); here {
		ctx = humantime.WithoutWire(ctx)
	}
	via := elicitation.ViaAsker(&asker{clients: d, server: d.server, over: ctx.Done()})
	call, err := d.router.Begin(ctx, origin, via, key)
	if err == nil {
		upstream.NoteCall(ctx, call)
	}
	return call, err
}

// recordClient attaches a session that is registered and initialized, so that the router
// knows the capabilities of its client from then on. Over HTTP mcp-go initializes sessions
// before it registers them, elsewhere it registers them before.
func (d *Downstream) recordClient(ctx context.Context, session server.ClientSession) {
	if session == nil || !session.Initialized() {
		return
	}
	d.mu.Lock()
	known := d.sessions[session]
	d.mu.Unlock()
	if known == nil {
		return
	}
	info, err := d.describeClient(ctx, session)
	if err == nil {
		_, _ = d.attachSession(ctx, session, info) // its first call finds the error again
	}
}

// dropRecord detaches a session whose client has initialized it anew. On standard input and output
// all of mcp-go's sessions in a process are one, which has the capabilities of its last client when
// the next one connects.
func (d *Downstream) dropRecord(session server.ClientSession) {
	d.mu.Lock()
	known := d.sessions[session]
	var stale *elicitation.Session
	if known != nil {
		stale, known.session = known.session, nil
	}
	d.mu.Unlock()
	if stale != nil {
		stale.Detach()
	}
}

// describeClient returns what the router is to know of the sender of a request.
func (d *Downstream) describeClient(ctx context.Context,
	session server.ClientSession) (info elicitation.SessionInfo, err error) {
	info.Capabilities, info.Version, err = readClient(ctx, session)
	info.Principal = d.principalOf(ctx)
	return info, err
}

func (d *Downstream) principalOf(ctx context.Context) protocol.Principal {
	if d.opts.Principal == nil {
		return protocol.Principal{}
	}
	return d.opts.Principal(ctx)
}

// attachSession returns the router's session, and attaches it if there is none. A session
// that mcp-go has not registered is detached when its request ends, because mcp-go does
// not report its end.
func (d *Downstream) attachSession(ctx context.Context, session server.ClientSession,
	info elicitation.SessionInfo) (*elicitation.Session, error) {
	info.Notify = elicitation.DeliverFunc(func(ctx context.Context,
		m protocol.Message) error {
		return d.notifyClient(ctx, session, m)
	})
	if d.opts.LogName != nil {
		info.LogName = d.opts.LogName(session)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.sessions[session]
	if known != nil {
		info.Via = elicitation.ViaAsker(&asker{clients: d, server: d.server, session: session})
	}
	if known != nil && known.session != nil {
		return known.session, nil
	}
	to, err := d.router.Attach(info)
	if err != nil {
		return nil, err
	}
	if known != nil {
		known.session = to
		if opener, ok := ctx.Value(openerKey{d}).(protocol.Principal); ok && !opener.Anonymous() {
			d.openers[session.SessionID()] = opener
		}
	} else {
		context.AfterFunc(ctx, to.Detach)
	}
	return to, nil
}

// notifyClient sends the client the notification that a visit is finished.
func (d *Downstream) notifyClient(ctx context.Context, session server.ClientSession,
	m protocol.Message) error {
	id, err := upstream.DecodeCompletion(m)
	if err != nil {
		return err
	}
	return d.server.SendElicitationComplete(ctx, session, id)
}

// readClient returns the capabilities and the revision of the client of a session. Clients
// of modern revisions, which cannot be sent requests, have no capabilities here.
func readClient(ctx context.Context,
	session server.ClientSession) (caps protocol.ClientCapabilities, version protocol.Version,
	err error) {
	version = protocol.V20251125
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.Modern {
		return caps, version, nil
	}
	if from, ok := session.(server.SessionWithProtocolVersion); ok {
		if agreed := protocol.Version(from.ProtocolVersion()); agreed.Known() &&
			agreed.Era() == protocol.Legacy {
			version = agreed
		}
	}
	from, ok := session.(server.SessionWithClientInfo)
	if !ok {
		return caps, version, nil
	}
	caps, err = upstream.DecodeCapabilities(mcp.ClientCapabilities{
		Elicitation: from.GetClientCapabilities().Elicitation})
	return caps, version, err
}
