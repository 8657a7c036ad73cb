package serverhttp

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/roundtrip"
)

const (
	// maxBacklog is how many bytes may wait for a connection that is open. A
	// handler that says more waits until the client has taken some.
	maxBacklog = 64 << 10
	// maxGets is how many GET streams a session keeps, open or to be resumed.
	// One suffices; the others are those of connections that broke.
	maxGets = 4
	// eventCost and streamCost are what an event and a stream count beside the
	// text, so that many small ones cannot take more memory than is counted.
	eventCost  = 64
	streamCost = 512
	// eventLife is how long the events of a stream that has ended are kept for
	// a client that has not received them all. Who resumes does so in seconds.
	eventLife = 5 * time.Minute
)

var (
	errSessionEnded = errors.New("serverhttp: the session has ended")
	errUnreachable  = errors.New("serverhttp: the client has gone and cannot come back for this stream")
)

// A store is what the logs of a handler share: the bound on all they keep, and
// the streams that have ended, to be dropped first.
type store struct {
	perLog   int64
	used     *quota.Pool[roundtrip.Principal] // bytes
	finished expiry[*stream]
}

func newStore(perLog int64, used *quota.Pool[roundtrip.Principal]) *store {
	s := &store{perLog: perLog, used: used}
	s.finished.after = eventLife
	s.finished.expel = (*stream).forget
	return s
}

// trim drops streams that have ended until the total is kept. It is called
// without any lock held. What is left is bounded by the logs themselves.
func (s *store) trim(owner roundtrip.Principal) {
	for s.used.FindExceeded(owner) == quota.Total {
		oldest, ok := s.finished.oldest()
		if !ok {
			return
		}
		oldest.forget()
	}
}

// An eventLog holds what a session has to say, by stream, until it is received
// or given up. A message belongs to exactly one stream.
//
//	handler ── send ──→ stream ── take ──→ connection ──→ client
//	                      └── kept for ── resume ──→ another connection
type eventLog struct {
	store *store
	owner roundtrip.Principal
	tag   string // of event ids; empty: nothing is kept and nothing can be resumed
	prime bool   // streams begin with an event id, which tells clients that they may resume

	mu      sync.Mutex
	streams []*stream // that have a number, ascending
	last    uint64    // the last number given
	gets    []*stream // those for messages that relate to no request, oldest first
	bytes   int64     // kept, counted in store.used too
	ended   bool
	over    chan struct{} // closed when ended, nil: never
}

// cost is what an event counts.
func cost(event []byte) int64 { return int64(cap(event)) + eventCost }

// find returns the stream with a number, nil if it is not known any more.
func (l *eventLog) find(number uint64) *stream {
	if i, ok := l.index(number); ok {
		return l.streams[i]
	}
	return nil
}

// index returns where the stream with a number is, or would be.
func (l *eventLog) index(number uint64) (int, bool) {
	return slices.BinarySearchFunc(l.streams, number, func(s *stream, n uint64) int { return cmp.Compare(s.number, n) })
}

// number gives s its number and with it a place in the log.
func (l *eventLog) number(s *stream) {
	if s.number != 0 || l.ended {
		return
	}
	l.last++
	s.number = l.last
	l.streams = append(l.streams, s)
	l.count(streamCost)
	for _, e := range s.events {
		l.count(cost(e))
	}
}

func (l *eventLog) count(n int64) {
	if l.store == nil || l.ended {
		return
	}
	l.bytes += n
	if n < 0 {
		l.store.used.Give(l.owner, -n)
	} else {
		l.store.used.ForceTake(l.owner, n)
	}
}

// remove takes s, which has a number, out of the log, with all it holds.
func (l *eventLog) remove(s *stream) {
	if s.removed {
		return
	}
	l.count(-streamCost)
	if i, ok := l.index(s.number); ok && i == 0 { // the oldest, as a rule
		l.streams[0] = nil
		l.streams = l.streams[1:]
	} else if ok {
		l.streams = slices.Delete(l.streams, i, i+1)
	}
	l.gets = slices.DeleteFunc(l.gets, func(other *stream) bool { return other == s })
	for len(s.events) > 0 {
		s.drop()
	}
	s.removed = true
}

// evict drops events until the bound of the log is kept.
func (l *eventLog) evict() {
	if l.store == nil || l.ended {
		return
	}
	l.evictWhile(func() bool { return l.bytes > l.store.perLog })
}

// evictAll is the last resort when all logs together hold too much and nothing
// of it has ended, or all those of a principal: who adds pays.
func (l *eventLog) evictAll() {
	l.evictWhile(func() bool { return l.store.used.FindExceeded(l.owner) != quota.None })
}

// evictWhile drops events and streams that have ended, for as long as there is
// too much: those first that have been sent, or for which nobody waits at
// present.
func (l *eventLog) evictWhile(over func() bool) {
	for i := 0; i < len(l.streams) && over(); {
		s := l.streams[i]
		for over() && s.spare() {
			s.drop()
		}
		if s.done && len(s.events) == 0 && s.conn == nil {
			l.store.finished.remove(&s.ticket)
			l.remove(s) // and the next one takes its place
		} else {
			i++
		}
	}
}

// settle keeps the bounds after something was added. It is called with mu held
// and releases it.
func (l *eventLog) settle() {
	l.evict()
	full := l.store != nil && l.store.used.FindExceeded(l.owner) != quota.None
	l.mu.Unlock()
	if !full {
		return
	}
	l.store.trim(l.owner)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.evictAll()
}

// end lets what has been said go out and takes no more.
func (l *eventLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	if l.store != nil {
		l.store.used.Give(l.owner, l.bytes)
	}
	l.bytes, l.ended = 0, true
	for _, s := range l.streams {
		if l.store != nil {
			l.store.finished.remove(&s.ticket)
		}
	}
	l.streams, l.gets = nil, nil
	if l.over != nil {
		close(l.over)
	}
}
