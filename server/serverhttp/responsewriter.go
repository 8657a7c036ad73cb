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
	writeChunk = 64 << 10 // per write timeout
	maxPooled  = 64 << 10 // larger buffers are not kept
	usualBytes = 1 << 10  // fits most messages
	inHeader   = 2 << 10  // above this, net/http does not set Content-Length
)

var errAnswered = errors.New("serverhttp: the request has been answered")

// A responseWriter writes the response to one HTTP request. In revision 2026-07-28 it is also the
// handler's channel to the client ([server.Delivery].Back).
//
//	undecided ── Notify ──→ streaming ── writeResponse ──→ ended
//	    └──────── writeResponse: JSON ───────────────────────┘
type responseWriter struct {
	w            http.ResponseWriter
	h            *Handler
	r            *http.Request // being answered
	deadline     connDeadlines
	body         bodyDeadline                  // of the request body
	task         inflight.Request              // of the request
	jsonOnly     bool                          // the client accepts no stream
	eventsOnly   bool                          // the client accepts only a stream
	received     *hophttp.Received             // set if forwarded by a replica
	streamWriter *streamWriter                 // writes the response of a legacy client; may be nil
	place        recent.Entry[*responseWriter] // in Handler.bodies, then in Handler.quiet
	loan

	// Set by the authority; may be nil.
	access *server.Access
	values func(context.Context) context.Context

	mu             sync.Mutex // guards the following fields, and writing
	media          [1]string  // Content-Type
	served         bool       // the handler has returned
	streaming      bool
	ended          bool
	err            error       // write error, after which nothing is written
	onWritten      func()      // called when the response is written; may be nil
	keepAliveTimer *time.Timer // for the next comment on a stream; may be nil
}

// Notify sends a notification. The first notification turns the response into a stream. It blocks
// at most for the write timeout.
func (rw *responseWriter) Notify(ctx context.Context, n *protocol.Notification) error {
	if n == nil {
		return errors.New("serverhttp: nil notification")
	}
	if err := ctx.Err(); err != nil {
		return err // the client may be gone
	}
	rw.mu.Lock()
	defer rw.mu.Unlock()
	switch {
	case rw.ended:
		return errAnswered
	case rw.err != nil:
		return rw.err
	case rw.jsonOnly:
		return nil // as if the transport had no notifications
	}
	buf := rw.takeBuffer()
	defer rw.putBuffer(buf)
	message, err := protocol.AppendMessage((*buf)[:0], n)
	if err != nil {
		return err
	}
	return rw.writeEventLocked(buf, message)
}

func (rw *responseWriter) writeEventLocked(buf *[]byte, message []byte) error {
	*buf = sse.AppendEvent(message, message) // after its source in the same buffer
	rw.beginStreamLocked()
	return rw.sendLocked((*buf)[len(message):])
}

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
	header["X-Accel-Buffering"] = values[2:3:3] // disables buffering in nginx
	rw.w.WriteHeader(http.StatusOK)
}

func (rw *responseWriter) sendLocked(p []byte) error {
	rw.err = rw.writeLocked(p)
	if rw.err == nil {
		if len(p) == 0 { // writeLocked has not extended it
			rw.extendWriteDeadline()
		}
		rw.err = http.NewResponseController(rw.w).Flush()
		if errors.Is(rw.err, http.ErrNotSupported) {
			rw.err = nil // without flushing, delivery is only late
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

// giveUpLocked handles a failed write. It cancels a modern request or detaches the stream writer.
func (rw *responseWriter) giveUpLocked() {
	if rw.streamWriter != nil {
		rw.streamWriter.reader.Wake()
		return
	}
	rw.task.Cancel(rw.err) // no work for a lost client
}

func (rw *responseWriter) hasFailed() bool {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	return rw.err != nil
}

// setStreamWriter lets c write the response, which becomes a stream after the keep-alive interval.
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
		_ = rw.sendLocked(sse.AppendComment(nil)) // errors cancel the request
	}
}

// breakSilence is sendKeepAlive for revision 2026-07-28. The queue calls it, so it must not block.
func (rw *responseWriter) breakSilence() {
	go func() {
		rw.mu.Lock()
		defer rw.mu.Unlock()
		if !rw.served && !rw.streaming && !rw.ended && rw.err == nil {
			rw.beginStreamLocked()
			_ = rw.sendLocked(sse.AppendComment(nil)) // errors cancel the request
		}
	}()
}

// endSilence ends comments when the handler has returned: the response decides the headers.
func (rw *responseWriter) endSilence() {
	rw.h.quiet.Remove(&rw.place)
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.served = true
}

// endLocked stops comments and rejects writes of handlers that still run.
func (rw *responseWriter) endLocked() {
	rw.ended = true
	if rw.keepAliveTimer != nil {
		rw.keepAliveTimer.Stop()
	}
}

// writeResponse writes the response and ends it: as an event if a stream has begun, or if the
// client accepts nothing else and the status is 200, otherwise as JSON.
func (rw *responseWriter) writeResponse(status int, response *protocol.Response) {
	buf := rw.takeBuffer()
	defer rw.putBuffer(buf)
	*buf = rules.AppendResponse((*buf)[:0], response)
	rw.writeResponseText(status, buf)
}

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
		_ = rw.writeEventLocked(buf, *buf) // rw.err has the error
	default:
		rw.writeJSONLocked(status, *buf)
	}
	return rw.err == nil
}

// OnWritten implements [server.Request.OnWritten].
func (rw *responseWriter) OnWritten(f func()) { rw.onWritten = f }

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

// writeEvents writes encoded events. The first call begins the stream.
func (rw *responseWriter) writeEvents(events []byte) error {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	if rw.ended || rw.err != nil {
		return cmp.Or(rw.err, errAnswered)
	}
	rw.beginStreamLocked()
	return rw.sendLocked(events)
}

func (rw *responseWriter) writeJSONText(status int, message []byte) error {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.endLocked()
	if rw.err == nil {
		rw.writeJSONLocked(status, message)
	}
	return rw.err
}

func (rw *responseWriter) isStreaming() bool {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	return rw.streaming
}

func (rw *responseWriter) hasBegun() bool {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	return rw.streaming || rw.media[0] != ""
}

func (rw *responseWriter) closeStream() {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.endLocked()
}

// refuseRequest answers and reports a request that reaches no middleware. All such refusals use it.
func (rw *responseWriter) refuseRequest(f *fault) {
	rw.h.reportRefusal(rw.r, f)
	rw.writeFault(f)
}

// writeFault is refuseRequest without the event. It discards the rest of the body, because some
// clients write it before they read. The body gets a deadline, and the response a later one.
func (rw *responseWriter) writeFault(f *fault) {
	opts := &rw.h.opts
	readsOn := opts.ReadTimeout > 0 && !rw.body.expired && rw.deadline.exist()
	if readsOn {
		rw.deadline.setRead(time.Now().Add(opts.ReadTimeout))
		if rw.r.ContentLength <= maxDropped && rw.r.Header["Expect"] == nil {
			_, _ = io.CopyN(io.Discard, rw.r.Body, maxDropped) // refused anyway
		}
	}
	if f.value != "" {
		rw.w.Header().Set(f.header, f.value)
	}
	if f.text != "" {
		_ = rw.writeJSONText(f.status, []byte(f.text)) // no other way to report an error
	} else {
		rw.writeResponse(f.status, &protocol.Response{ID: f.id, Error: f.err})
	}
	if readsOn {
		rw.deadline.setWrite(time.Now().Add(opts.ReadTimeout + opts.tuning.writeTimeout))
	}
}

// maxDropped limits the discarded part of a refused body. Clients that send more are cut off.
const maxDropped = 64 << 20

// abandonClient ends the response after a disconnect. The deadline keeps net/http from completing
// it: a client that closed only its sending direction would take it for complete.
func (rw *responseWriter) abandonClient() {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.endLocked()
	rw.deadline.setWrite(time.Unix(1, 0))
}

// writeLocked writes in chunks, each within the write timeout.
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

// extendWriteDeadline restarts the write timeout, also for what net/http writes after the handler.
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

// A loan is a response buffer with the JSON-RPC envelope, to which the server appends the result,
// so that it is copied only once (see [rpc.BufferLender]). One goroutine uses it.
type loan struct {
	id   protocol.ID // of the request
	lent *[]byte     // nil if there is no loan
	head int         // length before the result
}

// Lend implements [rpc.BufferLender]. It is called after the handler, which thus holds no buffer.
func (rw *responseWriter) Lend() []byte { return rw.lendBuffer(rw.takeBuffer()) }

// Lend implements [rpc.BufferLender]. The event log keeps the buffer, so it is not pooled.
func (c *call) Lend() []byte {
	c.text = make([]byte, 0, usualReply)
	return c.lendBuffer(&c.text)
}

// usualReply fits most legacy responses. They stay in the event log, so the size is small.
const usualReply = 384

func (l *loan) lendBuffer(buf *[]byte) []byte {
	l.lent = buf
	*buf = rpc.BeginResult((*buf)[:0], l.id.String())
	l.head = len(*buf)
	return *buf
}

// Return implements [rpc.BufferLender].
func (l *loan) Return(buf []byte) { *l.lent = buf }

// holdsResult reports whether the buffer holds response's result. Middleware may have replaced it.
func (l *loan) holdsResult(response *protocol.Response) bool {
	if l.lent == nil || response.Error != nil {
		return false
	}
	result, put := response.Result, (*l.lent)[l.head:]
	return len(result) > 0 && len(result) == len(put) && &result[0] == &put[0]
}
