package replay

import (
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/sse"
)

// A Reader takes the messages of one stream for one HTTP response. One goroutine uses it; Wake and
// BeginEvents may be called from others.
type Reader struct {
	stream *Stream // set when attached

	wake  chan struct{} // has a signal when Next has something new
	taken [1][]byte     // avoids an allocation for one event

	// Guarded by the mutex of the log.
	transient []byte        // to be sent once; may be nil
	room      chan struct{} // closed when the stream has room; nil if no sender waits
	replaced  bool          // another reader was attached
	reconnect bool          // close the response
	retry     time.Duration
}

// NewReader returns a detached reader, see [Log.OpenStream], [Log.Listen] and [Log.Resume].
func NewReader() *Reader { return &Reader{wake: make(chan struct{}, 1)} }

// Init initializes a reader within a larger struct.
func (r *Reader) Init() { r.wake = make(chan struct{}, 1) }

// Wake signals Woken.
func (r *Reader) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Woken returns a channel with a signal when Next may have something new.
func (r *Reader) Woken() <-chan struct{} { return r.wake }

// LogEnded returns a channel that is closed when the log ends.
func (r *Reader) LogEnded() <-chan struct{} { return r.stream.log.endedSignal }

// IsListener reports whether the stream carries messages that relate to no request.
func (r *Reader) IsListener() bool {
	l := r.stream.log
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.listeners, r.stream)
}

// BeginEvents makes the response an event stream before its first message.
func (r *Reader) BeginEvents() {
	s := r.stream
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.reader == r && !s.done {
		s.log.registerLocked(s)
		r.Wake()
	}
}

// A Batch is the output that a reader sends next.
type Batch struct {
	// Events are JSON texts: of events, or of the responses in a JSON body.
	Events [][]byte
	// IsStream reports whether Events are events.
	IsStream bool
	// Over reports that this is the last batch of the response.
	Over bool
	// Cut reports that responses are missing: the session ended, or the stream was removed.
	Cut bool

	log       *Log
	stream    uint64
	after     uint64        // position before the first event
	transient []byte        // an event without id after the others; may be nil
	retry     time.Duration // after which to reconnect; 0 for none
}

// Next returns the batch to send now, possibly empty. Events are valid until the next call.
func (r *Reader) Next() Batch {
	s := r.stream
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.replaced {
		return Batch{log: l, stream: s.number, IsStream: s.number != 0, Over: true}
	}
	b := Batch{
		log: l, stream: s.number, after: s.sent, retry: r.retry,
		IsStream: s.number != 0,
		Over:     s.done || l.ended || r.reconnect,
		Cut:      s.cut || l.ended && !s.done,
	}
	if !b.IsStream && !b.Over {
		return b // unless an event comes, the responses are a JSON body
	}
	if !b.Over {
		b.transient = r.transient
	}
	r.transient = nil
	b.Events = append(r.taken[:0], s.unsentLocked()...)
	s.sent, s.backlog = s.lastPositionLocked(), 0
	for l.tag == "" && len(s.events) > 0 {
		s.dropOldestLocked() // cannot be resumed
	}
	r.releaseSendersLocked()
	return b
}

// Release drops the reference to the events of Next.
func (r *Reader) Release() { clear(r.taken[:]) }

// AppendSSE appends the batch as server-sent events. opening marks the first batch of a response,
// which begins with a comment or an empty event; resumed, a response that continues a stream.
func (b Batch) AppendSSE(dst []byte, opening, resumed bool) []byte {
	var room [64]byte // for ids
	id := eventID{b.log.tag, b.stream, b.after}
	switch {
	case opening && b.log.prime && !resumed:
		dst = sse.AppendEventID(dst, id.appendTo(room[:0]), nil)
	case opening:
		dst = sse.AppendComment(dst)
	}
	for _, e := range b.Events {
		id.position++
		if b.log.tag == "" {
			dst = sse.AppendEvent(dst, e)
			continue
		}
		dst = sse.AppendEventID(dst, id.appendTo(room[:0]), e)
	}
	if b.transient != nil {
		dst = sse.AppendEvent(dst, b.transient)
	}
	if b.retry > 0 {
		dst = sse.AppendEvent(sse.AppendRetry(dst, b.retry), nil)
	}
	return dst
}

// Detach ends the reader. The events are kept if the client can resume.
func (r *Reader) Detach() {
	s := r.stream
	_ = s.log.applyChange(func() error { // cannot fail
		if s.reader == r {
			s.reader = nil
		}
		r.releaseSendersLocked()
		if s.log.tag == "" || s.number == 0 { // cannot be resumed
			s.events, s.backlog = nil, 0
		}
		if s.stale && s.reader == nil && !s.log.ended {
			s.log.removeLocked(s)
		}
		return nil
	})
}

func (r *Reader) releaseSendersLocked() {
	if r.room != nil {
		close(r.room)
		r.room = nil
	}
}
