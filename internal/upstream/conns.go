package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/naming"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// ProtocolVersion is the last revision in which servers ask while a call runs.
	ProtocolVersion = "2025-11-25"

	// defaultMaxConnections is what a small machine runs of child processes.
	defaultMaxConnections = 8
	defaultMaxWaiting     = 1000
	defaultIdleTimeout    = time.Minute

	// connectTimeout bounds the opening of a connection, which several calls may wait for.
	connectTimeout = 30 * time.Second
	// retryAfter is when a call that found no connection may be made again.
	retryAfter = 5 * time.Second
)

// A Conn is an adapter's connection to an upstream. Its methods may be called concurrently.
type Conn interface {
	comparable
	// HasEnded reports whether the connection has ended by itself. It is quick.
	HasEnded() bool
	// IsAlive reports whether a connection that was idle can serve a call. It may ask the
	// upstream.
	IsAlive(ctx context.Context) bool
	// Close closes the connection and waits for that. It may be called more than once.
	Close()
}

// Modes are those of elicitation that a connection declares.
type Modes struct{ Form, URL bool }

// ModesOf returns the modes that a client can be asked in.
func ModesOf(c protocol.ClientCapabilities) Modes {
	if c.Elicitation == nil {
		return Modes{}
	}
	return Modes{c.Elicitation.Form, c.Elicitation.URL}
}

// Capability returns the capability with the modes, nil for none.
func (m Modes) Capability() *protocol.ElicitationCapability {
	if m == (Modes{}) {
		return nil
	}
	return &protocol.ElicitationCapability{Form: m.Form, URL: m.URL}
}

// ConnOptions configure [Conns].
type ConnOptions[C Conn] struct {
	// MaxConnections, MaxWaiting, IdleTimeout and PerPrincipal are the options of the same names
	// of the adapters' upstreams.
	MaxConnections, MaxWaiting int
	IdleTimeout                time.Duration
	PerPrincipal               bool
	// Name and Unprefixed are what the upstream claims of the names that Claims has.
	Name       string
	Unprefixed []string
	Claims     *naming.Claims
	// Warn gets the errors of lists that are read in the background. Nil: nobody.
	Warn func(err error)
	// List calls read with a connection on which lists are read.
	List func(ctx context.Context, read func(C) error) error
	// Shared means that a connection serves any number of calls at once.
	Shared bool
	// Open opens a connection.
	Open func(ctx context.Context, m Modes) (C, error)
	// Lost is called when a shared connection has ended and no call uses it. Nil: nothing.
	Lost func()
}

// fillDefaults also reports numbers that make no sense.
func (o *ConnOptions[C]) fillDefaults() error {
	if o.MaxConnections < 0 || o.MaxWaiting < 0 || o.IdleTimeout < 0 {
		return errors.New(
			"elicitation upstream: MaxConnections, MaxWaiting or IdleTimeout is negative")
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = defaultMaxConnections
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = defaultMaxWaiting
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = defaultIdleTimeout
	}
	return nil
}

// Conns are the connections to one upstream. They are opened when they are needed, with the modes
// of elicitation of the client that a call is for; one that has ended is replaced. All methods may
// be called concurrently.
type Conns[C Conn] struct {
	// Lists are those that are published of the upstream.
	Lists Set

	opts   ConnOptions[C]
	names  *naming.Names
	pool   *Pool[C, poolKind, protocol.Principal]
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	shared map[sharedKind]*sharedConn[C]
	opened map[C]struct{}
	calls  map[C]int // that use a shared connection
}

// A poolKind is what the calls have in common that may use a connection one after the other.
type poolKind struct {
	modes Modes
	owner protocol.Principal // zero: anybody
}

// A sharedKind names a shared connection.
type sharedKind struct {
	modes    Modes
	standing bool
}

// A sharedConn is a connection that several wait for or use.
type sharedConn[C Conn] struct {
	ready chan struct{} // closed when conn or err is set
	conn  C
	err   error
}

// hasEnded reports whether the connection was opened and has ended, or could not be opened.
func (s *sharedConn[C]) hasEnded() bool {
	select {
	case <-s.ready:
		return s.err != nil || s.conn.HasEnded()
	default:
		return false
	}
}

// NewConns returns the connections of an upstream, of which none is open.
func NewConns[C Conn](opts ConnOptions[C]) (*Conns[C], error) {
	if err := opts.fillDefaults(); err != nil {
		return nil, err
	}
	names, err := opts.Claims.Add(opts.Name, opts.Unprefixed)
	if err != nil {
		return nil, fmt.Errorf("elicitation upstream: %w", err)
	}
	c := &Conns[C]{
		opts: opts, names: names, shared: make(map[sharedKind]*sharedConn[C]),
		opened: make(map[C]struct{}), calls: make(map[C]int),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.pool = New(Options[C, poolKind, protocol.Principal]{
		Max: opts.MaxConnections, MaxWaiting: opts.MaxWaiting, IdleTimeout: opts.IdleTimeout,
		Open:     func(kind poolKind) (C, error) { return c.openConn(kind.modes) },
		Close:    c.closeConn,
		HasEnded: func(conn C) bool { return conn.HasEnded() },
	})
	return c, nil
}

// Names are those of the upstream.
func (c *Conns[C]) Names() *naming.Names { return c.names }

// NewKey returns the key of a new connection.
func (c *Conns[C]) NewKey() elicitation.UpstreamKey {
	return elicitation.UpstreamKey(c.opts.Name + "/" + rand.Text())
}

// Context ends with Close, for the reason [ErrClosed].
func (c *Conns[C]) Context() context.Context { return c.ctx }

// Acquire returns a connection for a call of who, and the function that gives it back. reuse is
// false where the connection may not serve another call. Answers to the questions of such a call
// could be taken for those of the next.
func (c *Conns[C]) Acquire(ctx context.Context, m Modes, who protocol.Principal) (
	conn C, release func(reuse bool), err error) {
	if c.opts.Shared {
		conn, err = c.acquireShared(ctx, m)
		return conn, func(bool) { c.releaseShared(conn) }, err
	}
	kind := poolKind{modes: m}
	if c.opts.PerPrincipal {
		kind.owner = who
	}
	for {
		conn, err = c.pool.Acquire(ctx, kind, who)
		if errors.Is(err, ErrFull) {
			err = &elicitation.Error{
				Reason: elicitation.ReasonCapacity, RetryAfter: retryAfter, Err: err,
				Wire: quota.Refuse("queue", retryAfter, "Too many calls wait for the upstream"),
			}
		}
		if err != nil || conn.IsAlive(ctx) {
			return conn, func(reuse bool) { c.pool.Release(conn, kind, who, reuse) }, err
		}
		// Where it is the call that has ended, the next one finds out about the connection.
		gone := ctx.Err() != nil
		c.pool.Release(conn, kind, who, gone)
		if gone {
			return conn, nil, context.Cause(ctx)
		}
	}
}

// errEndsAtOnce is returned where an upstream ends each connection before a call can use it.
var errEndsAtOnce = errors.New("elicitation upstream: its connections end as soon as they are open")

// acquireShared returns the shared connection for the modes and counts the call on it. Where the
// connection has ended meanwhile it tries once more.
func (c *Conns[C]) acquireShared(ctx context.Context, m Modes) (conn C, err error) {
	for range 2 {
		if conn, err = c.shareConn(ctx, sharedKind{modes: m}); err != nil {
			return conn, err
		}
		c.mu.Lock()
		ended := conn.HasEnded()
		if !ended {
			c.calls[conn]++
		}
		c.mu.Unlock()
		if !ended {
			return conn, nil
		}
	}
	return conn, errEndsAtOnce
}

// releaseShared closes a connection that has ended when no call uses it any more.
func (c *Conns[C]) releaseShared(conn C) {
	c.mu.Lock()
	c.calls[conn]--
	last := c.calls[conn] == 0
	if last {
		delete(c.calls, conn)
	}
	last = last && conn.HasEnded()
	c.mu.Unlock()
	if last {
		go c.closeConn(conn) // which may wait for the upstream
		if c.opts.Lost != nil {
			c.opts.Lost()
		}
	}
}

// Standing returns the connection on which lists are read, and changes of them reported, with
// both modes. It serves calls, too, where connections are shared.
func (c *Conns[C]) Standing(ctx context.Context) (C, error) {
	return c.shareConn(ctx, sharedKind{Modes{Form: true, URL: true}, !c.opts.Shared})
}

// shareConn returns the shared connection of a kind, and opens it if there is none that is alive.
func (c *Conns[C]) shareConn(ctx context.Context, kind sharedKind) (conn C, err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return conn, ErrClosed
	}
	s := c.shared[kind]
	if s == nil || s.hasEnded() {
		s = &sharedConn[C]{ready: make(chan struct{})}
		c.shared[kind] = s
		go func() {
			defer close(s.ready)
			s.conn, s.err = c.openConn(kind.modes)
		}()
	}
	c.mu.Unlock()
	select {
	case <-s.ready:
		return s.conn, s.err
	case <-ctx.Done():
		return conn, context.Cause(ctx)
	}
}

// openConn opens a connection. It does not use the context of a call, which must not end a
// connection that others wait for.
func (c *Conns[C]) openConn(m Modes) (conn C, err error) {
	defer func() {
		if reason := recover(); reason != nil { // the host's code, on a goroutine of its own
			err = fmt.Errorf("elicitation upstream: opening a connection panicked: %v", reason)
		}
	}()
	ctx, cancel := context.WithTimeout(c.ctx, connectTimeout)
	defer cancel()
	if conn, err = c.opts.Open(ctx, m); err != nil {
		return conn, fmt.Errorf("elicitation upstream: %w", err)
	}
	c.mu.Lock()
	closed := c.closed
	if !closed && !conn.HasEnded() {
		c.opened[conn] = struct{}{}
	}
	c.mu.Unlock()
	if closed {
		conn.Close()
		return conn, ErrClosed
	}
	return conn, nil
}

// Forget removes a connection that has ended.
func (c *Conns[C]) Forget(conn C) {
	c.mu.Lock()
	delete(c.opened, conn)
	c.mu.Unlock()
	c.pool.Remove(conn)
}

// closeConn closes a connection and waits for that.
func (c *Conns[C]) closeConn(conn C) {
	c.mu.Lock()
	delete(c.opened, conn)
	c.mu.Unlock()
	conn.Close()
}

// Close closes all connections and waits for that.
func (c *Conns[C]) Close() {
	c.mu.Lock()
	c.closed = true
	open := slices.Collect(maps.Keys(c.opened))
	c.mu.Unlock()
	c.Lists.Stop()
	c.opts.Claims.Remove(c.names)
	c.cancel(ErrClosed)
	c.pool.Close()
	var closing sync.WaitGroup
	for _, conn := range open {
		closing.Go(func() { c.closeConn(conn) })
	}
	closing.Wait()
}
