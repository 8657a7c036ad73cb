package serverhttp

import (
	"bytes"
	"errors"
	"slices"
)

var (
	errSlowClient   = errors.New("serverhttp: the client does not take what it is sent")
	errUnknownEvent = errors.New("serverhttp: no such event, or what followed it is not kept any more")
)

// say says a message that relates to no request: to the newest GET stream that
// is open, else to the newest there was, else it is kept for the first. It
// never waits, since whoever says it has others to tell. A repeatable message,
// which says that something changed, need not be waiting twice.
func (l *eventLog) say(message []byte, repeatable bool) error {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return errSessionEnded
	}
	s := l.listener()
	waiting := s.events[max(s.sent, s.lost)-s.lost:]
	if repeatable && slices.ContainsFunc(waiting, func(e []byte) bool { return bytes.Equal(e, message) }) {
		l.mu.Unlock()
		return nil
	}
	if s.conn != nil && s.ahead >= maxBacklog {
		l.mu.Unlock()
		return errSlowClient
	}
	s.add(message)
	s.wakeUp()
	l.settle()
	return nil
}

// listener is the stream for messages that relate to no request.
func (l *eventLog) listener() *stream {
	for _, s := range slices.Backward(l.gets) {
		if s.conn != nil {
			return s
		}
	}
	if len(l.gets) > 0 {
		return l.gets[len(l.gets)-1]
	}
	return l.newGet()
}

func (l *eventLog) newGet() *stream {
	s := &stream{log: l}
	l.number(s)
	l.gets = append(l.gets, s)
	return s
}

// listen makes c the newest GET stream. It gets what no other one was given.
func (l *eventLog) listen(c *connection) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return errSessionEnded
	}
	if len(l.gets) == 1 && !l.gets[0].met { // it was made for what had to be kept
		s := l.gets[0]
		s.attach(c)
		s.rewind(s.lost)
		return nil
	}
	var rest [][]byte
	for _, s := range l.gets {
		if s.conn == nil {
			rest = append(rest, s.unsent()...)
		}
	}
	if len(l.gets) >= maxGets {
		l.closeGet()
	}
	s := l.newGet()
	for _, e := range rest {
		s.add(e)
	}
	s.attach(c)
	return nil
}

// general reports whether s is for messages that relate to no request.
func (l *eventLog) general(s *stream) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.gets, s)
}

// closeGet ends one GET stream: the oldest that is not open, or else the
// oldest, which may send what it has.
func (l *eventLog) closeGet() {
	i := max(0, slices.IndexFunc(l.gets, func(s *stream) bool { return s.conn == nil }))
	s := l.gets[i]
	if s.conn == nil {
		l.remove(s)
		return
	}
	l.gets = slices.Delete(l.gets, i, i+1)
	s.finished()
}

// resume makes c the connection of the stream to which an event belongs, from
// the event that follows it. That another connection still seems to be open
// means that it broke and nobody has noticed.
func (l *eventLog) resume(lastEvent string, c *connection) error {
	id, ok := parseEventID(lastEvent)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return errSessionEnded
	}
	if !ok || id.tag != l.tag {
		return errUnknownEvent
	}
	s := l.find(id.stream)
	if s == nil || id.place < s.lost || id.place > s.end() {
		return errUnknownEvent
	}
	s.attach(c)
	s.rewind(id.place)
	return nil
}

// endGets ends all GET streams: requests may go on, but nothing else is said.
func (l *eventLog) endGets() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.gets) > 0 {
		l.closeGet()
	}
}
