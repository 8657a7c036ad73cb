package serverhttp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/wire/sse"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

const (
	// writeChunk is how much a client must take within the write timeout.
	writeChunk = 64 << 10
	// maxPooled keeps the buffer of one large response from staying around.
	maxPooled = 64 << 10
	// usualBytes is room for most messages.
	usualBytes = 1 << 10
	// inHeader is the size from which net/http no longer finds the length of a response by itself.
	inHeader = 2 << 10
)

var errAnswered = errors.New("serverhttp: the request has been answered")

// A responseWriter writes the response to one HTTP request. For a request of revision 2026-07-28 it
// is also the channel to the client that the handler has ([server.Delivery].Back).
//
//	undecided ── Notify ──→ streaming ── writeResponse ──→ ended
//	    └──────── writeResponse: JSON ───────────────────────┘
type responseWriter struct {
	w            http.ResponseWriter
	h            *Handler
	r            *http.Request // that it answers
	deadline     connDeadlines
	body         bodyDeadline                  // of the request
	task         inflight.Request              // the request that it answers
	jsonOnly     bool                          // the client takes no stream
	eventsOnly   bool                          // the client takes a stream alone
	received     *hophttp.Received             // not nil: a replica passed the request on
	streamWriter *streamWriter                 // that writes it instead, of legacy clients; nil: none
	place        recent.Entry[*responseWriter] // in Handler.bodies, and then in Handler.quiet
	loan

	// What the authority says of the request; nil: nothing.
	access *server.Access
	values func(context.Context) context.Context

	mu             sync.Mutex // guards what follows, and writing
	media          [1]string  // the value of Content-Type
	served         bool       // the handler has returned
	streaming      bool
	ended          bool
	err            error       // of writing; nothing is written after it
	onWritten      func()      // is told when the response is out; nil: nobody
	keepAliveTimer *time.Timer // runs out when a stream needs a comment, nil: never
}

// Notify sends a notification. The first one turns the response into a stream.
// It blocks while the client is slow, for at most the write timeout.
func (rw *responseWriter) Notify(ctx context.Context, n *protocol.Notification) error {
	if n == nil {
		return errors.New("serverhttp: nil notification")
	}
	if err := ctx.Err(); err != nil {
		return err // nobody may be listening any more
	}
	rw.mu.Lock()
	defer rw.mu.Unlock()
	switch {
	case rw.ended:
		return errAnswered
	case rw.err != nil:
		return rw.err
	case rw.jsonOnly:
		return nil // as on a transport that cannot carry it
	}
	buf := rw.takeBuffer()
	defer rw.putBuffer(buf)
	message, err := protocol.AppendMessage((*buf)[:0], n)
	if err != nil {
		return err
	}
	return rw.writeEventLocked(buf, message)
}

// writeEventLocked writes a message, encoded in buf, as one event.
func (rw *responseWriter) writeEventLocked(buf *[]byte, message []byte) error {
	*buf = sse.AppendEvent(message, message) // goes behind what it is made from
	rw.beginStreamLocked()
	return rw.sendLocked((*buf)[len(message):])
}

// beginStreamLocked writes the headers of an event stream, unless they were written.
func (rw *responseWriter) beginStreamLocked() {
	if rw.streaming {
		return
	}
	rw.streaming = true
	rw.h.quiet.Remove(&rw.place)
	values := [...]string{typeEvents, "no-store", "no"}
	header := rw.w.Header()
	header["Content-Type"] = values[0:1:1]
	header["Cache-Control"] = values[1:2:2]
	header["X-Accel-Buffering"] = values[2:3:3] // nginx would hold events back
	rw.w.WriteHeader(http.StatusOK)
}

// sendLocked writes to the stream and flushes.
func (rw *responseWriter) sendLocked(p []byte) error {
	rw.err = rw.writeLocked(p)
	if rw.err == nil {
		if len(p) == 0 { // else the last piece has just been given its time
			rw.extendWriteDeadline()
		}
		rw.err = http.NewResponseController(rw.w).Flush()
		if errors.Is(rw.err, http.ErrNotSupported) {
			rw.err = nil // such a writer delivers late, but it delivers
		}
	}
	switch interval := rw.h.opts.tuning.keepAlive; {
	case rw.err != nil:
		rw.giveUpLocked()
	case rw.ended:
	case rw.keepAliveTimer == nil:
		rw.keepAliveTimer = time.AfterFunc(interval, rw.sendKeepAlive)
	default:
		rw.keepAliveTimer.Reset(interval)
	}
	return rw.err
}

// giveUpLocked is called when a write failed. It cancels the request, except that of a legacy
// client, whose stream writer detaches.
func (rw *responseWriter) giveUpLocked() {
	if rw.streamWriter != nil {
		rw.streamWriter.reader.Wake()
		return
	}
	rw.task.Cancel(rw.err) // work for a client that is gone is wasted
}

// hasFailed reports whether a write failed.
func (rw *responseWriter) hasFailed() bool {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	return rw.err != nil
}

// setStreamWriter leaves the response to c. After the keep-alive interval it becomes a stream.
func (rw *responseWriter) setStreamWriter(c *streamWriter) {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.streamWriter = c
	if !rw.jsonOnly {
		c.timed.Store(rw)
		rw.keepAliveTimer = time.AfterFunc(rw.h.opts.tuning.keepAlive, c.sendKeepAlive)
	}
}

// sendKeepAlive begins the stream, or sends a comment on it, after the keep-alive interval.
func (rw *responseWriter) sendKeepAlive() {
	if rw.streamWriter != nil && !rw.isStreaming() {
		rw.streamWriter.reader.BeginEvents()
		return
	}
	rw.mu.Lock()
	defer rw.mu.Unlock()
	if !rw.ended && rw.err == nil {
		_ = rw.sendLocked(sse.AppendComment(nil)) // loses the client when it fails
	}
}

// breakSilence is sendKeepAlive for revision 2026-07-28, called by the queue, which must not wait.
func (rw *responseWriter) breakSilence() {
	go func() {
		rw.mu.Lock()
		defer rw.mu.Unlock()
		if !rw.served && !rw.streaming && !rw.ended && rw.err == nil {
			rw.beginStreamLocked()
			_ = rw.sendLocked(sse.AppendComment(nil)) // loses the client when it fails
		}
	}()
}

// endSilence is called when the handler has returned: what happened decides the headers now.
func (rw *responseWriter) endSilence() {
	rw.h.quiet.Remove(&rw.place)
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.served = true
}

// endLocked keeps handlers that still run from writing, and stops comments.
func (rw *responseWriter) endLocked() {
	rw.ended = true
	if rw.keepAliveTimer != nil {
		rw.keepAliveTimer.Stop()
	}
}

// writeResponse writes the response: as an event if a stream has begun, or if the client accepts
// nothing else and the status is 200, else as JSON. Nothing can be written afterwards.
func (rw *responseWriter) writeResponse(status int, response *protocol.Response) {
	buf := rw.takeBuffer()
	defer rw.putBuffer(buf)
	*buf = rules.AppendResponse((*buf)[:0], response)
	rw.writeResponseText(status, buf)
}

// writeResponseText is writeResponse for a response that is encoded in buf.
func (rw *responseWriter) writeResponseText(status int, buf *[]byte) {
	if rw.tryWriteText(status, buf) && rw.onWritten != nil {
		rw.onWritten()
	}
}

func (rw *responseWriter) tryWriteText(status int, buf *[]byte) (written bool) {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.endLocked()
	switch {
	case rw.err != nil:
	case rw.streaming, rw.eventsOnly && status == http.StatusOK:
		_ = rw.writeEventLocked(buf, *buf) // there is nobody left to tell
	default:
		rw.writeJSONLocked(status, *buf)
	}
	return rw.err == nil
}

// OnWritten is as [server.Request.OnWritten].
func (rw *responseWriter) OnWritten(f func()) { rw.onWritten = f }

// writeJSONLocked makes message the whole response.
func (rw *responseWriter) writeJSONLocked(status int, message []byte) {
	header := rw.w.Header()
	rw.media[0] = typeJSON
	header["Content-Type"] = rw.media[:]
	if len(message) > inHeader {
		header["Content-Length"] = []string{strconv.Itoa(len(message))}
	}
	rw.w.WriteHeader(status)
	rw.err = rw.writeLocked(message)
}

// writeEvents writes events that are encoded already. The first call begins the stream.
func (rw *responseWriter) writeEvents(events []byte) error {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	if rw.ended || rw.err != nil {
		return cmp.Or(rw.err, errAnswered)
	}
	rw.beginStreamLocked()
	return rw.sendLocked(events)
}

// writeJSONText answers with JSON that is encoded already.
func (rw *responseWriter) writeJSONText(status int, message []byte) error {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.endLocked()
	if rw.err == nil {
		rw.writeJSONLocked(status, message)
	}
	return rw.err
}

// isStreaming reports whether the response has become a stream.
func (rw *responseWriter) isStreaming() bool {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	return rw.streaming
}

// hasBegun reports whether any part of the response was written.
func (rw *responseWriter) hasBegun() bool {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	return rw.streaming || rw.media[0] != ""
}

// closeStream ends a stream.
func (rw *responseWriter) closeStream() {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.endLocked()
}

// refuseRequest answers a request that reaches no middleware. All such refusals go
// through here, so the observer is told of each.
func (rw *responseWriter) refuseRequest(f *fault) {
	rw.h.reportRefusal(rw.r, f)
	rw.writeFault(f)
}

// writeFault is refuseRequest without an event. It drops the rest of the body, because some clients
// read no response before they have written all. The body gets a deadline, and the response a later
// one.
func (rw *responseWriter) writeFault(f *fault) {
	opts := &rw.h.opts
	readsOn := opts.ReadTimeout > 0 && !rw.body.expired && rw.deadline.exist()
	if readsOn {
		rw.deadline.setRead(time.Now().Add(opts.ReadTimeout))
		if rw.r.ContentLength <= maxDropped && rw.r.Header["Expect"] == nil {
			_, _ = io.CopyN(io.Discard, rw.r.Body, maxDropped) // it is refused anyway
		}
	}
	if f.value != "" {
		rw.w.Header().Set(f.header, f.value)
	}
	if f.text != "" {
		_ = rw.writeJSONText(f.status, []byte(f.text)) // nobody is left to tell if it fails
	} else {
		rw.writeResponse(f.status, &protocol.Response{ID: f.id, Error: f.err})
	}
	if readsOn {
		rw.deadline.setWrite(time.Now().Add(opts.ReadTimeout + opts.tuning.writeTimeout))
	}
}

// maxDropped is how much of a refused body is read. Clients that send more are cut off.
const maxDropped = 64 << 20

// abandonClient ends the response after a disconnect. The deadline keeps net/http from completing
// it, which a client that has closed only its sending direction would take for an answer.
func (rw *responseWriter) abandonClient() {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.endLocked()
	rw.deadline.setWrite(time.Unix(1, 0))
}

// writeLocked writes in pieces, each of which the client must take within the write timeout.
func (rw *responseWriter) writeLocked(p []byte) error {
	for len(p) > 0 {
		piece := p[:min(len(p), writeChunk)]
		rw.extendWriteDeadline()
		if _, err := rw.w.Write(piece); err != nil {
			return err
		}
		p = p[len(piece):]
	}
	return nil
}

// extendWriteDeadline starts the write timeout anew. The deadline also covers what
// net/http writes when the handler has returned.
func (rw *responseWriter) extendWriteDeadline() {
	if rw.deadline.exist() {
		rw.deadline.setWrite(time.Now().Add(rw.h.opts.tuning.writeTimeout))
	}
}

func (rw *responseWriter) takeBuffer() *[]byte {
	if buf, ok := rw.h.buffers.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, 0, usualBytes)
	return &buf
}

func (rw *responseWriter) putBuffer(buf *[]byte) {
	if cap(*buf) <= maxPooled {
		rw.h.buffers.Put(buf)
	}
}

var (
	_ rpc.BufferLender = (*responseWriter)(nil)
	_ rpc.BufferLender = (*call)(nil)
)

// A loan is a response buffer: the transport writes the JSON-RPC envelope, the server appends the
// result (see [rpc.BufferLender]), so that a result is copied once. One goroutine uses it.
type loan struct {
	id   protocol.ID // of the request
	lent *[]byte     // nil: nothing was lent
	head int         // how much of it precedes the result
}

// Lend implements [rpc.BufferLender]. The server calls it when the handler has
// returned, so a handler that takes long holds no buffer.
func (rw *responseWriter) Lend() []byte { return rw.lendBuffer(rw.takeBuffer()) }

// Lend implements [rpc.BufferLender]. The event log keeps the buffer, so it is not from the pool.
func (c *call) Lend() []byte {
	c.text = make([]byte, 0, usualReply)
	return c.lendBuffer(&c.text)
}

// usualReply is room for most responses of legacy revisions, in bytes. They stay
// in the event log, so it is less than usualBytes.
const usualReply = 384

func (l *loan) lendBuffer(buf *[]byte) []byte {
	l.lent = buf
	*buf = rpc.BeginResult((*buf)[:0], l.id.String())
	l.head = len(*buf)
	return *buf
}

// Return implements [rpc.BufferLender].
func (l *loan) Return(buf []byte) { *l.lent = buf }

// holdsResult reports whether the server put the result of a response into the
// buffer, and middleware has not replaced it since.
func (l *loan) holdsResult(response *protocol.Response) bool {
	if l.lent == nil || response.Error != nil {
		return false
	}
	result, put := response.Result, (*l.lent)[l.head:]
	return len(result) > 0 && len(result) == len(put) && &result[0] == &put[0]
}
