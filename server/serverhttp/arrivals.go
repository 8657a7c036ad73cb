package serverhttp

import (
	"sync"
	"time"
)

// arrivalParts is in how many parts the time for a body is divided. It may take
// longer by one of them, and that often a timer goes off while bodies arrive.
const arrivalParts = 8

// arrivals are the bodies that are being read, and ends the reading of those
// that take too long. Nearly all are there at once: for them it costs a lock,
// but no deadline of the connection and no look at the clock. One timer serves
// all of them.
type arrivals struct {
	limit time.Duration // negative: none

	mu    sync.Mutex
	list  arrival // the head of a ring, in the order in which they began
	now   uint32  // how often the timer has gone off
	timer *time.Timer
	armed bool
}

// An arrival is a body that is being read.
type arrival struct {
	prev, next *arrival   // nil: it is not in the list
	deadline   *deadlines // of its connection; nil: the time is not limited
	since      uint32
	late       bool // the connection has a deadline in the past
}

func (a *arrivals) begin(b *arrival, deadline *deadlines) {
	if a.limit < 0 || deadline.none {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.list.next == nil {
		a.list.prev, a.list.next = &a.list, &a.list
	}
	b.deadline, b.since = deadline, a.now
	b.prev, b.next = a.list.prev, &a.list
	b.prev.next, b.next.prev = b, b
	if !a.armed {
		a.arm()
	}
}

// end takes out what begin put in, if it did. The deadline of one that was late
// stays, so that nobody waits for the rest, unless it has become whole just so:
// it would look like a client that went away.
func (a *arrivals) end(b *arrival, whole bool) {
	if b.deadline == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !b.late:
		b.remove()
	case whole:
		b.deadline.read(time.Time{})
	}
}

func (b *arrival) remove() {
	b.prev.next, b.next.prev = b.next, b.prev
	b.prev, b.next = nil, nil
}

// arm is called with mu held.
func (a *arrivals) arm() {
	a.armed = true
	if part := max(a.limit/arrivalParts, 1); a.timer == nil {
		a.timer = time.AfterFunc(part, a.tick)
	} else {
		a.timer.Reset(part)
	}
}

// tick ends what has been in the list for the whole time. The lock is held while
// it does: a response may not be touched when its handler has returned, which
// end keeps it from.
func (a *arrivals) tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now++
	a.armed = false
	for b := a.list.next; b != &a.list; b = a.list.next {
		if a.now-b.since <= arrivalParts {
			a.arm()
			return
		}
		b.remove()
		b.late = true
		b.deadline.read(time.Unix(1, 0))
	}
}
