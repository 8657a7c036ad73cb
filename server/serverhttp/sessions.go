package serverhttp

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/wire/replay"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// A session is one legacy client, from initialize until it is deleted, expires, or the handler
// shuts down. An idle session has no goroutine and no timer.
type session struct {
	id        string
	core      *server.Session
	principal protocol.Principal
	log       *replay.Log

	cost int64 // counted in sessions.bytes

	// Guarded by the mutex of the table.
	busy    int                    // HTTP requests and calls in flight
	running int                    // calls in flight, except those that wait for a person
	inIdle  recent.Entry[*session] // in sessions.idle while idle
	inOwn   recent.Entry[*session] // in sessions.idleOf while idle
}

const (
	sessionCost = 4 << 10 // bytes, without the parameters of initialize
	// minEvictIdle is the idle time before an eviction. Active clients send more often, or listen.
	minEvictIdle = time.Minute
	eventLife    = 5 * time.Minute // of ended streams; clients reconnect in seconds
)

type sessionTable struct {
	maxRunning   int
	count, bytes *quota.Pool[protocol.Principal] // of sessions, including those being opened
	idle         *recent.Queue[*session]
	logs         *replay.Shared
	events       *quota.Pool[protocol.Principal] // bytes in the logs

	mu   sync.Mutex
	byID map[string]*session
	// by principal with sessions
	idleOf map[protocol.Principal]*recent.List[*session]
	closed bool          // no new sessions
	ended  bool          // no new GET streams either
	empty  chan struct{} // made by drainSessions, closed when no session is open

	newID func() string // returns a new session id
}

func newSessions(o *Options) *sessionTable {
	pool := func(total, share int64) *quota.Pool[protocol.Principal] {
		return quota.New(quota.Options[protocol.Principal]{
			Total: total, Share: share, Authenticates: o.authenticates(),
			Local: protocol.LocalPrincipal(),
		})
	}
	handshakes := max(int64(o.Limits.Sessions)*handshakeBytes, minHandshakeBytes)
	t := &sessionTable{
		maxRunning: o.Limits.RequestsPerSession,
		count:      pool(int64(o.Limits.Sessions), int64(o.Limits.SessionsPerPrincipal)),
		bytes:      pool(handshakes, quota.ShareOf(handshakes)),
		logs:       replay.NewShared(o.tuning.bytesPerSession, eventLife),
		events:     pool(o.tuning.allBytes, quota.ShareOf(o.tuning.allBytes)),
		byID:       map[string]*session{},
		newID:      rand.Text, // 130 bits
		idleOf:     map[protocol.Principal]*recent.List[*session]{},
	}
	t.idle = recent.NewQueue(o.SessionTimeout, t.expireSession)
	return t
}

type eventAccount struct {
	pool  *quota.Pool[protocol.Principal]
	owner protocol.Principal
}

func (a eventAccount) ForceTake(n int64)         { a.pool.ForceTake(a.owner, n) }
func (a eventAccount) Give(n int64)              { a.pool.Give(a.owner, n) }
func (a eventAccount) FindExceeded() quota.Limit { return a.pool.FindExceeded(a.owner) }

type eviction struct {
	session *session
	idle    time.Duration
	limit   quota.Limit // the exceeded limit
}

// reserveRoom reserves room for a session of p. The caller must end the evicted sessions.
func (t *sessionTable) reserveRoom(p protocol.Principal,
	cost int64) (evicted []eviction, refused *fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		limit, option := t.takeRoomLocked(p, cost)
		if limit == quota.None {
			return evicted, nil
		}
		oldest, since := t.oldestIdleLocked(p, limit)
		idle := time.Duration(0)
		if oldest != nil {
			idle = time.Since(since)
		}
		if idle < minEvictIdle {
			return evicted, roomFault(p, limit, option, minEvictIdle-idle)
		}
		t.dropLocked(oldest)
		evicted = append(evicted, eviction{oldest, idle, limit})
	}
}

// takeRoomLocked counts a session of p, or returns the limit that it would exceed, with its option.
func (t *sessionTable) takeRoomLocked(p protocol.Principal,
	cost int64) (limit quota.Limit, option string) {
	switch limit = t.count.Take(p, 1); limit {
	case quota.Total:
		return limit, "Limits.Sessions"
	case quota.Share:
		return limit, "Limits.SessionsPerPrincipal"
	}
	if limit = t.bytes.Take(p, cost); limit != quota.None {
		t.count.Give(p, 1)
	}
	return limit, "Limits.Sessions" // the bytes depend on it too
}

func (t *sessionTable) giveReserved(p protocol.Principal, cost int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.giveRoomLocked(p, cost)
}

// giveRoomLocked gives back the room of a session of p, and with p's last session its queue.
func (t *sessionTable) giveRoomLocked(p protocol.Principal, cost int64) {
	t.count.Give(p, 1)
	t.bytes.Give(p, cost)
	if t.count.UsedBy(p) == 0 {
		delete(t.idleOf, p)
	}
}

// oldestIdleLocked returns the session to evict: p's, if p's share is used up or p has an idle one.
func (t *sessionTable) oldestIdleLocked(p protocol.Principal,
	limit quota.Limit) (s *session, since time.Time) {
	if own := t.idleOf[p]; own != nil {
		oldest := own.Oldest()
		if oldest != nil && (limit == quota.Share || time.Since(oldest.Since()) >= minEvictIdle) {
			return oldest.Value(), oldest.Since()
		}
	}
	if limit == quota.Total {
		s, since, _ = t.idle.PeekOldest()
	}
	return s, since
}

func roomFault(p protocol.Principal, limit quota.Limit, option string, after time.Duration) *fault {
	why := "too many sessions are open"
	if limit == quota.Share {
		why = "too many sessions of this principal are open"
	}
	f := busyFault(http.StatusServiceUnavailable, words.RefusedSessions, limit, after, why)
	f.principal = p
	f.cause = fmt.Errorf("%s, and none has been idle for %s (serverhttp.Options.%s)", why,
		minEvictIdle, option)
	return f
}

func (t *sessionTable) dropLocked(s *session) bool {
	if t.byID[s.id] != s {
		return false
	}
	delete(t.byID, s.id)
	t.endIdleLocked(s)
	t.giveRoomLocked(s.principal, s.cost)
	t.closeIfEmptyLocked()
	return true
}

func (t *sessionTable) beginIdleLocked(s *session) {
	own := t.idleOf[s.principal]
	if own == nil {
		own = &recent.List[*session]{}
		t.idleOf[s.principal] = own
	}
	own.Append(&s.inOwn, s)
	t.idle.Add(&s.inIdle, s)
}

func (t *sessionTable) endIdleLocked(s *session) {
	t.idle.Remove(&s.inIdle)
	s.inOwn.Unlink()
}

// newLog returns the log of a session of p, which must be ended.
func (t *sessionTable) newLog(p protocol.Principal) *replay.Log {
	return replay.NewLog(replay.LogOptions{
		Shared: t.logs, Account: eventAccount{t.events, p}, Tag: rand.Text()[:6],
	})
}

// addSession adds s, with reserved room, as idle. It reports false if the table is closed.
func (t *sessionTable) addSession(s *session) bool {
	s.id = t.newID()
	if s.core.Version() >= protocol.V20251125 {
		s.log.PrimeStreams()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		t.giveRoomLocked(s.principal, s.cost)
		return false
	}
	t.byID[s.id] = s
	t.beginIdleLocked(s)
	return true
}

// acquireSession returns a session of p by id, which cannot expire until releaseSession.
func (t *sessionTable) acquireSession(id string, p protocol.Principal) (*session, *fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	if s == nil || s.principal != p {
		return nil, sessionGoneFault()
	}
	t.holdLocked(s)
	return s, nil
}

func (t *sessionTable) holdLocked(s *session) {
	if s.busy == 0 {
		t.endIdleLocked(s)
	}
	s.busy++
}

func (t *sessionTable) releaseSession(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.busy--
	if s.busy == 0 && t.byID[s.id] == s {
		t.beginIdleLocked(s)
	}
}

// limitSession is the limit of one session, besides those of server and principal.
const limitSession quota.Limit = "session"

// beginCalls counts n calls of an acquired session. Each holds the session until finishCall.
func (t *sessionTable) beginCalls(s *session, n int) *fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.running+n > t.maxRunning {
		f := busyFault(http.StatusTooManyRequests, words.RefusedRequests, limitSession,
			time.Second, "too many requests of this session are running")
		f.principal = s.principal
		f.cause = fmt.Errorf("%d requests of this session are running "+
			"(serverhttp.Options.Limits.RequestsPerSession)", s.running)
		return f
	}
	s.running += n
	for range n {
		t.holdLocked(s)
	}
	return nil
}

func (t *sessionTable) cancelBegun(s *session, n int) {
	t.mu.Lock()
	s.running -= n
	t.mu.Unlock()
	for range n {
		t.releaseSession(s)
	}
}

// setWaiting sets whether a call waits for a person. A call that resumes may exceed the limit.
func (t *sessionTable) setWaiting(c *call, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case c.finished || c.waits == waits:
		return
	case waits:
		c.session.running--
	default:
		c.session.running++
	}
	c.waits = waits
}

// finishCall ends one call of beginCalls. A goroutine of its handler may still call setWaiting.
func (t *sessionTable) finishCall(c *call) {
	t.mu.Lock()
	if !c.waits {
		c.session.running--
	}
	c.finished = true
	t.mu.Unlock()
	t.releaseSession(c.session)
}

// expireSession ends an idle session, unless it has become busy.
func (t *sessionTable) expireSession(s *session) {
	t.mu.Lock()
	expired := s.busy == 0 && t.dropLocked(s)
	t.mu.Unlock()
	if expired {
		s.endSession()
	}
}

// removeSession ends a session that its client deletes, or reports false if it has already ended.
func (t *sessionTable) removeSession(s *session) bool {
	t.mu.Lock()
	open := t.dropLocked(s)
	t.mu.Unlock()
	if open {
		s.endSession()
	}
	return open
}

func (t *sessionTable) closeForNew() {
	t.mu.Lock()
	t.closed, t.ended = true, true
	all := slices.Collect(maps.Values(t.byID))
	t.mu.Unlock()
	for _, s := range all {
		s.log.EndListeners()
	}
}

func (t *sessionTable) refusesNew() (sessions, streams bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed, t.ended
}

// drainSessions refuses new sessions, and returns a channel that is closed when none is open.
func (t *sessionTable) drainSessions() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.empty == nil {
		t.empty = make(chan struct{})
		t.closeIfEmptyLocked()
	}
	return t.empty
}

func (t *sessionTable) closeIfEmptyLocked() {
	if t.empty == nil || len(t.byID) > 0 {
		return
	}
	select {
	case <-t.empty:
	default:
		close(t.empty)
	}
}

// endAll ends all sessions, after the last request.
func (t *sessionTable) endAll() {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.byID))
	for _, s := range all {
		t.dropLocked(s)
	}
	t.mu.Unlock()
	t.idle.Stop()
	t.logs.Stop()
	for _, s := range all {
		s.endSession()
	}
}

// endSession ends the streams, cancels the calls and fails pushed questions.
func (s *session) endSession() {
	s.log.End()
	s.core.Close()
}

func shutdownFault() *fault {
	f := busyFault(http.StatusServiceUnavailable, words.RefusedClosing, quota.None, time.Second,
		"")
	f.err = waiting.RefuseClosing()
	return f
}
