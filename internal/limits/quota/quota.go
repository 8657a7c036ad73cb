// Package quota bounds the use of a resource in total and by account. A resource is anything that a
// peer can make a server keep or run: calls, sessions, subscriptions, states, spent ids, questions.
package quota

import (
	"context"
	"slices"
	"sync"
)

// A Limit names the bound that refuses a request.
type Limit string

// The bounds of a [Pool].
const (
	None  Limit = ""          // not refused
	Share Limit = "principal" // of one account
	Total Limit = "server"    // of all accounts together
)

// anonymousReserve is the part of a total, a quarter, that is reserved for authenticated callers.
const anonymousReserve = 4

// Options configure a [Pool].
type Options[K comparable] struct {
	Total int64 // of all accounts; negative for no limit
	Share int64 // of one authenticated account; negative for no limit
	// Authenticates means that callers can. If false, the first authenticated caller sets it.
	Authenticates bool
	// Local is an account bounded only by Total: the one client of a pipe. The zero K means none.
	Local K
}

// A Pool counts each account's use of one resource. The zero K is the account of all anonymous
// callers. They cannot be distinguished, so they have no shares: together they may use the whole
// total if no caller authenticates, else three quarters, so that they cannot lock out authenticated
// callers. All methods may be called concurrently.
type Pool[K comparable] struct {
	opts Options[K]

	mu    sync.Mutex // guards opts.Authenticates, too
	used  int64
	by    map[K]int64 // of accounts with any use
	queue []*queued[K]
}

type queued[K comparable] struct {
	account K
	n       int64
	granted chan struct{} // closed when granted
}

func New[K comparable](opts Options[K]) *Pool[K] {
	return &Pool[K]{opts: opts, by: map[K]int64{}}
}

// Take uses n units for an account, or returns the bound that they would exceed. The account's
// share is checked first, because the caller can act on it. Zero units exceed no bound.
func (p *Pool[K]) Take(account K, n int64) Limit {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isAuthenticated(account) {
		p.opts.Authenticates = true // even if refused: the next authenticated caller must find room
	}
	if n == 0 {
		return None
	}
	if p.isQueuedLocked(account) {
		return Share // the account's waiters come first
	}
	if limit := p.findLimitLocked(account, n); limit != None {
		return limit
	}
	p.addLocked(account, n)
	return None
}

// ForceTake uses n units even above the bounds, for a holder that gave its units back and cannot be
// refused now. [Pool.Take] refuses until enough units are given back.
func (p *Pool[K]) ForceTake(account K, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(account, n)
}

// Await uses n units for a holder that gave its units back and cannot be refused now. Above a bound
// it waits for returned units; if ctx ends first, it returns the cause of ctx and uses no units.
// Until it returns, [Pool.Take] refuses this account, but no other.
func (p *Pool[K]) Await(ctx context.Context, account K, n int64) error {
	p.mu.Lock()
	if !p.isQueuedLocked(account) && p.findLimitLocked(account, n) == None {
		p.addLocked(account, n)
		p.mu.Unlock()
		return nil
	}
	q := &queued[K]{account, n, make(chan struct{})}
	p.queue = append(p.queue, q)
	p.mu.Unlock()
	select {
	case <-q.granted:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.queue, q); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	} else { // granted at the same moment
		p.giveLocked(account, n)
	}
	return context.Cause(ctx)
}

// grantLocked grants waiters that fit, in order of arrival.
func (p *Pool[K]) grantLocked() {
	p.queue = slices.DeleteFunc(p.queue, func(q *queued[K]) bool {
		if p.findLimitLocked(q.account, q.n) != None {
			return false
		}
		p.addLocked(q.account, q.n)
		close(q.granted)
		return true
	})
}

func (p *Pool[K]) isQueuedLocked(account K) bool {
	return slices.ContainsFunc(p.queue, func(q *queued[K]) bool { return q.account == account })
}

// FindExceeded returns the bound exceeded now: the account's share, the total, or None.
func (p *Pool[K]) FindExceeded(account K) Limit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.findLimitLocked(account, 0)
}

// CanEverTake reports whether an account could use n units of an empty pool.
func (p *Pool[K]) CanEverTake(account K, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	share := p.shareLocked(account)
	return (share < 0 || n <= share) && (p.opts.Total < 0 || n <= p.opts.Total)
}

// Give gives back n units of an account.
func (p *Pool[K]) Give(account K, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveLocked(account, n)
}

func (p *Pool[K]) giveLocked(account K, n int64) {
	p.used -= n
	if p.by[account] -= n; p.by[account] == 0 {
		delete(p.by, account)
	}
	p.grantLocked()
}

// ReserveForAuthenticated limits anonymous callers to three quarters from now on.
func (p *Pool[K]) ReserveForAuthenticated() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opts.Authenticates = true
}

// Used returns the total use.
func (p *Pool[K]) Used() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Usage returns the total use and its limit, which is negative if there is none.
func (p *Pool[K]) Usage() (used, total int64) { return p.Used(), p.opts.Total }

// UsedBy returns the use of one account.
func (p *Pool[K]) UsedBy(account K) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[account]
}

func (p *Pool[K]) addLocked(account K, n int64) {
	if p.isAuthenticated(account) {
		p.opts.Authenticates = true
	}
	p.used += n
	p.by[account] += n
}

func (p *Pool[K]) findLimitLocked(account K, n int64) Limit {
	if share := p.shareLocked(account); share >= 0 && p.by[account]+n > share {
		return Share
	}
	if p.opts.Total >= 0 && p.used+n > p.opts.Total {
		return Total
	}
	return None
}

func (p *Pool[K]) shareLocked(account K) int64 {
	var anonymous K
	switch {
	case p.isAuthenticated(account):
		return p.opts.Share
	case account == anonymous && p.opts.Authenticates && p.opts.Total >= 0:
		return p.opts.Total - p.opts.Total/anonymousReserve
	}
	return -1
}

func (p *Pool[K]) isAuthenticated(account K) bool {
	var anonymous K
	return account != anonymous && account != p.opts.Local
}
