package quota

import (
	"container/heap"
	"time"
	"unique"
)

// The bounds of [Store.RetryAfter]. An entry that expires in a moment makes room
// for one caller of many; and nobody waits for an hour, while room comes back
// whenever something is given up early.
const (
	minRetryAfter = time.Second
	maxRetryAfter = time.Minute
)

// StoreOptions configure a [Store].
type StoreOptions[V any] struct {
	// MaxEntries and MaxBytes bound what all accounts together may have stored.
	// An account may have the part of each that [ShareOf] tells.
	MaxEntries, MaxBytes int64
	// Local is an account that only the totals bound, "": none.
	Local string
	// Removed is called with each entry that has expired or was removed. Nil:
	// nothing is. It must not use the store.
	Removed func(*Entry[V])
}

// A Store holds values by id until they expire, each on behalf of an account,
// and bounds their number and size in all and by account. Get and Put first forget
// what has expired; the other methods count it until then. Nothing else is forgotten
// unless the caller says so. That is why it is not built on package recent, whose Map evicts the
// oldest value for a new one and gives all values the same time: a full Store refuses.
//
// It has no lock: the caller must not use it concurrently.
type Store[V any] struct {
	entries, bytes *Pool[string]
	byID           map[string]*Entry[V]
	byExpiry       expiryHeap[V]
	removed        func(*Entry[V])
}

// An Entry is one value of a [Store].
type Entry[V any] struct {
	Value V

	id    string
	owner unique.Handle[string] // of which there are few
	until time.Time
	size  int64
	place int // in the heap
}

// Owner returns the account that the entry is stored for.
func (e *Entry[V]) Owner() string { return e.owner.Value() }

// NewStore returns an empty store.
func NewStore[V any](opts StoreOptions[V]) *Store[V] {
	pool := func(total int64) *Pool[string] {
		return New(Options[string]{Total: total, Share: ShareOf(total), Local: opts.Local})
	}
	return &Store[V]{
		entries: pool(opts.MaxEntries), bytes: pool(opts.MaxBytes), byID: map[string]*Entry[V]{},
		removed: opts.Removed,
	}
}

// Get returns the entry with an id, nil when there is none.
func (s *Store[V]) Get(id string) *Entry[V] {
	s.removeExpired()
	return s.byID[id]
}

// Put stores a value of some size under an id that is not taken. It returns the
// bound that the entry would pass, and stores nothing then.
func (s *Store[V]) Put(id, owner string, v V, size int64, until time.Time) Limit {
	s.removeExpired()
	if limit := s.entries.Take(owner, 1); limit != None {
		return limit
	}
	if limit := s.bytes.Take(owner, size); limit != None {
		s.entries.Give(owner, 1)
		return limit
	}
	e := &Entry[V]{Value: v, id: id, owner: unique.Make(owner), until: until, size: size}
	s.byID[id] = e
	heap.Push(&s.byExpiry, e)
	return None
}

// Resize changes the size of an entry. It returns the bound that it would pass,
// and changes nothing then.
func (s *Store[V]) Resize(e *Entry[V], size int64) Limit {
	if more := size - e.size; more > 0 {
		if limit := s.bytes.Take(e.Owner(), more); limit != None {
			return limit
		}
	} else {
		s.bytes.Give(e.Owner(), -more)
	}
	e.size = size
	return None
}

// CanEverResize reports whether an entry could have a size if no other entry had
// any.
func (s *Store[V]) CanEverResize(e *Entry[V], size int64) bool {
	return s.bytes.CanEverTake(e.Owner(), size)
}

// Remove forgets an entry before its time.
func (s *Store[V]) Remove(e *Entry[V]) {
	heap.Remove(&s.byExpiry, e.place)
	s.forgetEntry(e)
}

// RetryAfter returns when it makes sense to ask again for room that there is not.
func (s *Store[V]) RetryAfter() time.Duration {
	if len(s.byExpiry) == 0 {
		return minRetryAfter
	}
	return min(max(time.Until(s.byExpiry[0].until), minRetryAfter), maxRetryAfter)
}

// Len and Bytes return how much is stored.
func (s *Store[V]) Len() int     { return len(s.byID) }
func (s *Store[V]) Bytes() int64 { return s.bytes.Used() }

func (s *Store[V]) removeExpired() {
	for now := time.Now(); len(s.byExpiry) > 0 && !now.Before(s.byExpiry[0].until); {
		s.forgetEntry(heap.Pop(&s.byExpiry).(*Entry[V]))
	}
}

func (s *Store[V]) forgetEntry(e *Entry[V]) {
	delete(s.byID, e.id)
	s.entries.Give(e.Owner(), 1)
	s.bytes.Give(e.Owner(), e.size)
	if s.removed != nil {
		s.removed(e)
	}
}

// An expiryHeap has the entry that expires next in front.
type expiryHeap[V any] []*Entry[V]

func (h expiryHeap[V]) Len() int           { return len(h) }
func (h expiryHeap[V]) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h expiryHeap[V]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *expiryHeap[V]) Push(e any) {
	entry := e.(*Entry[V])
	entry.place = len(*h)
	*h = append(*h, entry)
}

func (h *expiryHeap[V]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
