// Package replay keeps what a server sends to the client of a session, so that a client whose
// connection broke can resume ("Resumability and Redelivery" of the Streamable HTTP transport,
// revisions 2025-03-26 to 2025-11-25). No receipt reaches a server: an event is kept until it is
// evicted, its stream has been over for a while, or the session ends.
//
//	handler ── Send ──→ Stream ── Next ──→ Reader ──→ HTTP response
//	                      └─ kept for ─ Resume ─→ another Reader
//
// A [Log] belongs to one session, a [Stream] to one POST of it or to its GET
// streams, a [Reader] to one HTTP response. A message is in exactly one stream,
// and a stream has at most one reader at a time.
//
// One mutex guards a log with its streams and their readers. What is kept is
// bounded three times: by log, by [Account] and for all logs together; who adds an
// event over a bound evicts, never who reads.
package replay

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
)

const (
	// maxBacklog is how many bytes may be queued for a reader. A handler that
	// sends more waits until the client has taken some (back-pressure).
	maxBacklog = 64 << 10
	// maxListeners is how many GET streams a session keeps, open or to be resumed.
	// One suffices; the others are left over from connections that broke.
	maxListeners = 4
	// eventOverhead and streamOverhead are what an event and a stream count beside
	// the text, so that many small ones take no more memory than is counted.
	eventOverhead  = 64
	streamOverhead = 512
)

var (
	// ErrLogEnded is returned once the session has ended.
	ErrLogEnded = errors.New("replay: the session has ended")
	// ErrStreamEnded is returned once the last response of a stream was sent.
	ErrStreamEnded = errors.New("replay: the request has been answered")
	// ErrUnreachable is returned when no reader is attached and none can be: the
	// client was given no event id to come back with.
	ErrUnreachable = errors.New("replay: the client has gone and cannot come back for this stream")
	// ErrSlowReader is returned by SendUnrelated when the client takes nothing.
	ErrSlowReader = errors.New("replay: the client does not take what it is sent")
	// ErrUnknownEvent is returned by Resume.
	ErrUnknownEvent = errors.New("replay: no such event, or what followed it is not kept any more")
)

// LogOptions describe the log of a session.
type LogOptions struct {
	Shared  *Shared
	Account Account
	// Tag begins the ids of all events. It should be random.
	Tag string
}

// A Log holds the messages for the client of one session, by stream, until they are evicted or
// forgotten with their stream. All methods may be called concurrently.
//
// The zero Log keeps nothing: its streams cannot be resumed. It serves clients without a session.
type Log struct {
	shared      *Shared // nil: nothing is counted
	account     Account
	tag         string // "": nothing is kept, nothing can be resumed
	prime       bool
	endedSignal chan struct{} // closed by End, nil: never

	mu         sync.Mutex
	streams    []*Stream // those that have a number, ascending
	lastNumber uint64
	listeners  []*Stream // of GET, for messages that relate to no request, oldest first
	bytes      int64     // that are kept, counted in account, too
	ended      bool
}

// NewLog returns the log of a session.
func NewLog(o LogOptions) *Log {
	return &Log{shared: o.Shared, account: o.Account, tag: o.Tag, endedSignal: make(chan struct{})}
}

// PrimeStreams has each stream begin with an event without data, whose id lets the client resume
// before the first message (since revision 2025-11-25). It must precede the first reader.
func (l *Log) PrimeStreams() { l.prime = true }

// End ends the log. Readers send what has been added, and nothing is added any more.
func (l *Log) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	if l.shared != nil {
		l.account.Give(l.bytes)
		for _, s := range l.streams {
			l.shared.ended.Remove(&s.entry)
		}
	}
	l.bytes, l.ended = 0, true
	l.streams, l.listeners = nil, nil
	if l.endedSignal != nil {
		close(l.endedSignal)
	}
}

// eventCost is what an event counts.
func eventCost(event []byte) int64 { return int64(cap(event)) + eventOverhead }

func (l *Log) findStreamLocked(number uint64) *Stream {
	if i, ok := l.indexLocked(number); ok {
		return l.streams[i]
	}
	return nil
}

// indexLocked returns where the stream with a number is, or would be.
func (l *Log) indexLocked(number uint64) (int, bool) {
	return slices.BinarySearchFunc(l.streams, number, func(s *Stream, n uint64) int {
		return cmp.Compare(s.number, n)
	})
}

// registerLocked gives s a number, unless it has one. From then on its events have ids and count.
func (l *Log) registerLocked(s *Stream) {
	if s.number != 0 || l.ended {
		return
	}
	l.lastNumber++
	s.number = l.lastNumber
	l.streams = append(l.streams, s)
	l.countLocked(streamOverhead)
	for _, e := range s.events {
		l.countLocked(eventCost(e))
	}
}

func (l *Log) countLocked(n int64) {
	if l.shared == nil || l.ended {
		return
	}
	l.bytes += n
	if n < 0 {
		l.account.Give(-n)
	} else {
		l.account.ForceTake(n)
	}
}

// removeLocked removes s, which has a number, with all its events.
func (l *Log) removeLocked(s *Stream) {
	if s.removed {
		return
	}
	l.countLocked(-streamOverhead)
	if i, ok := l.indexLocked(s.number); ok && i == 0 { // the oldest, as a rule
		l.streams[0] = nil
		l.streams = l.streams[1:]
	} else if ok {
		l.streams = slices.Delete(l.streams, i, i+1)
	}
	l.listeners = slices.DeleteFunc(l.listeners, func(other *Stream) bool { return other == s })
	for len(s.events) > 0 {
		s.dropOldestLocked()
	}
	s.removed = true
}

// applyChange runs change with mu held and afterwards enforces the bounds. The streams
// that are evicted for the total belong to other logs, so that part runs without
// the lock. All that adds events or detaches a reader goes through update.
func (l *Log) applyChange(change func() error) error {
	exceeded, err := l.updateOnce(change)
	if !exceeded {
		return err
	}
	l.shared.evictEnded(l.account)
	l.mu.Lock()
	defer l.mu.Unlock()
	// The last resort: nothing else has ended, so who adds pays.
	l.evictWhileLocked(func() bool { return l.account.FindExceeded() != quota.None })
	return err
}

// updateOnce enforces the bound of this log, and reports whether another bound is exceeded.
func (l *Log) updateOnce(change func() error) (exceeded bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err = change()
	if l.shared == nil || l.ended {
		return false, err
	}
	l.evictWhileLocked(func() bool { return l.bytes > l.shared.maxLogBytes })
	return l.account.FindExceeded() != quota.None, err
}

// evictWhileLocked evicts events, and streams that have ended and are empty, while
// exceeded reports true. It evicts events that were sent or whose stream has no reader
// at present; those that an attached reader has yet to send stay.
func (l *Log) evictWhileLocked(exceeded func() bool) {
	for i := 0; i < len(l.streams) && exceeded(); {
		s := l.streams[i]
		for exceeded() && s.canDropLocked() {
			s.dropOldestLocked()
		}
		if s.done && len(s.events) == 0 && s.reader == nil {
			l.shared.ended.Remove(&s.entry)
			l.removeLocked(s) // the next stream is now at i
		} else {
			i++
		}
	}
}
