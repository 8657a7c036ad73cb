package recent

import (
	"sync"
	"time"
)

// A List holds values in order of addition. The zero List is empty. Not for concurrent use.
type List[T any] struct{ ends Entry[T] } // sentinel of a ring

// An Entry is a value's place in a [List] or [Queue]. Make it a field. A zero Entry is in no list.
type Entry[T any] struct {
	value      T
	since      time.Time
	prev, next *Entry[T] // nil if in no list
}

// Value returns the added value.
func (e *Entry[T]) Value() T { return e.value }

// Since returns the time of addition.
func (e *Entry[T]) Since() time.Time { return e.since }

// Unlink removes e from its list, if it is in one.
func (e *Entry[T]) Unlink() {
	if e.next == nil {
		return
	}
	e.prev.next, e.next.prev = e.next, e.prev
	*e = Entry[T]{since: e.since}
}

// Append adds v at the end, with e as its entry. An entry that is in a list moves.
func (l *List[T]) Append(e *Entry[T], v T) { l.appendSince(e, v, time.Now()) }

func (l *List[T]) appendSince(e *Entry[T], v T, since time.Time) {
	e.Unlink()
	ends := &l.ends
	if ends.next == nil {
		ends.prev, ends.next = ends, ends
	}
	*e = Entry[T]{v, since, ends.prev, ends}
	ends.prev.next, ends.prev = e, e
}

// Oldest returns the oldest entry, nil if the list is empty.
func (l *List[T]) Oldest() *Entry[T] {
	if l.ends.next == nil || l.ends.next == &l.ends {
		return nil
	}
	return l.ends.next
}

// A Queue is a [List] that evicts each value a fixed time after its addition, unless removed
// before. One timer serves all values, so an idle value costs no goroutine or timer. All methods
// may be called concurrently.
type Queue[T any] struct {
	after time.Duration
	evict func(T)

	mu      sync.Mutex
	list    List[T]
	timer   *time.Timer
	armed   bool
	stopped bool
}

// NewQueue returns a queue that evicts values after the time after (never, if negative). It calls
// evict on its own goroutine.
func NewQueue[T any](after time.Duration, evict func(T)) *Queue[T] {
	return &Queue[T]{after: after, evict: evict}
}

// Add adds v, with e as its entry. It does nothing after Stop.
func (q *Queue[T]) Add(e *Entry[T], v T) { q.AddSince(e, v, time.Now()) }

// AddSince is Add for what began at a known time, at most the queue's time ago; zero means now. It
// is evicted at the latest when it would be after Add.
func (q *Queue[T]) AddSince(e *Entry[T], v T, since time.Time) {
	if since.IsZero() {
		since = time.Now()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	q.list.appendSince(e, v, since)
	if !q.armed && q.after >= 0 {
		q.armLocked(q.after)
	}
}

// Remove removes the value whose entry is e, if it is in the queue.
func (q *Queue[T]) Remove(e *Entry[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.Unlink()
}

// PeekOldest returns the oldest value, and when it was added.
func (q *Queue[T]) PeekOldest() (v T, since time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.list.Oldest(); e != nil {
		return e.value, e.since, true
	}
	return v, since, false
}

// RemoveOldest removes and returns the oldest value.
func (q *Queue[T]) RemoveOldest() (v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.list.Oldest()
	if e == nil {
		return v, false
	}
	v = e.value
	e.Unlink()
	return v, true
}

// Stop empties the queue without evicting.
func (q *Queue[T]) Stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	for e := q.list.Oldest(); e != nil; e = q.list.Oldest() {
		e.Unlink()
	}
	if q.timer != nil {
		q.timer.Stop()
	}
}

func (q *Queue[T]) armLocked(d time.Duration) {
	q.armed = true
	if q.timer == nil {
		q.timer = time.AfterFunc(d, func() {
			for _, v := range q.removeDue() {
				q.evict(v)
			}
		})
	} else {
		q.timer.Reset(d)
	}
}

func (q *Queue[T]) removeDue() (due []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = false
	now := time.Now()
	for e := q.list.Oldest(); e != nil; e = q.list.Oldest() {
		if left := q.after - now.Sub(e.since); left > 0 {
			q.armLocked(left)
			break
		}
		due = append(due, e.value)
		e.Unlink()
	}
	return due
}
