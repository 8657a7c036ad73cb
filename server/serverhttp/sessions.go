package serverhttp

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// A session is one client of a legacy revision, from initialize until it is
// deleted, expires, or the handler shuts down. Nothing runs for one that is
// idle.
type session struct {
	id        string
	core      *server.Session
	principal roundtrip.Principal
	log       eventLog

	// Guarded by the mutex of the table.
	busy    int              // HTTP requests and calls under way
	running int              // calls alone
	ticket  ticket[*session] // in sessions.idle while nothing is under way
}

// sessions is the table of all sessions of a handler.
type sessions struct {
	max, maxEach, maxRunning int
	idle                     expiry[*session]
	store                    *store

	mu      sync.Mutex
	byID    map[string]*session
	opening int                         // that are not in the table yet
	owned   map[roundtrip.Principal]int // how many are whose, those that are opening included
	closed  bool
}

func newSessions(o *Options) *sessions {
	t := &sessions{
		max: o.MaxSessions, maxEach: o.MaxPrincipalSessions, maxRunning: o.MaxSessionRequests,
		store: newStore(o.MaxSessionBytes, o.MaxEventBytes),
		byID:  map[string]*session{},
		owned: map[roundtrip.Principal]int{},
	}
	t.idle.after = o.SessionTimeout
	t.idle.expel = t.expire
	return t
}

// reserve makes room for a session that p is about to open.
func (t *sessions) reserve(p roundtrip.Principal) *fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return shuttingDown()
	}
	if len(t.byID)+t.opening >= t.max {
		return noRoom(p, "too many sessions are open",
			fmt.Errorf("%d sessions are open (serverhttp.Options.MaxSessions)", t.max))
	}
	if t.owned[p] >= t.maxEach {
		return noRoom(p, "too many sessions of this principal are open",
			fmt.Errorf("%d sessions of this principal are open (serverhttp.Options.MaxPrincipalSessions)", t.maxEach))
	}
	t.opening++
	t.owned[p]++
	return nil
}

// noRoom refuses to open a session of p.
func noRoom(p roundtrip.Principal, why string, cause error) *fault {
	f := busy(http.StatusServiceUnavailable, roundtrip.RefusedSessions, time.Minute, why)
	f.principal, f.cause = p, cause
	return f
}

// cancel gives the room back.
func (t *sessions) cancel(p roundtrip.Principal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opening--
	t.disown(p)
}

// disown is called with mu held.
func (t *sessions) disown(p roundtrip.Principal) {
	if t.owned[p]--; t.owned[p] <= 0 {
		delete(t.owned, p)
	}
}

// drop takes s out of the table. It reports false when it is not in there any
// more. It is called with mu held.
func (t *sessions) drop(s *session) bool {
	if t.byID[s.id] != s {
		return false
	}
	delete(t.byID, s.id)
	t.disown(s.principal)
	return true
}

// open enters s, for which room was reserved, under a new id. The session is
// idle. It reports false when the table has closed meanwhile.
func (t *sessions) open(s *session) bool {
	s.id = rand.Text() // 130 bits
	s.log.store, s.log.tag, s.log.over = t.store, rand.Text()[:6], make(chan struct{})
	s.log.prime = s.core.Version() >= protocol.V20251125
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opening--
	if t.closed {
		t.disown(s.principal)
		return false
	}
	t.byID[s.id] = s
	t.idle.add(&s.ticket, s)
	return true
}

// acquire returns the session with an id, if it is the principal's, and keeps
// it from expiring until release. That there is one of somebody else's is not
// told.
func (t *sessions) acquire(id string, p roundtrip.Principal) (*session, *fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	if s == nil || s.principal != p {
		return nil, sessionGone()
	}
	t.hold(s)
	return s, nil
}

// hold is called with mu held.
func (t *sessions) hold(s *session) {
	if s.busy == 0 {
		t.idle.remove(&s.ticket)
	}
	s.busy++
}

func (t *sessions) release(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.busy--
	if s.busy == 0 && t.byID[s.id] == s {
		t.idle.add(&s.ticket, s)
	}
}

// begin counts n calls of a session that is held, or says that they are too
// many. Each of them holds the session until finished.
func (t *sessions) begin(s *session, n int) *fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.running+n > t.maxRunning {
		f := busy(http.StatusTooManyRequests, roundtrip.RefusedRequests, time.Second, "too many requests of this session are running")
		f.principal = s.principal
		f.cause = fmt.Errorf("%d requests of this session are running (serverhttp.Options.MaxSessionRequests)", s.running)
		return f
	}
	s.running += n
	for range n {
		t.hold(s)
	}
	return nil
}

func (t *sessions) finished(s *session) {
	t.mu.Lock()
	s.running--
	t.mu.Unlock()
	t.release(s)
}

// expire ends a session that has been idle for too long, unless it is not any
// more.
func (t *sessions) expire(s *session) {
	t.mu.Lock()
	expired := s.busy == 0 && t.drop(s)
	t.mu.Unlock()
	if expired {
		s.end()
	}
}

// remove ends a session on its client's wish. It reports false when it has
// ended already.
func (t *sessions) remove(s *session) bool {
	t.mu.Lock()
	open := t.drop(s)
	t.mu.Unlock()
	if open {
		s.end()
	}
	return open
}

// close opens no more sessions and ends the streams that would not end by
// themselves.
func (t *sessions) close() {
	t.mu.Lock()
	t.closed = true
	all := t.all()
	t.mu.Unlock()
	for _, s := range all {
		s.log.endGets()
	}
}

func (t *sessions) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// end ends all sessions. Requests are not taken any more by then.
func (t *sessions) end() {
	t.mu.Lock()
	all := t.all()
	for _, s := range all {
		t.drop(s)
	}
	t.mu.Unlock()
	t.idle.stop()
	t.store.finished.stop()
	for _, s := range all {
		s.end()
	}
}

// all is called with mu held.
func (t *sessions) all() []*session {
	all := make([]*session, 0, len(t.byID))
	for _, s := range t.byID {
		all = append(all, s)
	}
	return all
}

// end ends the streams, cancels what runs and lets pushes fail. What handlers
// make of that is not sent any more: the session is gone.
func (s *session) end() {
	s.log.end()
	s.core.Close()
}

func shuttingDown() *fault {
	return busy(http.StatusServiceUnavailable, roundtrip.RefusedClosing, time.Second, "server is shutting down")
}
