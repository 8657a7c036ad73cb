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
	// defaultMaxShared is how many sessions of users with different credentials are kept.
	defaultMaxShared   = 64
	defaultMaxWaiting  = 1000
	defaultIdleTimeout = time.Minute

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
	// MaxConnections, MaxWaiting, IdleTimeout and Key are the options of the same names of the
	// adapters' upstreams.
	MaxConnections, MaxWaiting int
	IdleTimeout                time.Duration
	Key                        func(context.Context, protocol.Principal) (string, error)
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
	// Open opens a connection for callers with a key.
	Open func(ctx context.Context, m Modes, key string) (C, error)
	// Lost is called when a shared connection has ended and no call uses it. Nil: nothing.
	Lost func()
}

// fillDefaults also reports numbers that make no sense.
func (o *ConnOptions[C]) fillDefaults() error {
	if o.MaxConnections < 0 || o.MaxWaiting < 0 || o.IdleTimeout < 0 {
		return errors.New(
			"elicitation upstream: MaxConnections, MaxWaiting or IdleTimeout is negative")
	}
	switch {
	case o.MaxConnections != 0:
	case o.Shared:
		o.MaxConnections = defaultMaxShared
	default:
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
	own    string // the key of the gateway itself
	shared map[sharedKind]*sharedConn[C]
	opened map[C]struct{}
}

// A poolKind is what the calls have in common that may use a connection one after the other.
type poolKind struct {
	modes Modes
	key   string
}

// A sharedKind names a shared connection.
type sharedKind struct {
	poolKind
	standing bool
}

// A sharedConn is a connection that several wait for or use.
type sharedConn[C Conn] struct {
	users int           // that wait for it or use it
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
		opened: make(map[C]struct{}),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.pool = New(Options[C, poolKind, protocol.Principal]{
		Max: opts.MaxConnections, MaxWaiting: opts.MaxWaiting, IdleTimeout: opts.IdleTimeout,
		Open:     func(kind poolKind) (C, error) { return c.openConn(kind) },
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
	key, err := c.keyOf(ctx, who)
	if err != nil {
		return conn, nil, err
	}
	kind := poolKind{m, key}
	if c.opts.Shared {
		s, err := c.acquireShared(ctx, sharedKind{poolKind: kind})
		if err != nil {
			return conn, nil, err
		}
		return s.conn, func(bool) { c.releaseShared(s) }, nil
	}
	for {
		conn, err = c.pool.Acquire(ctx, kind, who)
		if errors.Is(err, ErrFull) {
			err = errBusy("queue", "Too many calls wait for the upstream")
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

// keyOf returns the key of a caller, the zero principal being the gateway itself.
func (c *Conns[C]) keyOf(ctx context.Context, who protocol.Principal) (string, error) {
	if c.opts.Key == nil {
		return "", nil
	}
	key, err := c.opts.Key(ctx, who)
	if err != nil {
		wire, ok := protocol.AsError(err)
		if !ok {
			wire = protocol.Errorf(protocol.CodeInternalError,
				"The gateway has no credentials of this caller for the upstream server")
		}
		return "", &elicitation.Error{Reason: elicitation.ReasonDelivery, Wire: wire, Err: err}
	}
	if who.Anonymous() {
		c.mu.Lock()
		c.own = key
		c.mu.Unlock()
	}
	return key, nil
}

// errEndsAtOnce is returned where an upstream ends each connection before a call can use it.
var errEndsAtOnce = errors.New("elicitation upstream: its connections end as soon as they are open")

// acquireShared returns a shared connection for one more user. Where it has ended meanwhile it
// tries once more.
func (c *Conns[C]) acquireShared(ctx context.Context, kind sharedKind) (*sharedConn[C], error) {
	for range 2 {
		s, err := c.shareConn(ctx, kind)
		if err != nil {
			return nil, err
		}
		if !s.conn.HasEnded() {
			return s, nil
		}
		c.releaseShared(s)
	}
	return nil, errEndsAtOnce
}

// releaseShared closes a connection that has ended when nobody uses it any more.
func (c *Conns[C]) releaseShared(s *sharedConn[C]) {
	c.mu.Lock()
	s.users--
	last := s.users == 0 && s.conn.HasEnded()
	c.mu.Unlock()
	if last {
		go c.closeConn(s.conn) // which may wait for the upstream
		if c.opts.Lost != nil {
			c.opts.Lost()
		}
	}
}

// Standing returns the connection on which lists are read, and changes of them reported, with
// both modes. It serves calls, too, where connections are shared.
func (c *Conns[C]) Standing(ctx context.Context) (conn C, err error) {
	key, err := c.keyOf(ctx, protocol.Principal{})
	if err != nil {
		return conn, err
	}
	s, err := c.shareConn(ctx, sharedKind{poolKind{Modes{Form: true, URL: true}, key},
		!c.opts.Shared})
	if err != nil {
		return conn, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.users--
	return s.conn, nil
}

// shareConn returns the shared connection of a kind for one more user, and opens it if there is
// none that is alive.
func (c *Conns[C]) shareConn(ctx context.Context, kind sharedKind) (*sharedConn[C], error) {
	c.mu.Lock()
	s := c.shared[kind]
	switch {
	case c.closed:
		c.mu.Unlock()
		return nil, ErrClosed
	case s != nil && !s.hasEnded():
	case !c.makeRoomLocked():
		c.mu.Unlock()
		return nil, errBusy("connections", "All connections to the upstream are in use")
	default:
		s = &sharedConn[C]{ready: make(chan struct{})}
		c.shared[kind] = s
		go func() {
			defer close(s.ready)
			s.conn, s.err = c.openConn(kind.poolKind)
		}()
	}
	s.users++
	c.mu.Unlock()
	var err error
	select {
	case <-s.ready:
		err = s.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		s.users--
		return nil, err
	}
	return s, nil
}

// makeRoomLocked reports whether there may be one more shared connection. It closes one that nobody
// uses, but not those of the gateway itself, on which upstreams report changes.
func (c *Conns[C]) makeRoomLocked() bool {
	maps.DeleteFunc(c.shared, func(_ sharedKind, s *sharedConn[C]) bool { return s.hasEnded() })
	if len(c.shared) < c.opts.MaxConnections {
		return true
	}
	for kind, s := range c.shared {
		if s.users == 0 && kind.key != c.own {
			delete(c.shared, kind)
			go func() {
				<-s.ready
				if s.err == nil {
					c.closeConn(s.conn)
				}
			}()
			return true
		}
	}
	return false
}

// errBusy refuses a call for which there is no room.
func errBusy(limit quota.Limit, text string) *elicitation.Error {
	return &elicitation.Error{Reason: elicitation.ReasonCapacity, RetryAfter: retryAfter,
		Wire: quota.Refuse(limit, retryAfter, "%s", text)}
}

// openConn opens a connection. It does not use the context of a call, which must not end a
// connection that others wait for.
func (c *Conns[C]) openConn(kind poolKind) (conn C, err error) {
	defer func() {
		if reason := recover(); reason != nil { // the host's code, on a goroutine of its own
			err = fmt.Errorf("elicitation upstream: opening a connection panicked: %v", reason)
		}
	}()
	ctx, cancel := context.WithTimeout(c.ctx, connectTimeout)
	defer cancel()
	if conn, err = c.opts.Open(ctx, kind.modes, kind.key); err != nil {
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
