package gosdk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

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
	// Principal returns the principal of a request, from what its HTTP request brought; nil:
	// it did not come over HTTP. It is asked for each request of a session, which is that of
	// the principal who opened it. Nil: the user id of the token that the SDK's auth
	// middleware has verified, under the issuer that the verifier left in Extra["iss"], if
	// any; anonymous without a user id. Calls may overlap.
	Principal func(from *mcp.RequestExtra) protocol.Principal
	// LogName returns the name of a session in logs and audit. Nil: a random name, since
	// whoever knows the id of an HTTP session may be able to use it.
	LogName func(session *mcp.ServerSession) string
	// Replicas let several gateways serve the clients of one endpoint behind a balancer that
	// knows nothing of sessions: [Downstream.Handler] passes requests for a session, answers
	// among them, on to the gateway that has it. Each session, its calls and its questions
	// then are at one gateway. The other way are sticky sessions: a balancer that selects the
	// gateway by the header Mcp-Session-Id. Nil: there is one gateway, or the balancer does.
	Replicas *replicas.Options
}

// A Downstream is the side of a gateway that its clients connect to. All
// methods may be called concurrently.
type Downstream struct {
	router    *elicitation.Router
	opts      Options
	forwarder *hophttp.Forwarder  // nil: nothing is passed on
	claims    naming.Claims       // of the upstreams
	endpoint  accepthttp.Endpoint // of Handler

	mu       sync.Mutex
	sessions map[*mcp.ServerSession]*attachedSession
	byID     map[string]*attachedSession // those that have an id
}

// An attachedSession is a session of the SDK's that is known to the router.
type attachedSession struct {
	*elicitation.Session
	// opener is who opened the session.
	opener protocol.Principal

	ctx context.Context // ends with the session
	end context.CancelCauseFunc
}

var errSessionEnded = errors.New("elicitation: the client has ended its session")

// detach ends the questions of the session, and the calls of it that an [Upstream] serves.
func (s *attachedSession) detach() {
	s.Detach()
	s.end(errSessionEnded)
}

// NewDownstream attaches the sessions of server to router, each from its initialization
// until it ends, with the capabilities of its client. It adds middleware to server; call it
// before the server is connected. It fails without a router or a server.
func NewDownstream(
	router *elicitation.Router, server *mcp.Server, opts *Options,
) (*Downstream, error) {
	if router == nil || server == nil {
		return nil, errors.New("elicitation: the router or the server is nil")
	}
	d := &Downstream{router: router, sessions: make(map[*mcp.ServerSession]*attachedSession),
		byID: make(map[string]*attachedSession)}
	if opts != nil {
		d.opts = *opts
	}
	if d.opts.Principal == nil {
		d.opts.Principal = tokenUser
	}
	var err error
	if d.forwarder, err = hophttp.New(d.opts.Replicas); err != nil {
		return nil, fmt.Errorf("elicitation options: Replicas: %w", err)
	}
	server.AddSendingMiddleware(keepClientReply)
	server.AddReceivingMiddleware(encodeRefusals, d.recordClient, d.receiveProgress)
	return d, nil
}

// tokenUser is the default of Options.Principal.
func tokenUser(from *mcp.RequestExtra) protocol.Principal {
	if from == nil || from.TokenInfo == nil || from.TokenInfo.UserID == "" {
		return protocol.Principal{}
	}
	// Users of two issuers may have the same id.
	issuer, _ := from.TokenInfo.Extra["iss"].(string)
	return protocol.Principal{Issuer: issuer, Subject: from.TokenInfo.UserID}
}

// principalOf returns the principal of an HTTP request.
func (d *Downstream) principalOf(r *http.Request) protocol.Principal {
	return d.opts.Principal(&mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()),
		Header: r.Header})
}

// Begin begins the call of a client's request, such as an [*mcp.CallToolRequest], on the
// upstream connection named by key. Questions that come on the connection are asked on the
// stream of that request, until [elicitation.Call.End]. A call that the handler has not ended
// ends when it returns. While one is open, a client that gave a progress token gets progress.
//
// ctx must be the context of the SDK's handler, from which the SDK finds the stream.
func (d *Downstream) Begin(ctx context.Context, req mcp.Request,
	key elicitation.UpstreamKey) (*elicitation.Call, error) {
	ss, ok := req.GetSession().(*mcp.ServerSession)
	if !ok || ss == nil {
		return nil, errors.New("elicitation call: the request did not come to a server")
	}
	session, origin, err := d.attachSession(ss, req)
	if err != nil {
		return nil, err
	}
	origin.Session, origin.CallID = session.Session, rand.Text()
	origin.ProgressToken = progressToken(req)
	if isInMemory(ss) {
		ctx = humantime.WithoutWire(ctx)
	}
	via := asker{session: ss, endpoint: &d.endpoint}
	if extra := req.GetExtra(); extra != nil {
		via.header = extra.Header
	}
	call, err := d.router.Begin(ctx, origin, elicitation.ViaAsker(via), key)
	if err == nil {
		upstream.NoteCall(ctx, call)
	}
	return call, err
}

// isInMemory reports whether a session is over an [mcp.InMemoryTransport]. It looks at fields in
// which the SDK keeps that, and returns false where there are none.
func isInMemory(ss *mcp.ServerSession) bool {
	stream := reflect.ValueOf(ss)
	for _, name := range []string{"mcpConn", "rwc"} {
		for stream.Kind() == reflect.Interface || stream.Kind() == reflect.Pointer {
			stream = stream.Elem()
		}
		if stream.Kind() != reflect.Struct {
			return false
		}
		stream = stream.FieldByName(name)
	}
	return stream.Kind() == reflect.Interface && !stream.IsNil() &&
		stream.Elem().Type().String() == "*net.pipe"
}

// recordClient is the receiving middleware that attaches a session when its client has
// initialized it, so that the router knows the capabilities from then on.
func (d *Downstream) recordClient(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		if ss, ok := req.GetSession().(*mcp.ServerSession); ok && err == nil &&
			method == protocol.NotifyInitialized {
			_, _, _ = d.attachSession(ss, req) // its first call finds the error again
		}
		return result, err
	}
}

// attachSession returns the router's session of ss, which it attaches if there is none, and
// what the request says of its sender.
func (d *Downstream) attachSession(ss *mcp.ServerSession, req mcp.Request) (
	*attachedSession, elicitation.Origin, error) {
	caps, version, err := readClient(req)
	if err != nil {
		return nil, elicitation.Origin{}, err
	}
	origin := elicitation.Origin{Principal: d.opts.Principal(req.GetExtra()), Capabilities: &caps}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.sessions[ss]; known != nil {
		return known, origin, nil
	}
	info := elicitation.SessionInfo{
		Principal: origin.Principal, Capabilities: caps, Version: version,
		Notify: elicitation.DeliverFunc(func(ctx context.Context, m protocol.Message) error {
			return notifyClient(ctx, ss, m)
		}),
		// Outside a request the SDK uses the standing stream.
		Via: elicitation.ViaAsker(asker{session: ss}),
	}
	if d.opts.LogName != nil {
		info.LogName = d.opts.LogName(ss)
	}
	session, err := d.router.Attach(info)
	if err != nil {
		return nil, elicitation.Origin{}, err
	}
	attached := &attachedSession{Session: session, opener: origin.Principal}
	attached.ctx, attached.end = context.WithCancelCause(context.Background())
	d.sessions[ss] = attached
	id := ss.ID()
	if id != "" {
		d.byID[id] = attached
	}
	go func() {
		_ = ss.Wait() // the host handles the reason
		d.mu.Lock()
		delete(d.sessions, ss)
		if d.byID[id] == attached {
			delete(d.byID, id)
		}
		d.mu.Unlock()
		attached.detach()
	}()
	return attached, origin, nil
}

// readClient returns the capabilities and the revision of the client of a request. Clients
// of modern revisions, which cannot be sent requests, have no capabilities here.
func readClient(req mcp.Request) (caps protocol.ClientCapabilities,
	version protocol.Version, err error) {
	from, ok := req.(interface {
		ProtocolVersion() string
		ClientCapabilities() *mcp.ClientCapabilities
	})
	if !ok {
		return caps, "", errors.New("elicitation call: the request did not come to a server")
	}
	// The SDK reports the revision that the client proposed. The negotiated one is the
	// same or, where the SDK does not know that, an older one. All revisions that have
	// elicitation encode it as 2025-11-25 does or as 2025-06-18 does.
	version = protocol.V20251125
	switch proposed := protocol.Version(from.ProtocolVersion()); {
	case proposed >= protocol.V20260728:
		return caps, version, nil
	case proposed.Known():
		version = proposed
	}
	if declared := from.ClientCapabilities(); declared != nil {
		caps, err = upstream.DecodeCapabilities(declared)
	}
	return caps, version, err
}
