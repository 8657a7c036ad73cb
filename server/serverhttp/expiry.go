package serverhttp

import (
	"container/list"
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
	waiting list.List // of entry[T], in the order in which they came
	timer   *time.Timer
	armed   bool
	stopped bool
}

type entry[T any] struct {
	value T
	since time.Time
}

// A ticket is a place in an [expiry]; nil is none.
type ticket = *list.Element

// add puts v at the end. It returns nil after stop.
func (e *expiry[T]) add(v T) ticket {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return nil
	}
	t := e.waiting.PushBack(entry[T]{v, time.Now()})
	if !e.armed && e.after >= 0 {
		e.arm(e.after)
	}
	return t
}

// remove takes out what add put in, if it is still there.
func (e *expiry[T]) remove(t ticket) {
	if t == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.stopped { // the list would not know that it has let go of t
		e.waiting.Remove(t) // does nothing when t is in the list no more
	}
}

// oldest takes out what has waited longest.
func (e *expiry[T]) oldest() (v T, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	front := e.waiting.Front()
	if front == nil {
		return v, false
	}
	return e.waiting.Remove(front).(entry[T]).value, true
}

// stop forgets everything.
func (e *expiry[T]) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	e.waiting.Init()
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
	for front := e.waiting.Front(); front != nil && !e.stopped; front = e.waiting.Front() {
		first := front.Value.(entry[T])
		if left := e.after - now.Sub(first.since); left > 0 {
			e.arm(left)
			break
		}
		e.waiting.Remove(front)
		due = append(due, first.value)
	}
	return due
}
