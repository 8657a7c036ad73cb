package serverhttp

import (
	"bytes"
	"context"

	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// EventBytes returns how many bytes of events are kept for all sessions.
func EventBytes(h *Handler) int64 { return h.sessions.store.used.Used() }

// Sessions returns how many sessions are open.
func Sessions(h *Handler) int {
	h.sessions.mu.Lock()
	defer h.sessions.mu.Unlock()
	return len(h.sessions.byID)
}

// Owners returns how many principals have sessions.
func Owners(h *Handler) int {
	h.sessions.mu.Lock()
	defer h.sessions.mu.Unlock()
	owners := map[roundtrip.Principal]bool{}
	for _, s := range h.sessions.byID {
		owners[s.principal] = true
	}
	for p := range h.sessions.idleOf {
		owners[p] = true
	}
	return len(owners)
}

// A Log is an event log without HTTP.
type Log struct{ log *eventLog }

// NewLog returns a log with bounds of its own.
func NewLog(perLog, total int64) Log {
	return Log{&eventLog{store: newStore(perLog, quota.New(quota.Options[roundtrip.Principal]{Total: total, Share: -1})), tag: "t"}}
}

// Say says a message that relates to no request.
func (l Log) Say(message string) error { return l.log.say([]byte(message), false) }

// Used returns how many bytes are kept.
func (l Log) Used() int64 { return l.log.store.used.Used() }

// End ends the log.
func (l Log) End() { l.log.end() }

// Listen opens a GET stream.
func (l Log) Listen() Conn {
	c := newConnection(nil)
	if err := l.log.listen(c); err != nil {
		panic(err)
	}
	return Conn{c}
}

// A Conn takes what a connection would send.
type Conn struct{ c *connection }

// Take returns the events that are to be sent, separated by spaces.
func (c Conn) Take() string {
	return string(bytes.Join(c.c.stream.take(c.c).events, []byte(" ")))
}

// Drop breaks the connection.
func (c Conn) Drop() { c.c.stream.detach(c.c) }

// ParseEventID reads an event id and spells it again.
func ParseEventID(s string) (string, bool) {
	id, ok := parseEventID(s)
	return id.String(), ok
}

// Post opens a stream for one request.
func (l Log) Post() Conn { return l.PostBatch(1) }

// PostBatch opens a stream for several requests.
func (l Log) PostBatch(requests int) Conn {
	c := newConnection(nil)
	s := &stream{log: l.log, open: requests}
	l.log.mu.Lock()
	s.attach(c)
	l.log.mu.Unlock()
	return Conn{c}
}

// Send says a message on the stream.
func (c Conn) Send(ctx context.Context, message string) error {
	return c.c.stream.send(ctx, []byte(message))
}

// Finish answers the request.
func (c Conn) Finish(response string) { c.c.stream.finish([]byte(response)) }

// ExpiryAfterStop uses what waits for its end after that has been stopped.
func ExpiryAfterStop() (left bool) {
	e := &expiry[int]{after: -1}
	var ticket ticket[int]
	e.add(&ticket, 1)
	e.stop()
	e.remove(&ticket)
	_, left = e.oldest()
	return left
}
