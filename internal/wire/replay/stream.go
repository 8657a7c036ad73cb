package replay

import (
	"context"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
)

// A Stream holds the messages for one POST, or for the GET streams of a session.
// All methods may be called concurrently.
type Stream struct {
	log *Log

	// The rest is guarded by log.mu. The position of an event counts from 1.
	// number is given by registerLocked; 0: nothing has made it a stream of events
	// yet, and its responses may go out as a JSON body.
	number  uint64
	dropped uint64   // events that were dropped; the position of events[0] is one more
	events  [][]byte // JSON texts, in order
	sent    uint64   // the position up to which the present or last reader took events
	backlog int      // bytes of the events behind sent

	reader   *Reader // that sends the events at present, nil: none
	requests int     // that are to be answered on this stream
	done     bool    // nothing will be added any more
	wasRead  bool    // it had a reader once
	cut      bool    // a response could not be added: the session or the stream was over
	stale    bool    // to be removed once its reader has detached
	removed  bool    // from the log
	entry    recent.Entry[*Stream]
}

// OpenStream returns a stream for the responses of a POST with that many requests, read by r.
func (l *Log) OpenStream(requests int, r *Reader) *Stream {
	s := &Stream{log: l, requests: requests}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.attachLocked(r)
	return s
}

// Send adds a message that is no response. It waits while the client of an attached reader is slow.
// It fails when ctx ends, with [ErrLogEnded] or [ErrStreamEnded], or with [ErrUnreachable].
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

// awaitRoom returns when the stream takes more, or never will.
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

// roomSignal returns a channel that is closed when the reader has taken what is
// queued, nil when there is room now.
func (s *Stream) roomSignal() <-chan struct{} {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if !s.isFullLocked() {
		return nil
	}
	s.log.registerLocked(s) // responses of a batch wait for the last one, events do not
	s.wakeReaderLocked()
	return s.reader.roomSignalLocked()
}

func (s *Stream) isFullLocked() bool {
	return s.reader != nil && s.backlog >= maxBacklog && !s.log.ended && !s.done
}

// canComeBackLocked reports whether the client may hold an id of this stream.
func (s *Stream) canComeBackLocked() bool {
	return s.number != 0 && s.log.tag != "" && !s.removed
}

// SendTransient sends a message that is not kept: it goes to the attached reader,
// unless an event does before it or a later transient message replaces it.
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

// Respond adds the response to one request of the stream, nil for a request that
// is not answered. Nothing follows the last one.
func (s *Stream) Respond(response []byte) {
	_ = s.log.applyChange(func() error { // which returns no error
		s.respondLocked(response)
		return nil
	})
}

func (s *Stream) respondLocked(response []byte) {
	s.requests--
	last := s.requests <= 0
	if s.log.ended || s.done || s.removed {
		s.done, s.cut = s.done || last, true
		s.wakeReaderLocked()
		return
	}
	reachable := s.reader != nil || (s.number != 0 && s.log.tag != "")
	if response != nil && reachable {
		s.addLocked(response)
	}
	if last {
		s.endLocked()
	} else if s.number != 0 {
		s.wakeReaderLocked()
	}
}

// CloseForReconnect has the reader close the response once it has sent what there is, so that the
// client comes back for the rest after retry. It reports false when the client could not come back.
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

// lastPositionLocked is the position of the newest event.
func (s *Stream) lastPositionLocked() uint64 { return s.dropped + uint64(len(s.events)) }

// unsentLocked returns the events that no reader took.
func (s *Stream) unsentLocked() [][]byte {
	return s.events[max(s.sent, s.dropped)-s.dropped:]
}

// canDropLocked reports whether the oldest event can be dropped without an
// attached reader missing it.
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
		s.events = make([][]byte, 0, 2) // a question and a response
	}
	s.events = append(s.events, message)
	s.backlog += len(message)
	if s.reader != nil {
		s.reader.transient = nil // it would arrive after what is newer
	}
	if s.number != 0 {
		s.log.countLocked(eventCost(message))
	}
}

// endLocked notes that nothing will be added any more. What was added is kept for a while.
func (s *Stream) endLocked() {
	s.done = true
	if s.number != 0 && s.log.shared != nil {
		s.log.shared.ended.Add(&s.entry, s)
	}
	s.wakeReaderLocked()
}

// forgetEnded removes a stream that has ended and was kept long enough. One that is
// being read just now is removed when its reader detaches.
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

// rewindLocked sets the position after which events are to be sent.
func (s *Stream) rewindLocked(position uint64) {
	s.sent, s.backlog = position, 0
	for _, e := range s.events[position-s.dropped:] {
		s.backlog += len(e)
	}
}

// removeUnsentLocked removes and returns the events that no reader took.
func (s *Stream) removeUnsentLocked() [][]byte {
	unsent := s.unsentLocked()
	kept := len(s.events) - len(unsent)
	s.events, s.backlog = s.events[:kept:kept], 0
	for _, e := range unsent {
		s.log.countLocked(-eventCost(e))
	}
	return unsent
}

// attachLocked makes r the reader of s. A reader that was attached sends no more:
// its connection broke and nobody has noticed.
func (s *Stream) attachLocked(r *Reader) {
	if s.reader != nil {
		s.reader.replaced = true
		s.reader.Wake()
		s.reader.releaseSendersLocked()
	}
	s.reader, s.wasRead = r, true
	r.stream = s
}
