package quota

import (
	"container/heap"
	"crypto/sha256"
	"time"
)

// Bounds of [Store.RetryAfter]: an expiry makes room for one of many callers; room may come early.
const (
	minRetryAfter = time.Second
	maxRetryAfter = time.Minute
)

// StoreOptions configure a [Store].
type StoreOptions struct {
	// MaxEntries and MaxBytes bound all accounts together, and each account by [ShareOf].
	MaxEntries, MaxBytes int64
	Local                string // account bounded only by the totals; may be empty
}

// A Store holds values by id until they expire, and bounds their number and size in total and by
// account. Get and Put first remove expired values; other methods still count them. Unlike a Map of
// package recent, which evicts, a full Store refuses.
//
// To hold half a million entries, it keeps them in slabs, links them by index and finds them by a
// digest of their id: they have no pointers for the garbage collector besides account and value.
//
// It has no lock: calls must not overlap.
type Store[V any] struct {
	entries, bytes *Pool[string]
	accounts       map[string]*account // that have entries
	slabs          slabs[V]
	byID           map[digest]index
	byExpiry       expiryHeap[V]
	sized          queue // entries with a size
}

// An Entry is a [Store]'s value. It must not be used after removal or expiry, because it is reused.
type Entry[V any] struct {
	Value V

	id       digest
	account  *account
	size     int64
	until    moment
	place    int32    // in the heap
	index    index    // its own
	nextFree index    // while it is free
	links    [2]links // in the queues of store and account, while the entry has a size
}

// Owner returns the entry's account.
func (e *Entry[V]) Owner() string { return e.account.name }

type digest = [sha256.Size]byte

type account struct {
	name    string
	entries int
	sized   queue // its entries with a size
}

// NewStore returns an empty store.
func NewStore[V any](opts StoreOptions) *Store[V] {
	pool := func(total int64) *Pool[string] {
		return New(Options[string]{Total: total, Share: ShareOf(total), Local: opts.Local})
	}
	s := &Store[V]{entries: pool(opts.MaxEntries), bytes: pool(opts.MaxBytes),
		accounts: map[string]*account{}, byID: map[digest]index{}, sized: queue{of: ofStore}}
	s.byExpiry.slabs = &s.slabs
	return s
}

// Get returns the entry with an id, or nil.
func (s *Store[V]) Get(id string) *Entry[V] {
	s.removeExpired()
	return s.slabs.at(s.byID[sha256.Sum256([]byte(id))])
}

// ReserveForAuthenticated is [Pool.ReserveForAuthenticated] for entries and bytes.
func (s *Store[V]) ReserveForAuthenticated() {
	s.entries.ReserveForAuthenticated()
	s.bytes.ReserveForAuthenticated()
}

// Put stores a value under an id that is not taken, or returns the bound that it would exceed.
func (s *Store[V]) Put(id, owner string, v V, size int64, until time.Time) Limit {
	s.removeExpired()
	if limit := s.entries.Take(owner, 1); limit != None {
		return limit
	}
	if limit := s.bytes.Take(owner, size); limit != None {
		s.entries.Give(owner, 1)
		return limit
	}
	a := s.accounts[owner]
	if a == nil {
		a = &account{name: owner, sized: queue{of: ofAccount}}
		s.accounts[owner] = a
	}
	e := s.slabs.take()
	e.Value, e.id, e.account = v, sha256.Sum256([]byte(id)), a
	e.until = momentOf(until)
	e.account.entries++
	s.byID[e.id] = e.index
	heap.Push(&s.byExpiry, e)
	s.setSize(e, size)
	return None
}

// Resize changes an entry's size, or returns the bound that it would exceed.
func (s *Store[V]) Resize(e *Entry[V], size int64) Limit {
	if more := size - e.size; more > 0 {
		if limit := s.bytes.Take(e.account.name, more); limit != None {
			return limit
		}
	} else {
		s.bytes.Give(e.account.name, -more)
	}
	s.setSize(e, size)
	return None
}

func (s *Store[V]) setSize(e *Entry[V], size int64) {
	had, has := e.size > 0, size > 0
	e.size = size
	for _, q := range []*queue{&s.sized, &e.account.sized} {
		switch {
		case has && !had:
			s.slabs.append(q, e)
		case had && !has:
			s.slabs.remove(q, e)
		}
	}
}

// OldestSized returns the entry that has had a size longest, or nil: of all entries for Total, or
// of e's account for Share. Shrink that entry when Resize refuses e with the limit.
func (s *Store[V]) OldestSized(e *Entry[V], limit Limit) *Entry[V] {
	if limit == Share {
		return s.slabs.at(e.account.sized.first)
	}
	return s.slabs.at(s.sized.first)
}

// CanEverResize reports whether an entry could have a size if no other had any.
func (s *Store[V]) CanEverResize(e *Entry[V], size int64) bool {
	return s.bytes.CanEverTake(e.account.name, size)
}

// Remove removes an entry before its expiry.
func (s *Store[V]) Remove(e *Entry[V]) {
	heap.Remove(&s.byExpiry, int(e.place))
	s.forgetEntry(e)
}

// RetryAfter returns when to retry after a refusal.
func (s *Store[V]) RetryAfter() time.Duration {
	if s.byExpiry.Len() == 0 {
		return minRetryAfter
	}
	return min(max(time.Until(s.byExpiry.first()), minRetryAfter), maxRetryAfter)
}

// Len and Bytes return the number of entries and their total size.
func (s *Store[V]) Len() int     { return len(s.byID) }
func (s *Store[V]) Bytes() int64 { return s.bytes.Used() }

func (s *Store[V]) removeExpired() {
	for now := time.Now(); s.byExpiry.Len() > 0 && !now.Before(s.byExpiry.first()); {
		s.forgetEntry(heap.Pop(&s.byExpiry).(*Entry[V]))
	}
}

func (s *Store[V]) forgetEntry(e *Entry[V]) {
	s.entries.Give(e.account.name, 1)
	s.bytes.Give(e.account.name, e.size)
	s.setSize(e, 0)
	if e.account.entries--; e.account.entries == 0 {
		delete(s.accounts, e.account.name)
	}
	delete(s.byID, e.id)
	s.slabs.free(e)
	if s.byExpiry.Len() == 0 && len(s.slabs.all) > 1 { // free memory after a peak
		s.byID, s.byExpiry.items, s.slabs = map[digest]index{}, nil, slabs[V]{}
	}
}
