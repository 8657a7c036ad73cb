// Package connpool has connections that serve one call at a time, such as those to child
// processes, and gives them to calls.
package connpool

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

var (
	// ErrFull says that too many calls wait already.
	ErrFull = errors.New("too many calls wait for a connection")
	// ErrClosed says that the pool was closed.
	ErrClosed = errors.New("the pool of connections is closed")
)

// Options configure a [Pool] of connections C of kinds K for accounts A. All are required.
type Options[C, K, A comparable] struct {
	// Max is how many connections there may be, without those that are being closed.
	Max int
	// MaxWaiting is how many calls may wait.
	MaxWaiting int
	// IdleTimeout is how long a connection is kept without a call.
	IdleTimeout time.Duration
	// Open opens a connection of a kind, Close closes one and waits for that. HasEnded
	// reports whether one has ended by itself; it must be quick.
	Open     func(kind K) (C, error)
	Close    func(conn C)
	HasEnded func(conn C) bool
}

// A Pool gives connections to calls in the order in which these came, except that a call
// whose account uses half of all connections waits until that gives one back. The zero
// account, which is that of whoever is not known, has no such share. All methods may be
// called concurrently.
type Pool[C, K, A comparable] struct {
	opts Options[C, K, A]

	mu      sync.Mutex
	closed  bool
	size    int // connections that are used, idle or being opened
	closing int // connections
	used    map[A]int
	idle    []*idleConn[C, K] // the one that was used last is the last
	waiting []*waiter[C, K, A]
}

type idleConn[C, K comparable] struct {
	conn  C
	kind  K
	timer *time.Timer
}

type waiter[C, K, A comparable] struct {
	kind    K
	account A
	turn    chan turn[C] // closed with the pool
}

// A turn is a connection, or the right to open one.
type turn[C comparable] struct {
	conn C
	open bool
}

// New returns an empty pool.
func New[C, K, A comparable](opts Options[C, K, A]) *Pool[C, K, A] {
	return &Pool[C, K, A]{opts: opts, used: make(map[A]int)}
}

// Acquire waits for a connection of a kind that no other call uses. The error is the cause of
// ctx, that of Open, [ErrFull] or [ErrClosed].
func (p *Pool[C, K, A]) Acquire(ctx context.Context, kind K, account A) (conn C, err error) {
	w := &waiter[C, K, A]{kind, account, make(chan turn[C], 1)}
	if err := p.enqueue(w); err != nil {
		return conn, err
	}
	select {
	case t, ok := <-w.turn:
		if !ok {
			return conn, ErrClosed
		}
		return p.openTurn(t, w)
	case <-ctx.Done():
		p.leave(w)
		return conn, context.Cause(ctx)
	}
}

func (p *Pool[C, K, A]) enqueue(w *waiter[C, K, A]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return ErrClosed
	case len(p.waiting) >= p.opts.MaxWaiting:
		return ErrFull
	}
	p.waiting = append(p.waiting, w)
	p.dispatchLocked()
	return nil
}

// leave gives up a wait whose turn may have come at the same moment.
func (p *Pool[C, K, A]) leave(w *waiter[C, K, A]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, w); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		return
	}
	t, ok := <-w.turn // it is there: the turn was taken out of waiting with mu held
	switch {
	case !ok:
	case t.open:
		p.size--
		p.giveBackLocked(w.account)
	default:
		p.keepLocked(t.conn, w.kind)
		p.giveBackLocked(w.account)
	}
}

// openTurn returns the connection of a turn, and opens it where there is none yet.
func (p *Pool[C, K, A]) openTurn(t turn[C], w *waiter[C, K, A]) (C, error) {
	if !t.open {
		return t.conn, nil
	}
	conn, err := p.opts.Open(w.kind)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.size--
		p.giveBackLocked(w.account)
	}
	return conn, err
}

// Release gives a connection back. One that is not to be used again, since what was left
// behind by its call could be taken for the next one's, is closed.
func (p *Pool[C, K, A]) Release(conn C, kind K, account A, reuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reuse {
		p.keepLocked(conn, kind)
	} else {
		p.closeLocked(conn)
	}
	p.giveBackLocked(account)
}

// giveBackLocked ends an account's use of a connection.
func (p *Pool[C, K, A]) giveBackLocked(account A) {
	if p.used[account]--; p.used[account] <= 0 {
		delete(p.used, account)
	}
	p.dispatchLocked()
}

// keepLocked keeps a connection for further calls.
func (p *Pool[C, K, A]) keepLocked(conn C, kind K) {
	if p.closed || p.opts.HasEnded(conn) {
		p.closeLocked(conn)
		return
	}
	kept := &idleConn[C, K]{conn: conn, kind: kind}
	kept.timer = time.AfterFunc(p.opts.IdleTimeout, func() { p.drop(kept) })
	p.idle = append(p.idle, kept)
}

// drop closes a connection that no call has used for long.
func (p *Pool[C, K, A]) drop(kept *idleConn[C, K]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.idle, kept); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
		p.closeLocked(kept.conn)
	}
}

// Remove forgets a connection that has ended by itself, if no call uses it. A call that uses
// it gives it back.
func (p *Pool[C, K, A]) Remove(conn C) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.idle, func(kept *idleConn[C, K]) bool { return kept.conn == conn })
	if i >= 0 {
		p.closeIdleLocked(i)
		p.dispatchLocked()
	}
}

func (p *Pool[C, K, A]) closeIdleLocked(i int) {
	kept := p.idle[i]
	kept.timer.Stop()
	p.idle = slices.Delete(p.idle, i, i+1)
	p.closeLocked(kept.conn)
}

// closeLocked closes a connection in the background.
func (p *Pool[C, K, A]) closeLocked(conn C) {
	p.size--
	p.closing++
	go func() {
		p.opts.Close(conn)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closing--
		p.dispatchLocked()
	}()
}

// dispatchLocked gives connections to the calls that wait, as long as there are some.
func (p *Pool[C, K, A]) dispatchLocked() {
	for i := 0; i < len(p.waiting); {
		w := p.waiting[i]
		t, ok := p.takeLocked(w)
		if !ok {
			i++
			continue
		}
		p.used[w.account]++
		p.waiting = slices.Delete(p.waiting, i, i+1)
		w.turn <- t
	}
}

// takeLocked returns the turn of a call. It reports false where the call has to wait.
func (p *Pool[C, K, A]) takeLocked(w *waiter[C, K, A]) (t turn[C], ok bool) {
	var unknown A
	if w.account != unknown && p.used[w.account] >= (p.opts.Max+1)/2 {
		return t, false
	}
	for i, kept := range slices.Backward(p.idle) {
		if kept.kind == w.kind && kept.timer.Stop() {
			p.idle = slices.Delete(p.idle, i, i+1)
			return turn[C]{conn: kept.conn}, true
		}
	}
	if p.size >= p.opts.Max && len(p.idle) > 0 {
		p.closeIdleLocked(0) // it is of another kind
	}
	// Connections that take their time to end must not add up.
	if p.size >= p.opts.Max || p.size+p.closing >= 2*p.opts.Max {
		return t, false
	}
	p.size++
	return turn[C]{open: true}, true
}

// Close closes what no call uses. Calls that wait get [ErrClosed]; those that have a
// connection give it back to be closed.
func (p *Pool[C, K, A]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.waiting {
		close(w.turn)
	}
	p.waiting = nil
	for len(p.idle) > 0 {
		p.closeIdleLocked(0)
	}
}
