package quota

import (
	"container/heap"
	"crypto/sha256"
	"time"
)

// The bounds of [Store.RetryAfter]. An entry that expires in a moment makes room for one caller of
// many; and nobody waits for an hour, while room comes back whenever something is given up early.
const (
	minRetryAfter = time.Second
	maxRetryAfter = time.Minute
)

// StoreOptions configure a [Store].
type StoreOptions struct {
	// MaxEntries and MaxBytes bound what all accounts together may have stored. An account may have
	// the part of each that [ShareOf] tells.
	MaxEntries, MaxBytes int64
	// Local is an account that only the totals bound, "": none.
	Local string
}

// A Store holds values by id until they expire, each on behalf of an account, and bounds their
// number and size in all and by account. Get and Put first forget what has expired; the other
// methods count it until then. Nothing else is forgotten unless the caller says so. That is why it
// is not built on package recent, whose Map evicts the oldest value for a new one and gives all
// values the same time: a full Store refuses.
//
// A store may hold half a million entries, which the garbage collector would look at again and
// again. So entries lie in slabs, refer to each other by index, and are found by a digest of their
// id: apart from its account an entry has no pointers but those of its value.
//
// It has no lock: the caller must not use it concurrently.
type Store[V any] struct {
	entries, bytes *Pool[string]
	accounts       map[string]*account // of those that have entries
	slabs          slabs[V]
	byID           map[digest]index
	byExpiry       expiryHeap[V]
	sized          queue // the entries with a size
}

// An Entry is one value of a [Store]. It must not be used once it was removed or has expired: its
// memory is used again.
type Entry[V any] struct {
	Value V

	id       digest
	account  *account
	size     int64
	until    moment
	place    int32    // in the heap
	index    index    // its own
	nextFree index    // while it is free
	links    [2]links // in the queues of the store and of the account, while it has a size
}

// Owner returns the account that the entry is stored for.
func (e *Entry[V]) Owner() string { return e.account.name }

// A digest stands for an id.
type digest = [sha256.Size]byte

// An account has entries.
type account struct {
	name    string
	entries int
	sized   queue // those of its entries that have a size
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

// Get returns the entry with an id, nil when there is none.
func (s *Store[V]) Get(id string) *Entry[V] {
	s.removeExpired()
	return s.slabs.at(s.byID[sha256.Sum256([]byte(id))])
}

// ReserveForAuthenticated is [Pool.ReserveForAuthenticated] for entries and bytes.
func (s *Store[V]) ReserveForAuthenticated() {
	s.entries.ReserveForAuthenticated()
	s.bytes.ReserveForAuthenticated()
}

// Put stores a value of some size under an id that is not taken. It returns the bound that the
// entry would pass, and stores nothing then.
func (s *Store[V]) Put(id, owner string, v V, size int64, until time.Time) Limit {
	s.removeExpired()
	if limit := s.entries.Take(owner, 1); limit != None {
		return limit
	}
	if limit := s.bytes.Take(owner, size); limit != None {
		s.entries.Give(owner, 1)
		return limit
	}
	e := s.slabs.take()
	e.Value, e.id, e.account = v, sha256.Sum256([]byte(id)), s.account(owner)
	e.until = momentOf(until)
	e.account.entries++
	s.byID[e.id] = e.index
	heap.Push(&s.byExpiry, e)
	s.setSize(e, size)
	return None
}

// account returns the account with a name.
func (s *Store[V]) account(name string) *account {
	a := s.accounts[name]
	if a == nil {
		a = &account{name: name, sized: queue{of: ofAccount}}
		s.accounts[name] = a
	}
	return a
}

// Resize changes the size of an entry. It returns the bound that it would pass, and changes nothing
// then.
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

// setSize sets the size of an entry, and lists it or not.
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

// OldestSized returns the entry that has had a size for longest, of all entries if limit is Total
// and of those with the account of e if limit is Share. It is what to shrink when Resize refuses e
// with that limit. Nil: no entry has a size.
func (s *Store[V]) OldestSized(e *Entry[V], limit Limit) *Entry[V] {
	if limit == Share {
		return s.slabs.at(e.account.sized.first)
	}
	return s.slabs.at(s.sized.first)
}

// CanEverResize reports whether an entry could have a size if no other entry had any.
func (s *Store[V]) CanEverResize(e *Entry[V], size int64) bool {
	return s.bytes.CanEverTake(e.account.name, size)
}

// Remove forgets an entry before its time.
func (s *Store[V]) Remove(e *Entry[V]) {
	heap.Remove(&s.byExpiry, int(e.place))
	s.forgetEntry(e)
}

// RetryAfter returns when it makes sense to ask again for room that there is not.
func (s *Store[V]) RetryAfter() time.Duration {
	if s.byExpiry.Len() == 0 {
		return minRetryAfter
	}
	return min(max(time.Until(s.byExpiry.first()), minRetryAfter), maxRetryAfter)
}

// Len and Bytes return how much is stored.
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
	if s.byExpiry.Len() == 0 && s.slabs.large() { // after a crowd its memory is given back
		s.byID, s.byExpiry.items = map[digest]index{}, nil
		s.slabs.reset()
	}
}
