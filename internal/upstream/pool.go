// Package upstream is the part of the gateways' adapters that does not depend on an SDK: the pool
// of connections to an upstream server, the lists that a gateway offers of it, the messages that
// wait to be sent to it, and what became of the answers that it was sent.
package upstream

// This file has connections that serve one call at a time, such as those to child processes, and
// gives them to calls.

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
)

var (
	// ErrFull means that too many calls wait already.
	ErrFull = errors.New("too many calls wait for a connection")
	// ErrClosed means that the connections were closed.
	ErrClosed = errors.New("elicitation upstream: closed")
)

// Options configure a [Pool] of connections C of kinds K for accounts A. All are required.
type Options[C, K, A comparable] struct {
	// Max is how many connections there may be, without those that are being closed.
	Max int
	// MaxWaiting is how many calls may wait, those of one account half of that.
	MaxWaiting int
	// IdleTimeout is how long a connection is kept without a call.
	IdleTimeout time.Duration
	// Open opens a connection of a kind, and does not panic; Close closes one and waits for
	// that. HasEnded reports whether one has ended by itself; it must be quick.
	Open     func(kind K) (C, error)
	Close    func(conn C)
	HasEnded func(conn C) bool
}

// A Pool gives connections to calls: to accounts in turn, and to the calls of each in the order in
// which they came. A call whose account uses half of all connections waits until that gives one
// back. The zero account is that of all who are not known. It has no such share, and leaves a
// quarter to the others once one of them was seen. All methods may be called concurrently.
type Pool[C, K, A comparable] struct {
	opts Options[C, K, A]

	mu      sync.Mutex
	closed  bool
	known   bool // an account was seen that is not the zero account
	size    int  // connections that are used, idle or being opened
	closing int  // connections
	used    map[A]int
	idle    []*idleConn[C, K] // the one that was used last is the last
	waiting *quota.Pool[A]
	queues  []*queue[C, K, A] // the account whose turn is next is the first; none is empty
}

// A queue has the calls of an account that wait.
type queue[C, K, A comparable] struct {
	account A
	waiters []*waiter[C, K, A]
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
	most := int64(opts.MaxWaiting)
	return &Pool[C, K, A]{opts: opts, used: make(map[A]int),
		waiting: quota.New(quota.Options[A]{Total: most, Share: (most + 1) / 2})}
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
		return p.openTurn(ctx, t, w)
	case <-ctx.Done():
		p.leaveQueue(w)
		return conn, context.Cause(ctx)
	}
}

func (p *Pool[C, K, A]) enqueue(w *waiter[C, K, A]) error {
	var unknown A
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return ErrClosed
	case p.waiting.Take(w.account, 1) != quota.None:
		return ErrFull
	}
	p.known = p.known || w.account != unknown
	if q := p.findQueueLocked(w.account); q != nil {
		q.waiters = append(q.waiters, w)
	} else {
		p.queues = append(p.queues, &queue[C, K, A]{w.account, []*waiter[C, K, A]{w}})
	}
	p.dispatchLocked()
	return nil
}

// findQueueLocked returns the queue of an account, nil if none of its calls waits.
func (p *Pool[C, K, A]) findQueueLocked(account A) *queue[C, K, A] {
	for _, q := range p.queues {
		if q.account == account {
			return q
		}
	}
	return nil
}

// dequeueLocked removes a call from those that wait. It reports false if it is not there.
func (p *Pool[C, K, A]) dequeueLocked(w *waiter[C, K, A]) bool {
	q := p.findQueueLocked(w.account)
	if q == nil {
		return false
	}
	i := slices.Index(q.waiters, w)
	if i < 0 {
		return false
	}
	q.waiters = slices.Delete(q.waiters, i, i+1)
	if len(q.waiters) == 0 {
		i := slices.Index(p.queues, q)
		p.queues = slices.Delete(p.queues, i, i+1)
	}
	p.waiting.Give(w.account, 1)
	return true
}

// leaveQueue gives up a wait whose turn may have come at the same moment.
func (p *Pool[C, K, A]) leaveQueue(w *waiter[C, K, A]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dequeueLocked(w) {
		return
	}
	t, ok := <-w.turn // it is there: the turn was given with mu held
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

// openTurn returns the connection of a turn, and opens it where there is none yet. A call that
// ends meanwhile leaves the connection to others.
func (p *Pool[C, K, A]) openTurn(ctx context.Context, t turn[C], w *waiter[C, K, A]) (C, error) {
	if !t.open {
		return t.conn, nil
	}
	type result struct {
		conn C
		err  error
	}
	opened := make(chan result, 1)
	go func() {
		conn, err := p.openConn(w)
		opened <- result{conn, err}
	}()
	select {
	case r := <-opened:
		return r.conn, r.err
	case <-ctx.Done():
		go func() {
			if r := <-opened; r.err == nil {
				p.Release(r.conn, w.kind, w.account, true)
			}
		}()
		var none C
		return none, context.Cause(ctx)
	}
}

// openConn opens a connection for a call whose turn it is.
func (p *Pool[C, K, A]) openConn(w *waiter[C, K, A]) (conn C, err error) {
	defer func() {
		if err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.size--
			p.giveBackLocked(w.account)
		}
	}()
	return p.opts.Open(w.kind)
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
	kept.timer = time.AfterFunc(p.opts.IdleTimeout, func() { p.closeUnused(kept) })
	p.idle = append(p.idle, kept)
}

// closeUnused closes a connection that no call has used for long.
func (p *Pool[C, K, A]) closeUnused(kept *idleConn[C, K]) {
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
	for i := 0; i < len(p.queues); {
		q := p.queues[i]
		w := q.waiters[0]
		t, ok := p.takeLocked(w)
		if !ok {
			i++
			continue
		}
		p.used[w.account]++
		p.dequeueLocked(w)
		if len(q.waiters) > 0 { // it is the turn of the other accounts
			p.queues = append(slices.Delete(p.queues, i, i+1), q)
		}
		w.turn <- t
	}
}

// shareLocked is how many connections an account may use.
func (p *Pool[C, K, A]) shareLocked(account A) int {
	var unknown A
	switch {
	case account != unknown:
		return (p.opts.Max + 1) / 2
	case p.known:
		return p.opts.Max - p.opts.Max/4
	}
	return p.opts.Max
}

// takeLocked returns the turn of a call. It reports false where the call has to wait.
func (p *Pool[C, K, A]) takeLocked(w *waiter[C, K, A]) (t turn[C], ok bool) {
	if p.used[w.account] >= p.shareLocked(w.account) {
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
	for _, q := range p.queues {
		for _, w := range q.waiters {
			close(w.turn)
		}
	}
	p.queues = nil
	for len(p.idle) > 0 {
		p.closeIdleLocked(0)
	}
}
