package serverhttp

import (
	"sync"
	"time"
)

// An expiry gives up what has been in it for a while, oldest first. One timer
// serves all, so that waiting costs no goroutine, and adding and removing do
// not touch the timer. All methods may be called concurrently.
type expiry[T any] struct {
	after time.Duration // negative: never
	expel func(T)       // called without a lock, from a goroutine of its own

	mu      sync.Mutex
	waiting queue[T]
	timer   *time.Timer
	armed   bool
	stopped bool
}

// A queue holds what waits, in the order in which it came. The zero queue is
// empty.
type queue[T any] struct{ ends ticket[T] } // of a ring

// A ticket is a place in a [queue]. It is part of what waits there, so that
// waiting takes no memory either. The zero ticket is no place.
type ticket[T any] struct {
	value      T
	since      time.Time
	prev, next *ticket[T] // nil: it is in no queue
}

// leave takes t out of its queue, if it is in one.
func (t *ticket[T]) leave() {
	if t.next == nil {
		return
	}
	t.prev.next, t.next.prev = t.next, t.prev
	*t = ticket[T]{}
}

// push puts v at the end, with t for its place.
func (q *queue[T]) push(t *ticket[T], v T) {
	t.leave()
	ends := &q.ends
	if ends.next == nil {
		ends.prev, ends.next = ends, ends
	}
	*t = ticket[T]{v, time.Now(), ends.prev, ends}
	ends.prev.next, ends.prev = t, t
}

// front returns what has waited longest, nil when nothing waits.
func (q *queue[T]) front() *ticket[T] {
	if q.ends.next == nil || q.ends.next == &q.ends {
		return nil
	}
	return q.ends.next
}

// add puts v at the end, with t for its place. It does nothing after stop.
func (e *expiry[T]) add(t *ticket[T], v T) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return
	}
	e.waiting.push(t, v)
	if !e.armed && e.after >= 0 {
		e.arm(e.after)
	}
}

// remove takes out what add put in, if it is still there.
func (e *expiry[T]) remove(t *ticket[T]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.leave()
}

// peekOldest returns what has waited longest, and since when.
func (e *expiry[T]) peekOldest() (v T, since time.Time, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if front := e.waiting.front(); front != nil {
		return front.value, front.since, true
	}
	return v, since, false
}

// oldest takes out what has waited longest.
func (e *expiry[T]) oldest() (v T, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	front := e.waiting.front()
	if front == nil {
		return v, false
	}
	v = front.value
	front.leave()
	return v, true
}

// stop forgets everything.
func (e *expiry[T]) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	for front := e.waiting.front(); front != nil; front = e.waiting.front() {
		front.leave()
	}
	if e.timer != nil {
		e.timer.Stop()
	}
}

// arm is called with mu held.
func (e *expiry[T]) arm(d time.Duration) {
	e.armed = true
	if e.timer == nil {
		e.timer = time.AfterFunc(d, e.expire)
	} else {
		e.timer.Reset(d)
	}
}

// expire gives up what is due and waits for the next.
func (e *expiry[T]) expire() {
	for _, v := range e.due() {
		e.expel(v)
	}
}

func (e *expiry[T]) due() (due []T) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.armed = false
	now := time.Now()
	for front := e.waiting.front(); front != nil; front = e.waiting.front() {
		if left := e.after - now.Sub(front.since); left > 0 {
			e.arm(left)
			break
		}
		due = append(due, front.value)
		front.leave()
	}
	return due
}
