package mcpgo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

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
	// pingTimeout is how long a connection that was idle may take to show that it is alive:
	// mcp-go does not report that a child process has ended.
	pingTimeout = 2 * time.Second
	// retryAfter is when a call that found no connection may be made again.
	retryAfter = 5 * time.Second
)

// UpstreamOptions configure an [Upstream].
type UpstreamOptions struct {
	// Name begins the keys of the connections, which logs have as upstream_session.
	Name string
	// Transport returns the transport of one more connection. It is required. Connections
	// over a [*transport.StreamableHTTP], best with an [HTTPClient], serve any number of calls
	// at once. One over any other, such as that of a child process, serves one call at a time.
	// NewUpstream calls it once to learn which. Calls may overlap.
	Transport func() (transport.Interface, error)
	// Client has the host's own options of the clients; see [NewSharedClient].
	Client []client.ClientOption
	// Initialize is what the clients send of the gateway, such as its name.
	Initialize mcp.InitializeRequest
	// ProtocolVersion is the revision to be spoken, "": "2025-11-25".
	ProtocolVersion string

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
// Progress of the upstream about a call, the client's cancellation and changes of the lists that
// are published are passed on, and log messages where a connection serves one call at a time:
// mcp-go does not report the stream of a notification.
// What the upstream reports in the last moment before its result may be dropped. An upstream of
// mcp-go's may also drop what it reports on one call when another call of the session ends.
//
// All methods may be called concurrently.
type Upstream struct {
	clients *Downstream
	opts    UpstreamOptions
	shares  bool         // connections serve any number of calls
	lists   upstream.Set // that are published
	pool    *upstream.Pool[*upstreamConn, poolKind, protocol.Principal]
	ctx     context.Context // ends with Close, and connections that are being opened with it
	cancel  context.CancelFunc

	mu     sync.Mutex
	closed bool
	shared map[modes]*sharedConn
	opened map[*upstreamConn]struct{}
}

// NewUpstream returns an upstream of a gateway. It opens no connection yet. Close it after
// the gateway's server has stopped.
func (d *Downstream) NewUpstream(opts UpstreamOptions) (*Upstream, error) {
	if opts.Transport == nil {
		return nil, errors.New("elicitation upstream: Transport is nil")
	}
	if opts.MaxConnections < 0 || opts.MaxWaiting < 0 || opts.IdleTimeout < 0 {
		return nil, errors.New(
			"elicitation upstream: MaxConnections, MaxWaiting or IdleTimeout is negative")
	}
	if opts.MaxConnections == 0 {
		opts.MaxConnections = defaultMaxConnections
	}
	if opts.MaxWaiting == 0 {
		opts.MaxWaiting = defaultMaxWaiting
	}
	if opts.IdleTimeout == 0 {
		opts.IdleTimeout = defaultIdleTimeout
	}
	if opts.ProtocolVersion == "" {
		opts.ProtocolVersion = defaultProtocolVersion
	}
	first, err := opts.Transport()
	if err != nil {
		return nil, fmt.Errorf("elicitation upstream: %w", err)
	}
	u := &Upstream{
		clients: d, opts: opts, shared: make(map[modes]*sharedConn),
		opened: make(map[*upstreamConn]struct{}),
	}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	_, u.shares = first.(*transport.StreamableHTTP) // it is not started, and so holds nothing
	u.pool = upstream.New(upstream.Options[*upstreamConn, poolKind, protocol.Principal]{
		Max: opts.MaxConnections, MaxWaiting: opts.MaxWaiting, IdleTimeout: opts.IdleTimeout,
		Open:     func(kind poolKind) (*upstreamConn, error) { return u.open(kind.modes) },
		Close:    func(conn *upstreamConn) { u.close(conn) },
		HasEnded: func(conn *upstreamConn) bool { return conn.ended.Load() },
	})
	return u, nil
}

// isSessionLost reports whether an error says that the upstream does not know the session.
func isSessionLost(err error) bool { return errors.Is(err, transport.ErrSessionTerminated) }

// acquire returns a connection for a call and what gives it back.
func (u *Upstream) acquire(ctx context.Context, m modes,
	who protocol.Principal) (conn *upstreamConn, release func(reuse bool), err error) {
	if u.shares {
		conn, err = u.acquireShared(ctx, m)
		return conn, func(bool) { u.releaseShared(conn) }, err
	}
	kind := u.kindFor(m, who)
	for {
		conn, err = u.pool.Acquire(ctx, kind, who)
		if errors.Is(err, upstream.ErrFull) {
			err = &elicitation.Error{
				Reason: elicitation.ReasonCapacity, RetryAfter: retryAfter, Err: err,
				Wire: quota.Refuse("queue", retryAfter, "Too many calls wait for the upstream"),
			}
		}
		if err != nil || conn.isAlive(ctx) {
			return conn, func(reuse bool) { u.pool.Release(conn, kind, who, reuse) }, err
		}
		// Where it is the call that has ended, the next one finds out about the connection.
		gone := ctx.Err() != nil
		u.pool.Release(conn, kind, who, gone)
		if gone {
			return nil, nil, context.Cause(ctx)
		}
	}
}

// acquireShared returns the shared connection for the modes and counts the call on it.
func (u *Upstream) acquireShared(ctx context.Context, m modes) (*upstreamConn, error) {
	for {
		conn, err := u.share(ctx, m)
		if err != nil {
			return nil, err
		}
		u.mu.Lock()
		ended := conn.ended.Load()
		if !ended {
			conn.calls++
		}
		u.mu.Unlock()
		if !ended {
			return conn, nil
		}
	}
}

// releaseShared closes a connection that has ended when no call uses it any more.
func (u *Upstream) releaseShared(conn *upstreamConn) {
	u.mu.Lock()
	conn.calls--
	last := conn.calls == 0 && conn.ended.Load()
	u.mu.Unlock()
	if last {
		go u.close(conn) // which may wait for the upstream
		u.lists.UpdateLater()
	}
}

// A sharedConn is a connection that several wait for or use.
type sharedConn struct {
	ready chan struct{} // closed when conn or err is set
	conn  *upstreamConn
	err   error
}

// share returns the connection for the modes, and opens it if there is none that is alive.
func (u *Upstream) share(ctx context.Context, m modes) (*upstreamConn, error) {
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		return nil, fmt.Errorf("elicitation upstream: %w", upstream.ErrClosed)
	}
	s := u.shared[m]
	if s == nil || s.hasEnded() {
		s = &sharedConn{ready: make(chan struct{})}
		u.shared[m] = s
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
		return s.err != nil || s.conn.ended.Load()
	default:
		return false
	}
}

// open opens a connection. It does not use the context of a call, which must not end a
// connection that others wait for.
func (u *Upstream) open(m modes) (*upstreamConn, error) {
	over, err := u.opts.Transport()
	if err != nil {
		return nil, fmt.Errorf("elicitation upstream: %w", err)
	}
	conn := newUpstreamConn(elicitation.UpstreamKey(u.opts.Name + "/" + rand.Text()))
	opts := append(slices.Clone(u.opts.Client), client.WithProtocolVersion(u.opts.ProtocolVersion))
	conn.client = newClient(u.clients.router, conn.key, over, m.capability(), opts)
	conn.client.OnNotification(func(n mcp.JSONRPCNotification) { u.relay(conn, n) })
	// mcp-go reads standard output, and stderr, until the context of Start ends.
	if err := conn.client.Start(context.Background()); err != nil {
		return nil, fmt.Errorf("elicitation upstream: %w", err)
	}
	ctx, cancel := context.WithTimeout(u.ctx, connectTimeout)
	defer cancel()
	_, err = conn.client.Initialize(ctx, u.opts.Initialize)
	u.mu.Lock()
	if u.closed && err == nil {
		err = upstream.ErrClosed
	}
	if err == nil {
		u.opened[conn] = struct{}{}
	}
	u.mu.Unlock()
	if err != nil {
		_ = conn.client.Close()
		return nil, fmt.Errorf("elicitation upstream: %w", err)
	}
	conn.lastUsed.Store(time.Now().UnixNano())
	return conn, nil
}

func (u *Upstream) close(conn *upstreamConn) {
	conn.ended.Store(true)
	u.mu.Lock()
	delete(u.opened, conn)
	u.mu.Unlock()
	_ = conn.client.Close() // the reason why it ended is of no use any more
}

// Close closes all connections and waits for that. Calls in flight fail.
func (u *Upstream) Close() {
	u.mu.Lock()
	u.closed = true
	open := slices.Collect(maps.Keys(u.opened))
	u.mu.Unlock()
	u.lists.Stop()
	u.cancel()
	u.pool.Close()
	var closing sync.WaitGroup
	for _, conn := range open {
		closing.Go(func() { u.close(conn) })
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

func modesOf(info elicitation.SessionInfo) modes {
	c := info.Capabilities.Elicitation
	if c == nil || info.Version < protocol.V20250618 {
		return modes{}
	}
	return modes{c.Form, c.URL && info.Version >= protocol.V20251125}
}

func (m modes) capability() *protocol.ElicitationCapability {
	if m == (modes{}) {
		return nil
	}
	return &protocol.ElicitationCapability{Form: m.form, URL: m.url}
}
