package serverhttp

import (
	"net/http"
	"sync"
	"time"
)

type connDeadlines struct {
	w http.ResponseWriter // nil without deadlines, as in tests or behind a wrapper that hides them
}

// deadlinesOf avoids the error that [http.ResponseController] would allocate.
func deadlinesOf(w http.ResponseWriter) connDeadlines {
	switch w.(type) {
	case interface{ SetWriteDeadline(time.Time) error }, interface{ Unwrap() http.ResponseWriter }:
		return connDeadlines{w: w}
	}
	return connDeadlines{}
}

func (d *connDeadlines) exist() bool { return d.w != nil }

func (d *connDeadlines) setRead(t time.Time) {
	if d.exist() && http.NewResponseController(d.w).SetReadDeadline(t) != nil {
		d.w = nil
	}
}

func (d *connDeadlines) setWrite(t time.Time) {
	if d.exist() && http.NewResponseController(d.w).SetWriteDeadline(t) != nil {
		d.w = nil
	}
}

// A bodyDeadline interrupts the reading of a slow body with a read deadline in the past. A deadline
// set in advance would replace that of the [http.Server], which may be earlier. One queue with one
// timer serves all requests, so a body that is already there allocates nothing.
type bodyDeadline struct {
	conn *connDeadlines // nil for no limit

	mu      sync.Mutex // held while setting the deadline: w is invalid after its handler
	expired bool       // the deadline has been set
	stopped bool
}

func (rw *responseWriter) startBody() {
	if rw.deadline.exist() {
		rw.body.conn = &rw.deadline
		rw.h.bodies.Add(&rw.place, rw)
	}
}

func (rw *responseWriter) expireBody() {
	b := &rw.body
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		b.expired = true
		b.conn.setRead(time.Unix(1, 0))
	}
}

// stopBody is called after reading. An expired deadline stays, so that net/http does not wait for
// the rest; after a complete body it is reset, because it would look like a disconnect.
func (rw *responseWriter) stopBody(whole bool) {
	b := &rw.body
	if b.conn == nil {
		return
	}
	rw.h.bodies.Remove(&rw.place)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	if b.expired && whole {
		b.conn.setRead(time.Time{})
	}
}
