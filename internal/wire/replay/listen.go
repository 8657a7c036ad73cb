package replay

import (
	"bytes"
	"slices"
)

// SendUnrelated adds a message that relates to no request to the newest open GET stream, or else to
// the newest GET stream, or else to a new one for the first reader. It never blocks, because the
// caller has other clients to notify. A repeatable message, such as a change, is not queued twice.
func (l *Log) SendUnrelated(message []byte, repeatable bool) error {
	return l.applyChange(func() error {
		if l.ended {
			return ErrLogEnded
		}
		s := l.newestListenerLocked()
		same := func(e []byte) bool { return bytes.Equal(e, message) }
		if repeatable && slices.ContainsFunc(s.unsentLocked(), same) {
			return nil
		}
		if s.reader != nil && s.backlog >= maxBacklog {
			return ErrSlowReader
		}
		s.addLocked(message)
		s.wakeReaderLocked()
		return nil
	})
}

// OpenListener returns the newest open GET stream, or nil.
func (l *Log) OpenListener() *Stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.listeners) > 0 {
		if s := l.newestListenerLocked(); s.reader != nil {
			return s
		}
	}
	return nil
}

func (l *Log) newestListenerLocked() *Stream {
	for _, s := range slices.Backward(l.listeners) {
		if s.reader != nil {
			return s
		}
	}
	if len(l.listeners) > 0 {
		return l.listeners[len(l.listeners)-1]
	}
	return l.addListenerLocked()
}

func (l *Log) addListenerLocked() *Stream {
	s := &Stream{log: l}
	l.registerLocked(s)
	l.listeners = append(l.listeners, s)
	return s
}

// Listen makes r the reader of a new GET stream, with messages not taken yet. See [ErrLogEnded].
func (l *Log) Listen(r *Reader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return ErrLogEnded
	}
	if len(l.listeners) == 1 && !l.listeners[0].wasRead { // created by SendUnrelated
		s := l.listeners[0]
		s.attachLocked(r)
		s.rewindLocked(s.dropped)
		return nil
	}
	var unsent [][]byte
	for _, s := range l.listeners {
		if s.reader == nil {
			unsent = append(unsent, s.removeUnsentLocked()...)
		}
	}
	if len(l.listeners) >= maxListeners {
		l.endListenerLocked()
	}
	s := l.addListenerLocked()
	for _, e := range unsent {
		s.addLocked(e)
	}
	s.attachLocked(r)
	return nil
}

// endListenerLocked ends the oldest GET stream without a reader, or else the oldest, whose reader
// may still send queued events.
func (l *Log) endListenerLocked() {
	unread := func(s *Stream) bool { return s.reader == nil }
	i := max(0, slices.IndexFunc(l.listeners, unread))
	s := l.listeners[i]
	if s.reader == nil {
		l.removeLocked(s)
		return
	}
	l.listeners = slices.Delete(l.listeners, i, i+1)
	s.endLocked()
}

// Resume makes r the reader of an event's stream, from the next event on. The error is
// [ErrLogEnded] or [ErrUnknownEvent].
func (l *Log) Resume(lastEventID string, r *Reader) error {
	id, ok := parseEventID(lastEventID)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return ErrLogEnded
	}
	if !ok || id.tag != l.tag {
		return ErrUnknownEvent
	}
	i, known := l.indexLocked(id.stream)
	if !known {
		return ErrUnknownEvent
	}
	s := l.streams[i]
	if id.position < s.dropped || id.position > s.lastPositionLocked() {
		return ErrUnknownEvent
	}
	s.attachLocked(r)
	s.rewindLocked(id.position)
	return nil
}

// EndListeners ends all GET streams. Streams of requests continue.
func (l *Log) EndListeners() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.listeners) > 0 {
		l.endListenerLocked()
	}
}
