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
	waiting ticket[T] // the ends of a ring of those that wait, in the order in which they came
	timer   *time.Timer
	armed   bool
	stopped bool
}

// A ticket is a place in an [expiry]. It is part of what waits there, so that
// waiting takes no memory either. The zero ticket is no place.
type ticket[T any] struct {
	value      T
	since      time.Time
	prev, next *ticket[T] // nil: it is in no expiry
}

// leave takes t out of its ring.
func (t *ticket[T]) leave() {
	t.prev.next, t.next.prev = t.next, t.prev
	*t = ticket[T]{}
}

// add puts v at the end, with t for its place. It does nothing after stop.
func (e *expiry[T]) add(t *ticket[T], v T) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return
	}
	if t.next != nil {
		t.leave()
	}
	ends := &e.waiting
	if ends.next == nil {
		ends.prev, ends.next = ends, ends
	}
	*t = ticket[T]{v, time.Now(), ends.prev, ends}
	ends.prev.next, ends.prev = t, t
	if !e.armed && e.after >= 0 {
		e.arm(e.after)
	}
}

// front returns what has waited longest, nil when nothing waits. It is called
// with mu held.
func (e *expiry[T]) front() *ticket[T] {
	if e.waiting.next == nil || e.waiting.next == &e.waiting {
		return nil
	}
	return e.waiting.next
}

// remove takes out what add put in, if it is still there.
func (e *expiry[T]) remove(t *ticket[T]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.next != nil {
		t.leave()
	}
}

// oldest takes out what has waited longest.
func (e *expiry[T]) oldest() (v T, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	front := e.front()
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
	for front := e.front(); front != nil; front = e.front() {
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
	for front := e.front(); front != nil; front = e.front() {
		if left := e.after - now.Sub(front.since); left > 0 {
			e.arm(left)
			break
		}
		due = append(due, front.value)
		front.leave()
	}
	return due
}
