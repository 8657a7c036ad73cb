package replay

import (
	"context"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
)

// A Stream holds the messages for one POST, or for a session's GET streams. It is concurrency-safe.
type Stream struct {
	log *Log

	// The rest is guarded by log.mu. Positions of events count from 1. number is 0 until
	// registerLocked: without events, the responses may go out as a JSON body.
	number  uint64
	dropped uint64   // number of dropped events, so events[0] has position dropped+1
	events  [][]byte // JSON texts
	sent    uint64   // position of the last event taken by the latest reader
	backlog int      // bytes of the events after sent

	reader   *Reader // may be nil
	requests int     // without a response yet
	done     bool    // no more events will be added
	wasRead  bool    // has had a reader
	cut      bool    // a response was lost: the session or the stream was over
	stale    bool    // to be removed when its reader detaches
	removed  bool    // from the log
	entry    recent.Entry[*Stream]
}

// OpenStream returns a stream for a POST with this number of requests, read by r.
func (l *Log) OpenStream(requests int, r *Reader) *Stream {
	s := &Stream{log: l, requests: requests}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.attachLocked(r)
	return s
}

// Send adds a message that is not a response. It blocks while an attached reader is slow. It fails
// when ctx ends, or with [ErrLogEnded], [ErrStreamEnded] or [ErrUnreachable].
func (s *Stream) Send(ctx context.Context, message []byte) error {
	l := s.log
	for {
		if err := s.awaitRoom(ctx); err != nil {
			return err
		}
		full := false
		err := l.applyChange(func() error {
			switch {
			case l.ended:
				return ErrLogEnded
			case s.done:
				return ErrStreamEnded
			case s.reader == nil && !s.canComeBackLocked():
				return ErrUnreachable
			case s.isFullLocked(): // another sender was faster
				full = true
				return nil
			}
			l.registerLocked(s)
			s.addLocked(message)
			s.wakeReaderLocked()
			return nil
		})
		if !full {
			return err
		}
	}
}

// awaitRoom returns when the stream has room or has ended.
func (s *Stream) awaitRoom(ctx context.Context) error {
	for {
		room := s.roomSignal()
		if room == nil {
			return nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// roomSignal returns a channel that is closed when there is room, or nil if there is room now.
func (s *Stream) roomSignal() <-chan struct{} {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if !s.isFullLocked() {
		return nil
	}
	s.log.registerLocked(s) // senders must not wait for a batch of responses
	s.wakeReaderLocked()
	if s.reader.room == nil {
		s.reader.room = make(chan struct{})
	}
	return s.reader.room
}

func (s *Stream) isFullLocked() bool {
	return s.reader != nil && s.backlog >= maxBacklog && !s.log.ended && !s.done
}

// canComeBackLocked reports whether the client may have an id of this stream.
func (s *Stream) canComeBackLocked() bool {
	return s.number != 0 && s.log.tag != "" && !s.removed
}

// SendTransient sends a message to the attached reader without keeping it. A later one replaces it.
func (s *Stream) SendTransient(message []byte) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || s.done || s.reader == nil || s.backlog > 0 {
		return
	}
	l.registerLocked(s)
	s.reader.transient = message
	s.wakeReaderLocked()
}

// Respond adds the response to one request, or nil for none. The last response ends the stream.
func (s *Stream) Respond(response []byte) {
	_ = s.log.applyChange(func() error { // cannot fail
		s.requests--
		last := s.requests <= 0
		if s.log.ended || s.done || s.removed {
			s.done, s.cut = s.done || last, true
			s.wakeReaderLocked()
			return nil
		}
		if response != nil && (s.reader != nil || s.canComeBackLocked()) {
			s.addLocked(response)
		}
		if last {
			s.endLocked()
		} else if s.number != 0 {
			s.wakeReaderLocked()
		}
		return nil
	})
}

// CloseForReconnect makes the reader close the response after sending queued events; the client
// reconnects after retry. It reports false if the client cannot resume.
func (s *Stream) CloseForReconnect(retry time.Duration) bool {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || s.done || l.tag == "" || !l.prime {
		return false
	}
	if s.reader != nil {
		l.registerLocked(s)
		s.reader.reconnect, s.reader.retry = true, retry
		s.wakeReaderLocked()
	}
	return true
}

func (s *Stream) lastPositionLocked() uint64 { return s.dropped + uint64(len(s.events)) }

func (s *Stream) unsentLocked() [][]byte {
	return s.events[max(s.sent, s.dropped)-s.dropped:]
}

// canDropLocked reports whether no attached reader needs the oldest event.
func (s *Stream) canDropLocked() bool {
	return len(s.events) > 0 && (s.reader == nil || s.dropped < s.sent)
}

func (s *Stream) dropOldestLocked() {
	e := s.events[0]
	if s.sent <= s.dropped {
		s.backlog -= len(e)
	}
	s.events[0] = nil
	s.events = s.events[1:]
	s.dropped++
	if s.number != 0 {
		s.log.countLocked(-eventCost(e))
	}
}

func (s *Stream) addLocked(message []byte) {
	if s.events == nil {
		s.events = make([][]byte, 0, 2) // often a question and a response
	}
	s.events = append(s.events, message)
	s.backlog += len(message)
	if s.reader != nil {
		s.reader.transient = nil // outdated
	}
	if s.number != 0 {
		s.log.countLocked(eventCost(message))
	}
}

func (s *Stream) endLocked() {
	s.done = true
	if s.number != 0 && s.log.shared != nil {
		s.log.shared.ended.Add(&s.entry, s)
	}
	s.wakeReaderLocked()
}

// forgetEnded removes a stream that has ended, if necessary when its reader detaches.
func (s *Stream) forgetEnded() {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended || s.removed:
	case s.reader != nil:
		s.stale = true
	default:
		l.removeLocked(s)
	}
}

func (s *Stream) wakeReaderLocked() {
	if s.reader != nil {
		s.reader.Wake()
	}
}

// rewindLocked makes the event after position the next to be sent.
func (s *Stream) rewindLocked(position uint64) {
	s.sent, s.backlog = position, 0
	for _, e := range s.events[position-s.dropped:] {
		s.backlog += len(e)
	}
}

func (s *Stream) removeUnsentLocked() [][]byte {
	unsent := s.unsentLocked()
	kept := len(s.events) - len(unsent)
	s.events, s.backlog = s.events[:kept:kept], 0
	for _, e := range unsent {
		s.log.countLocked(-eventCost(e))
	}
	return unsent
}

// attachLocked makes r the reader of s, in place of one whose broken connection went unnoticed.
func (s *Stream) attachLocked(r *Reader) {
	if s.reader != nil {
		s.reader.replaced = true
		s.reader.Wake()
		s.reader.releaseSendersLocked()
	}
	s.reader, s.wasRead = r, true
	r.stream = s
}
