package gosdk

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

// A pool has connections that serve one call at a time. Calls get one in the order in which
// they came, except that one whose principal uses its share waits until that gives one back.
type pool struct {
	open func(modes) (*upstreamConn, error)
	max  int // connections, without those that are being closed
	wait int // calls
	idle time.Duration

	mu      sync.Mutex
	closed  bool
	size    int // connections that are used, idle or being opened
	closing int // connections
	used    map[protocol.Principal]int
	free    []*idleConn // the one that was used last is the last
	waiting []*waiter
}

type idleConn struct {
	conn  *upstreamConn
	timer *time.Timer
}

type waiter struct {
	modes modes
	who   protocol.Principal
	turn  chan *upstreamConn // gets nil where a connection is to be opened
}

func newPool(o *UpstreamOptions, open func(modes) (*upstreamConn, error)) *pool {
	return &pool{open: open, max: o.MaxConnections, wait: o.MaxWaiting, idle: o.IdleTimeout,
		used: make(map[protocol.Principal]int)}
}

// acquire waits for a connection that declares the modes and that no other call uses.
func (p *pool) acquire(ctx context.Context, m modes,
	who protocol.Principal) (*upstreamConn, error) {
	w := &waiter{m, who, make(chan *upstreamConn, 1)}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errUpstreamClosed
	}
	if len(p.waiting) >= p.wait {
		p.mu.Unlock()
		return nil, &elicitation.Error{
			Reason: elicitation.ReasonCapacity, RetryAfter: retryAfter,
			Wire: quota.Refuse("queue", retryAfter, "Too many calls wait for the upstream"),
		}
	}
	p.waiting = append(p.waiting, w)
	p.dispatchLocked()
	p.mu.Unlock()
	select {
	case conn, ok := <-w.turn:
		if !ok {
			return nil, errUpstreamClosed
		}
		return p.ready(conn, w)
	case <-ctx.Done():
	}
	p.leave(w)
	return nil, context.Cause(ctx)
}

// leave gives up a wait whose turn may have come at the same moment.
func (p *pool) leave(w *waiter) {
	p.mu.Lock()
	if i := slices.Index(p.waiting, w); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	if conn, ok := <-w.turn; ok {
		p.giveBack(conn, w.who, true)
	}
}

// ready returns the connection of a turn, and opens it where there is none yet.
func (p *pool) ready(conn *upstreamConn, w *waiter) (*upstreamConn, error) {
	if conn != nil {
		return conn, nil
	}
	conn, err := p.open(w.modes)
	if err != nil {
		p.giveBack(nil, w.who, false)
		return nil, err
	}
	return conn, nil
}

// release gives a connection back. One whose call was given up is closed: what the upstream
// still says about that call could be taken for the next one's.
func (p *pool) release(conn *upstreamConn, who protocol.Principal, abandoned bool) {
	p.giveBack(conn, who, !abandoned)
}

func (p *pool) giveBack(conn *upstreamConn, who protocol.Principal, reuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used[who]--; p.used[who] <= 0 {
		delete(p.used, who)
	}
	switch {
	case conn == nil: // was not opened
		p.size--
	case reuse && !p.closed && !conn.hasEnded():
		kept := &idleConn{conn: conn}
		kept.timer = time.AfterFunc(p.idle, func() { p.endIdle(kept) })
		p.free = append(p.free, kept)
	default:
		p.closeLocked(conn)
	}
	p.dispatchLocked()
}

// closeLocked closes a connection in the background.
func (p *pool) closeLocked(conn *upstreamConn) {
	p.size--
	p.closing++
	go func() {
		_ = conn.session.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closing--
		p.dispatchLocked()
	}()
}

// endIdle closes a connection that no call has used for long.
func (p *pool) endIdle(kept *idleConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.free, kept); i >= 0 {
		p.free = slices.Delete(p.free, i, i+1)
		p.closeLocked(kept.conn)
	}
}

// remove forgets a connection that has ended by itself, if no call uses it. What uses it
// gives it back.
func (p *pool) remove(conn *upstreamConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, kept := range p.free {
		if kept.conn == conn {
			kept.timer.Stop()
			p.free = slices.Delete(p.free, i, i+1)
			p.closeLocked(conn)
			p.dispatchLocked()
			return
		}
	}
}

// dispatchLocked gives connections to the calls that wait, as long as there are some.
func (p *pool) dispatchLocked() {
	for i := 0; i < len(p.waiting); {
		w := p.waiting[i]
		conn, ok := p.takeLocked(w)
		if !ok {
			i++
			continue
		}
		p.used[w.who]++
		p.waiting = slices.Delete(p.waiting, i, i+1)
		w.turn <- conn
	}
}

// takeLocked returns a connection for a call, nil for one to be opened. It reports false
// where the call has to wait.
func (p *pool) takeLocked(w *waiter) (conn *upstreamConn, ok bool) {
	if !w.who.Anonymous() && p.used[w.who] >= (p.max+1)/2 {
		return nil, false
	}
	for i, kept := range slices.Backward(p.free) {
		if kept.conn.modes == w.modes && kept.timer.Stop() {
			p.free = slices.Delete(p.free, i, i+1)
			return kept.conn, true
		}
	}
	if p.size >= p.max && len(p.free) > 0 { // of other modes
		kept := p.free[0]
		kept.timer.Stop()
		p.free = slices.Delete(p.free, 0, 1)
		p.closeLocked(kept.conn)
	}
	// Children that take their time to end must not add up.
	if p.size >= p.max || p.size+p.closing >= 2*p.max {
		return nil, false
	}
	p.size++
	return nil, true
}

// close closes what no call uses. Calls that wait are refused; those in flight give their
// connections back to be closed.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.waiting {
		close(w.turn)
	}
	p.waiting = nil
	for _, kept := range p.free {
		kept.timer.Stop()
		p.closeLocked(kept.conn)
	}
	p.free = nil
}
