//lint:file-ignore SA1019 logging is deprecated, and supported for as long as it exists

package gosdk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

// The defaults of [UpstreamOptions].
const (
	// defaultProtocolVersion is the last revision in which servers ask while a call runs.
	defaultProtocolVersion = "2025-11-25"
	// defaultMaxConnections is how many connections serve one call each at a time: what
	// a small machine runs of child processes.
	defaultMaxConnections = 8
	// defaultMaxWaiting is how many calls may wait for one of these.
	defaultMaxWaiting = 1000
	// defaultIdleTimeout is how long such a connection is kept without a call.
	defaultIdleTimeout = time.Minute
)

const (
	// connectTimeout bounds the opening of a connection, which several calls may wait for.
	connectTimeout = 30 * time.Second
	// retryAfter is when a call that found no connection may be made again.
	retryAfter = 5 * time.Second
)

// UpstreamOptions configure an [Upstream].
type UpstreamOptions struct {
	// Name begins the keys of the connections, which logs have as upstream_session.
	Name string
	// Implementation is what the gateway calls itself.
	Implementation *mcp.Implementation
	// Transport returns the transport of one more connection. It is required. A
	// [*mcp.StreamableClientTransport] is used with the [HTTPClient] of its own, and its
	// connections serve any number of calls at once. A connection over any other, such as
	// that of a child process, serves one call at a time. Calls may overlap.
	Transport func() mcp.Transport
	// Client has the host's own options of the clients, nil: none. See [NewSharedClient].
	Client *mcp.ClientOptions
	// ProtocolVersion is the revision to be spoken, "": "2025-11-25".
	ProtocolVersion string
	// LogLevel is the least severe level of the log messages that the upstream sends, "":
	// the upstream decides. Clients get those of their calls from the level on that they
	// have set.
	LogLevel mcp.LoggingLevel

	// MaxConnections, MaxWaiting and IdleTimeout are for connections that serve one call at
	// a time: how many there may be, how many calls may wait for one, and when one that has
	// none is closed. An authenticated principal may use half of the connections, and half of
	// the calls that wait may be its own; principals take turns. Callers that are not
	// authenticated leave a quarter to those who are. 0: 8, 1,000 and a minute.
	MaxConnections, MaxWaiting int
	IdleTimeout                time.Duration

	// PerPrincipal has a connection that serves one call at a time used again only for the
	// principal whose call it served. What a server asks after the end of a call is put to
	// whoever's call uses the connection then: with PerPrincipal it cannot be another's. A
	// principal who comes back finds a connection again while there are no more principals
	// than connections; else one is opened for each call.
	PerPrincipal bool
}

// An Upstream is a server behind a gateway, and the connections to it. It opens them when
// they are needed, with the elicitation capabilities of the client that a call is for:
// upstreams may hide tools that ask from clients that cannot be asked. It replaces one that
// has ended, and closes one whose call was given up where the answers of such a call could
// be taken for those of the next.
//
// Progress and log messages of the upstream about a call, the client's cancellation and changes of
// the lists that are published are passed on. What the upstream
// reports in the last moment before its result may be dropped, since the SDK hands results
// over first.
//
// All methods may be called concurrently.
type Upstream struct {
	clients *Downstream
	opts    UpstreamOptions
	shares  bool         // connections serve any number of calls
	lists   upstream.Set // that are published
	pool    *upstream.Pool[*upstreamConn, poolKind, protocol.Principal]
	ctx     context.Context // ends with Close, and calls in flight with it
	cancel  context.CancelCauseFunc

	mu       sync.Mutex
	closed   bool
	shared   map[modes]*sharedConn
	standing map[modes]*sharedConn // for lists, where calls do not share connections
	opened   map[*upstreamConn]struct{}
}

// NewUpstream returns an upstream of a gateway. It opens no connection yet. Close it after
// the gateway's server has stopped.
func (d *Downstream) NewUpstream(opts UpstreamOptions) (*Upstream, error) {
	if opts.Transport == nil {
		return nil, errors.New("elicitation upstream: Transport is nil")
	}
	for _, n := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"MaxConnections", &opts.MaxConnections, defaultMaxConnections},
		{"MaxWaiting", &opts.MaxWaiting, defaultMaxWaiting},
	} {
		if *n.value < 0 {
			return nil, fmt.Errorf("elicitation upstream: %s is negative", n.name)
		}
		if *n.value == 0 {
			*n.value = n.zero
		}
	}
	if opts.IdleTimeout < 0 {
		return nil, errors.New("elicitation upstream: IdleTimeout is negative")
	}
	if opts.IdleTimeout == 0 {
		opts.IdleTimeout = defaultIdleTimeout
	}
	if opts.ProtocolVersion == "" {
		opts.ProtocolVersion = defaultProtocolVersion
	}
	u := &Upstream{
		clients: d, opts: opts, shared: make(map[modes]*sharedConn),
		standing: make(map[modes]*sharedConn),
		opened:   make(map[*upstreamConn]struct{}),
	}
	u.ctx, u.cancel = context.WithCancelCause(context.Background())
	_, u.shares = opts.Transport().(*mcp.StreamableClientTransport)
	u.pool = upstream.New(upstream.Options[*upstreamConn, poolKind, protocol.Principal]{
		Max: opts.MaxConnections, MaxWaiting: opts.MaxWaiting, IdleTimeout: opts.IdleTimeout,
		Open:     func(kind poolKind) (*upstreamConn, error) { return u.open(kind.modes) },
		HasEnded: (*upstreamConn).hasEnded,
		Close:    func(conn *upstreamConn) { _ = conn.session.Close() },
	})
	return u, nil
}

// acquire returns a connection for a call and what gives it back.
func (u *Upstream) acquire(ctx context.Context, m modes,
	who protocol.Principal) (conn *upstreamConn, release func(abandoned bool), err error) {
	if u.shares {
		conn, err = u.share(ctx, u.shared, m)
		return conn, func(bool) {}, err
	}
	kind := u.kindFor(m, who)
	conn, err = u.pool.Acquire(ctx, kind, who)
	if errors.Is(err, upstream.ErrFull) {
		err = &elicitation.Error{
			Reason: elicitation.ReasonCapacity, RetryAfter: retryAfter, Err: err,
			Wire: quota.Refuse("queue", retryAfter, "Too many calls wait for the upstream"),
		}
	}
	return conn, func(abandoned bool) { u.pool.Release(conn, kind, who, !abandoned) }, err
}

// A sharedConn is a connection that several wait for or use.
type sharedConn struct {
	ready chan struct{} // closed when conn or err is set
	conn  *upstreamConn
	err   error
}

// share returns the connection for the modes that conns has, and opens it if there is none
// that is alive.
func (u *Upstream) share(ctx context.Context, conns map[modes]*sharedConn,
	m modes) (*upstreamConn, error) {
	u.mu.Lock()
	s := conns[m]
	if s == nil || s.hasEnded() {
		s = &sharedConn{ready: make(chan struct{})}
		conns[m] = s
		go func() {
			defer close(s.ready)
			s.conn, s.err = u.open(m)
		}()
	}
	u.mu.Unlock()
	select {
	case <-s.ready:
		return s.conn, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// hasEnded reports whether the connection was opened and has ended, or could not be opened.
func (s *sharedConn) hasEnded() bool {
	select {
	case <-s.ready:
		return s.err != nil || s.conn.hasEnded()
	default:
		return false
	}
}

var errUpstreamClosed = errors.New("elicitation upstream: closed")

// open opens a connection. It does not use the context of a call, which must not end a
// connection that others wait for.
func (u *Upstream) open(m modes) (*upstreamConn, error) {
	transport := u.opts.Transport()
	conn := newUpstreamConn(u, m)
	if over, ok := transport.(*mcp.StreamableClientTransport); ok {
		marking := *over
		conn.answers = &upstream.Book{}
		marking.HTTPClient = newHTTPClient(over.HTTPClient, conn.answers, over.MaxEventSize)
		if over.OAuthHandler != nil {
			marking.OAuthHandler = authorizer{over.OAuthHandler}
		}
		transport = &marking
	}
	client := newClient(u.clients.router, conn.key, m.capability(), u.opts.Implementation,
		u.clientOptions(conn), conn.answers)
	client.AddReceivingMiddleware(conn.relay)
	ctx, cancel := context.WithTimeout(u.ctx, connectTimeout)
	defer cancel()
	session, err := client.Connect(ctx, transport,
		&mcp.ClientSessionOptions{ProtocolVersion: u.opts.ProtocolVersion})
	if err != nil {
		return nil, fmt.Errorf("elicitation upstream: %w", err)
	}
	conn.session = session
	u.mu.Lock()
	closed := u.closed
	if !closed {
		u.opened[conn] = struct{}{}
	}
	u.mu.Unlock()
	if closed {
		_ = session.Close()
		return nil, errUpstreamClosed
	}
	go u.watch(conn)
	if level := u.opts.LogLevel; level != "" && capabilitiesOf(session).Logging != nil {
		// An upstream that refuses it sends what it sends.
		_ = session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: level})
	}
	return conn, nil
}

// watch forgets a connection when it has ended.
func (u *Upstream) watch(conn *upstreamConn) {
	_ = conn.session.Wait() // calls in flight return the reason
	close(conn.ended)
	u.mu.Lock()
	delete(u.opened, conn)
	u.mu.Unlock()
	u.pool.Remove(conn)
	if conn.lists.Load() {
		u.lists.UpdateLater()
	}
}

// clientOptions returns the host's options, with what the upstream's lists need.
func (u *Upstream) clientOptions(conn *upstreamConn) *mcp.ClientOptions {
	opts := mcp.ClientOptions{}
	if u.opts.Client != nil {
		opts = *u.opts.Client
	}
	opts.ToolListChangedHandler = updateLists(u, conn, opts.ToolListChangedHandler,
		upstream.Tools)
	opts.PromptListChangedHandler = updateLists(u, conn, opts.PromptListChangedHandler,
		upstream.Prompts)
	opts.ResourceListChangedHandler = updateLists(u, conn, opts.ResourceListChangedHandler,
		upstream.Resources, upstream.ResourceTemplates)
	return &opts
}

// updateLists returns a handler that lists anew what has changed, and then calls that of the host,
// which may be nil.
func updateLists[Request any](u *Upstream, conn *upstreamConn, host func(context.Context, Request),
	changed ...upstream.Kind) func(context.Context, Request) {
	return func(ctx context.Context, req Request) {
		if conn.lists.Load() {
			u.lists.UpdateLater(changed...)
		}
		if host != nil {
			host(ctx, req)
		}
	}
}

// Close closes all connections and waits for that. Calls in flight fail.
func (u *Upstream) Close() {
	u.mu.Lock()
	u.closed = true
	open := slices.Collect(maps.Keys(u.opened))
	u.mu.Unlock()
	u.lists.Stop()
	u.cancel(errUpstreamClosed)
	u.pool.Close()
	var closing sync.WaitGroup
	for _, conn := range open {
		closing.Go(func() {
			_ = conn.session.Close() // the reason why it ended is of no use any more
			<-conn.ended
		})
	}
	closing.Wait()
}

// A poolKind is what the calls have in common that may use a connection one after the other.
type poolKind struct {
	modes modes
	owner protocol.Principal // zero: anybody
}

func (u *Upstream) kindFor(m modes, who protocol.Principal) poolKind {
	if !u.opts.PerPrincipal {
		who = protocol.Principal{}
	}
	return poolKind{m, who}
}

// modes are those of elicitation that a connection declares.
type modes struct{ form, url bool }

func modesOf(c protocol.ClientCapabilities) modes {
	if c.Elicitation == nil {
		return modes{}
	}
	return modes{c.Elicitation.Form, c.Elicitation.URL}
}

func (m modes) capability() *protocol.ElicitationCapability {
	if m == (modes{}) {
		return nil
	}
	return &protocol.ElicitationCapability{Form: m.form, URL: m.url}
}

func newKey(name string) elicitation.UpstreamKey {
	return elicitation.UpstreamKey(name + "/" + rand.Text())
}
