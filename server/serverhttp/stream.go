package serverhttp

import (
	"context"
	"time"
)

// A stream is what a session says about one POST, or in general on a GET. Its
// fields are guarded by the mutex of its log.
type stream struct {
	log    *eventLog
	number uint64   // 0: nothing has been said as an event, a lone response may go out as JSON
	lost   uint64   // how many events have been dropped; the place of events[0] is one more
	events [][]byte // JSON texts, kept in order
	sent   uint64   // the place up to which the connection, the last one if there is none, was given events
	ahead  int      // bytes of events that it was not given

	conn    *connection     // that sends it at present, nil: none
	open    int             // how many requests are to be answered on it
	done    bool            // nothing more will be said
	met     bool            // it had a connection once
	cut     bool            // a response came too late, after the end of the session
	stale   bool            // it is to be forgotten once its connection has sent it
	removed bool            // from the log
	ticket  ticket[*stream] // in store.finished
}

// end is the place of the newest event.
func (s *stream) end() uint64 { return s.lost + uint64(len(s.events)) }

// spare reports whether the oldest event can be dropped without anybody who is
// connected missing it.
func (s *stream) spare() bool {
	return len(s.events) > 0 && (s.conn == nil || s.lost < s.sent)
}

// drop drops the oldest event.
func (s *stream) drop() {
	e := s.events[0]
	if s.sent <= s.lost {
		s.ahead -= len(e)
	}
	s.events[0] = nil
	s.events = s.events[1:]
	s.lost++
	if s.number != 0 {
		s.log.count(-cost(e))
	}
}

// add appends an event. It is called with the log's mutex held.
func (s *stream) add(message []byte) {
	if s.events == nil {
		s.events = make([][]byte, 0, 2) // a question and a response
	}
	s.events = append(s.events, message)
	s.ahead += len(message)
	if s.conn != nil {
		s.conn.transient = nil // it would come behind what is newer
	}
	if s.number != 0 {
		s.log.count(cost(message))
	}
}

// send says a message that is no response. It waits while a connected client
// is slow, and fails when ctx ends, the session does, or when the client can
// never get to see the message.
func (s *stream) send(ctx context.Context, message []byte) error {
	l := s.log
	l.mu.Lock()
	for s.conn != nil && s.ahead >= maxBacklog && !l.ended && !s.done {
		l.number(s) // responses of a batch wait for the last, unless they are events
		s.wakeUp()
		room := s.conn.roomSignal()
		l.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		l.mu.Lock()
	}
	switch {
	case l.ended:
		l.mu.Unlock()
		return errSessionEnded
	case s.done:
		l.mu.Unlock()
		return errEnded
	case s.conn == nil && (s.number == 0 || l.tag == "" || s.removed):
		l.mu.Unlock()
		return errUnreachable
	}
	l.number(s)
	s.add(message)
	s.wakeUp()
	l.settle()
	return nil
}

// sendTransient says a message that is not kept: it goes to the client that is
// connected, unless something else does before it. A later one replaces it.
func (s *stream) sendTransient(message []byte) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || s.done || s.conn == nil || s.ahead > 0 {
		return
	}
	l.number(s)
	s.conn.transient = message
	s.wakeUp()
}

// finish says a response, nil for none. Nothing follows the last one.
func (s *stream) finish(response []byte) {
	l := s.log
	l.mu.Lock()
	s.open--
	last := s.open <= 0
	if l.ended || s.done || s.removed {
		s.done, s.cut = s.done || last, true
		s.wakeUp()
		l.mu.Unlock()
		return
	}
	reachable := s.conn != nil || (s.number != 0 && l.tag != "")
	if response != nil && reachable {
		s.add(response)
	}
	if last {
		s.finished()
	} else if s.number != 0 {
		s.wakeUp()
	}
	l.settle()
}

// finished notes that nothing more will be said. What was is kept for a while.
func (s *stream) finished() {
	s.done = true
	if s.number != 0 && s.log.store != nil {
		s.log.store.finished.add(&s.ticket, s)
	}
	s.wakeUp()
}

// forget drops the stream once it has ended and been kept long enough.
func (s *stream) forget() {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || s.removed {
		return
	}
	if s.conn != nil { // is being sent, at last
		s.stale = true
		return
	}
	l.remove(s)
}

// wakeUp tells the connection that there is something to do.
func (s *stream) wakeUp() {
	if s.conn != nil {
		s.conn.wakeUp()
	}
}

// hangUp has the connection closed once it has sent what there is, so that the
// client comes back for the rest. It reports false when it could not come back.
func (s *stream) hangUp(retry time.Duration) bool {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || s.done || l.tag == "" || !l.prime {
		return false
	}
	if s.conn != nil {
		l.number(s)
		s.conn.hangUp, s.conn.retry = true, retry
		s.wakeUp()
	}
	return true
}

// begin has the response become a stream although nothing has been said yet.
func (c *connection) begin() {
	s := c.stream
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.conn == c && !s.done {
		s.log.number(s)
		s.wakeUp()
	}
}

// attach makes c the connection of s, in place of another. It is called with
// the log's mutex held.
func (s *stream) attach(c *connection) {
	if s.conn != nil {
		s.conn.replaced = true
		s.conn.wakeUp()
		s.conn.giveRoom()
	}
	s.conn, s.met = c, true
	c.stream = s
}

// detach is called when c sends no more.
func (s *stream) detach(c *connection) {
	l := s.log
	l.mu.Lock()
	if s.conn == c {
		s.conn = nil
	}
	c.giveRoom()
	if l.tag == "" || s.number == 0 { // nobody can come back for it
		s.events, s.ahead = nil, 0
	}
	if l.ended {
		l.mu.Unlock()
		return
	}
	if s.stale && s.conn == nil {
		l.remove(s)
	}
	l.settle() // what it held on to may be too much without it
}

// A delivery is what a connection is to send next.
type delivery struct {
	events [][]byte
	last   []byte // an event without an id behind them, nil: none
	stream uint64 // number of the stream, 0: the events are responses, for a body of JSON
	after  uint64 // the place before that of the first event
	over   bool   // nothing follows on this connection
	cut    bool   // the session ended before the stream did
	hangUp bool   // the client is to come back, after retry
	retry  time.Duration
}

// take returns what c has to send.
func (s *stream) take(c *connection) (d delivery) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.replaced {
		return delivery{stream: s.number, over: true}
	}
	d = delivery{stream: s.number, after: s.sent, hangUp: c.hangUp, retry: c.retry}
	d.over = s.done || l.ended || c.hangUp
	d.cut = s.cut || l.ended && !s.done
	if s.number == 0 && !d.over {
		return d // until there is something else, responses may still be a body of JSON
	}
	if !d.over {
		d.last = c.transient
	}
	c.transient = nil
	d.events = append(c.given[:0], s.events[max(s.sent, s.lost)-s.lost:]...)
	s.sent, s.ahead = s.end(), 0
	for l.tag == "" && len(s.events) > 0 {
		s.drop() // nobody can ask for it again
	}
	c.giveRoom()
	return d
}

// rewind sets the place from which events are to be sent.
func (s *stream) rewind(place uint64) {
	s.sent, s.ahead = place, 0
	for _, e := range s.events[place-s.lost:] {
		s.ahead += len(e)
	}
}

// unsent removes the events that no connection was given, and returns them.
func (s *stream) unsent() [][]byte {
	kept := max(s.sent, s.lost) - s.lost
	rest := s.events[kept:]
	s.events, s.ahead = s.events[:kept:kept], 0
	for _, e := range rest {
		s.log.count(-cost(e))
	}
	return rest
}
