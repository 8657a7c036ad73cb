// Package quota bounds how much of one resource is in use: in all, and by each account. It serves
// what a peer can make a server keep or run: calls, waiting calls, sessions, subscriptions, stored
// states, spent ids, questions.
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
	Share Limit = "principal" // what one account may use
	Total Limit = "server"    // what all accounts together may use
)

// anonymousReserve is the part of a total that anonymous callers cannot use once somebody
// authenticates: one of so many parts.
const anonymousReserve = 4

// Options configure a [Pool].
type Options[K comparable] struct {
	// Total is how much all accounts may use together. Negative: no limit.
	Total int64
	// Share is how much one authenticated account may use. Negative: no limit.
	Share int64
	// Authenticates means that callers of this pool can authenticate. Where it is false the pool
	// learns it from the first account that is not anonymous.
	Authenticates bool
	// Local is an account that only Total bounds: the one client of a pipe. The zero value: there
	// is none.
	Local K
}

// A Pool counts what each account uses of one resource. The zero K is the one account of all
// anonymous callers. Nobody can tell them apart, so none of them has a share: together they may use
// the whole total where nobody authenticates, and else all but a quarter of it, so that they cannot
// lock out those who do.
//
// All methods may be called concurrently.
type Pool[K comparable] struct {
	opts Options[K]

	mu            sync.Mutex
	authenticates bool
	used          int64
	by            map[K]int64 // of the accounts that use something
	queue         []*queued[K]
}

// queued is one who waits in [Pool.Await].
type queued[K comparable] struct {
	account K
	n       int64
	granted chan struct{} // closed when the units are taken
}

// New returns an empty pool.
func New[K comparable](opts Options[K]) *Pool[K] {
	return &Pool[K]{opts: opts, authenticates: opts.Authenticates, by: map[K]int64{}}
}

// Take uses n units on behalf of an account. It returns the bound that they would pass, and uses
// nothing then. The account's own bound is looked at first: it is the one that the caller can do
// something about. No units pass no bound, whatever the account uses already.
func (p *Pool[K]) Take(account K, n int64) Limit {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isAuthenticated(account) {
		p.authenticates = true // also of one that is refused: it is the next that must find room
	}
	if n == 0 {
		return None
	}
	if p.isQueuedLocked(account) {
		return Share // who waits comes before new requests of the account
	}
	if limit := p.findLimitLocked(account, n); limit != None {
		return limit
	}
	p.addLocked(account, n)
	return None
}

// ForceTake uses n units even above the bounds, for a holder that gave its units back and cannot be
// refused now. [Pool.Take] refuses others until enough units have been given back.
func (p *Pool[K]) ForceTake(account K, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(account, n)
}

// Await uses n units for a holder that gave its units back and cannot be refused now. Where a bound
// would be passed it waits until others have given units back, and returns the cause of ctx if that
// ends before; it uses nothing then. Until it returns, [Pool.Take] refuses the account: who waits
// holds up its own account and no other.
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

// grantLocked lets those go on for whom there is room, in the order in which they came.
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

// FindExceeded returns the bound that is exceeded now, as after [Pool.ForceTake]: the share of the
// account, or the total of all, whoever exceeded it; None if neither.
func (p *Pool[K]) FindExceeded(account K) Limit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.findLimitLocked(account, 0)
}

// CanEverTake reports whether an account could use n units if nothing else was in use.
func (p *Pool[K]) CanEverTake(account K, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	share := p.shareLocked(account)
	return (share < 0 || n <= share) && (p.opts.Total < 0 || n <= p.opts.Total)
}

// Give gives n units back that were taken on behalf of an account.
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

// ReserveForAuthenticated reports that callers of this pool can authenticate, from now on:
// anonymous callers get no more than all but a quarter.
func (p *Pool[K]) ReserveForAuthenticated() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.authenticates = true
}

// Used returns how much all accounts use.
func (p *Pool[K]) Used() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Usage returns how much all accounts use, and how much they may; negative: there is no limit.
func (p *Pool[K]) Usage() (used, total int64) { return p.Used(), p.opts.Total }

// UsedBy returns how much an account uses.
func (p *Pool[K]) UsedBy(account K) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[account]
}

func (p *Pool[K]) addLocked(account K, n int64) {
	if p.isAuthenticated(account) {
		p.authenticates = true
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

// shareLocked returns the bound of one account, negative where it has none.
func (p *Pool[K]) shareLocked(account K) int64 {
	var anonymous K
	switch {
	case p.isAuthenticated(account):
		return p.opts.Share
	case account == anonymous && p.authenticates && p.opts.Total >= 0:
		return p.opts.Total - p.opts.Total/anonymousReserve
	}
	return -1
}

func (p *Pool[K]) isAuthenticated(account K) bool {
	var anonymous K
	return account != anonymous && account != p.opts.Local
}
