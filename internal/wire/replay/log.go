// Package replay keeps messages to the client of a session, so that a client can resume after a
// broken connection ("Resumability and Redelivery" of the Streamable HTTP transport, revisions
// 2025-03-26 to 2025-11-25). Clients do not acknowledge: an event is kept until it is evicted, its
// stream has been over for a while, or the session ends.
//
//	handler ── Send ──→ Stream ── Next ──→ Reader ──→ HTTP response
//	                      └─ kept for ─ Resume ─→ another Reader
//
// A [Log] belongs to one session, a [Stream] to one POST or to the GET streams, a [Reader] to one
// HTTP response. A message is in exactly one stream, which has at most one reader at a time.
//
// One mutex guards a log with its streams and readers. Memory is bounded by log, by [Account] and
// in total; adding an event beyond a bound evicts, reading never does.
package replay

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
)

const (
	// maxBacklog is how many bytes may be queued for a reader before its handler blocks.
	maxBacklog = 64 << 10
	// maxListeners limits a session's GET streams. One suffices; broken connections leave others.
	maxListeners = 4
	// eventOverhead and streamOverhead are the memory of an event and a stream besides the text.
	eventOverhead  = 64
	streamOverhead = 512
)

var (
	// ErrLogEnded is returned once the session has ended.
	ErrLogEnded = errors.New("replay: the session has ended")
	// ErrStreamEnded is returned after the last response of a stream.
	ErrStreamEnded = errors.New("replay: the request has been answered")
	// ErrUnreachable is returned without a reader if the client knows no event id to resume with.
	ErrUnreachable = errors.New("replay: the client disconnected and cannot resume this stream")
	// ErrSlowReader is returned by SendUnrelated when the client's backlog is full.
	ErrSlowReader = errors.New("replay: the client is not reading")
	// ErrUnknownEvent is returned by Resume.
	ErrUnknownEvent = errors.New("replay: unknown event, or later events have been evicted")
)

// LogOptions describe the log of a session.
type LogOptions struct {
	Shared  *Shared
	Account Account
	Tag     string // random prefix of event ids
}

// A Log holds the messages for one session's client, by stream, until they are evicted or removed
// with their stream. All methods may be called concurrently.
//
// The zero Log keeps nothing: its streams cannot be resumed. It serves clients without a session.
type Log struct {
	shared      *Shared // if nil, memory is not counted
	account     Account
	tag         string // if empty, nothing can be resumed
	prime       bool
	endedSignal chan struct{} // closed by End; may be nil

	mu         sync.Mutex
	streams    []*Stream // with a number, ascending
	lastNumber uint64
	listeners  []*Stream // of GET, oldest first
	bytes      int64     // counted here and in account
	ended      bool
}

// NewLog returns the log of a session.
func NewLog(o LogOptions) *Log {
	return &Log{shared: o.Shared, account: o.Account, tag: o.Tag, endedSignal: make(chan struct{})}
}

// PrimeStreams makes each stream begin with an empty event, whose id lets the client resume before
// the first message (since revision 2025-11-25). Call it before the first reader.
func (l *Log) PrimeStreams() { l.prime = true }

// End ends the log. Readers send queued events, and no more can be added.
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

func eventCost(event []byte) int64 { return int64(cap(event)) + eventOverhead }

// indexLocked returns the index at which the stream with a number is, or would be.
func (l *Log) indexLocked(number uint64) (int, bool) {
	return slices.BinarySearchFunc(l.streams, number, func(s *Stream, n uint64) int {
		return cmp.Compare(s.number, n)
	})
}

// registerLocked numbers s if needed. From then on its events have ids and are counted.
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

func (l *Log) removeLocked(s *Stream) {
	if s.removed {
		return
	}
	l.countLocked(-streamOverhead)
	if i, ok := l.indexLocked(s.number); ok && i == 0 { // usually the oldest
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

// applyChange calls changeLocked, then enforces the bounds. Evicting for the total bound affects
// other logs and runs without the lock. Use it to add events and to detach a reader.
func (l *Log) applyChange(changeLocked func() error) error {
	exceeded, err := l.updateOnce(changeLocked)
	if !exceeded {
		return err
	}
	l.shared.evictEnded(l.account)
	l.mu.Lock()
	defer l.mu.Unlock()
	// As a last resort evict from the log that grew.
	l.evictWhileLocked(func() bool { return l.account.FindExceeded() != quota.None })
	return err
}

// updateOnce enforces the bound of this log and reports whether another bound is exceeded.
func (l *Log) updateOnce(changeLocked func() error) (exceeded bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err = changeLocked()
	if l.shared == nil || l.ended {
		return false, err
	}
	l.evictWhileLocked(func() bool { return l.bytes > l.shared.maxLogBytes })
	return l.account.FindExceeded() != quota.None, err
}

// While exceeded() is true, evictWhileLocked evicts events that were sent or whose stream has no
// reader, and empty streams that have ended. Unsent events of a reader stay.
func (l *Log) evictWhileLocked(exceeded func() bool) {
	for i := 0; i < len(l.streams) && exceeded(); {
		s := l.streams[i]
		for exceeded() && s.canDropLocked() {
			s.dropOldestLocked()
		}
		if s.done && len(s.events) == 0 && s.reader == nil {
			l.shared.ended.Remove(&s.entry)
			l.removeLocked(s) // the next stream moves to i
		} else {
			i++
		}
	}
}
