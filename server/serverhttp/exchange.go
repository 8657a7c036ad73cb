package serverhttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/sse"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// writeChunk is how much a client must take within the write timeout.
	writeChunk = 64 << 10
	// maxPooled keeps the buffer of one large response from staying around.
	maxPooled = 64 << 10
	// usualBytes is room for most messages.
	usualBytes = 1 << 10
	// inHeader is the size from which net/http no longer finds the length of
	// a response by itself.
	inHeader = 2 << 10
)

var errEnded = errors.New("serverhttp: the request has been answered")

// An exchange is the response to one request while it is being written.
//
//	undecided ── Notify ──→ streaming ── finish ──→ ended
//	    └──────── finish: JSON ───────────────────────┘
//
// It is the way back to the client that handlers have.
type exchange struct {
	w        http.ResponseWriter
	h        *Handler
	r        *http.Request // that it answers
	deadline deadlines
	arrival  arrival     // of the body of the request
	task                 // the request that it answers
	conn     *connection // that writes it instead, of legacy clients; nil: none
	loan

	mu        sync.Mutex // guards what follows, and writing
	media     [1]string  // the value of Content-Type
	streaming bool
	ended     bool
	err       error       // of writing; nothing is written after it
	quiet     *time.Timer // runs out when a stream needs a comment, nil: never
}

func (h *Handler) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	return &exchange{w: w, h: h, r: r, deadline: deadlinesOf(w)}
}

// Notify sends a notification. The first one turns the response into a stream.
// It blocks while the client is slow, for at most the write timeout.
func (x *exchange) Notify(ctx context.Context, n *protocol.Notification) error {
	if n == nil {
		return errors.New("serverhttp: nil notification")
	}
	if err := ctx.Err(); err != nil {
		return err // nobody may be listening any more
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.ended:
		return errEnded
	case x.err != nil:
		return x.err
	}
	buf := x.buffer()
	defer x.release(buf)
	message, err := protocol.AppendMessage((*buf)[:0], n)
	if err != nil {
		return err
	}
	return x.event(buf, message)
}

// event writes a message, encoded in buf, as one event, the headers before the
// first.
func (x *exchange) event(buf *[]byte, message []byte) error {
	*buf = sse.AppendEvent(message, message) // goes behind what it is made from
	x.begin()
	return x.send((*buf)[len(message):])
}

// begin makes the response a stream, unless it is one.
func (x *exchange) begin() {
	if x.streaming {
		return
	}
	x.streaming = true
	values := [...]string{typeEvents, "no-store", "no"}
	header := x.w.Header()
	header["Content-Type"] = values[0:1:1]
	header["Cache-Control"] = values[1:2:2]
	header["X-Accel-Buffering"] = values[2:3:3] // nginx would hold events back
	x.w.WriteHeader(http.StatusOK)
}

// send writes to the stream and sees to it that it arrives.
func (x *exchange) send(p []byte) error {
	x.err = x.write(p)
	if x.err == nil {
		if len(p) == 0 { // else the last piece has just been given its time
			x.extend()
		}
		x.err = http.NewResponseController(x.w).Flush()
		if errors.Is(x.err, http.ErrNotSupported) {
			x.err = nil // such a writer delivers late, but it delivers
		}
	}
	switch interval := x.h.opts.KeepAlive; {
	case x.err != nil:
		x.lost()
	case x.ended || interval < 0:
	case x.quiet == nil:
		x.quiet = time.AfterFunc(interval, x.keepAlive)
	default:
		x.quiet.Reset(interval)
	}
	return x.err
}

// lost gives up a client that cannot be written to. For one of a legacy client
// requests go on. It is called with mu held.
func (x *exchange) lost() {
	if x.conn != nil {
		x.conn.reader.Wake()
		return
	}
	x.ctx.Cancel(x.err) // work for a client that is gone is wasted
}

// failed reports whether the client cannot be written to.
func (x *exchange) failed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err != nil
}

// writtenBy leaves the response to c. One that is long in coming becomes a
// stream, which comments keep open.
func (x *exchange) writtenBy(c *connection) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conn = c
	if x.h.opts.KeepAlive >= 0 {
		x.quiet = time.AfterFunc(x.h.opts.KeepAlive, x.keepAlive)
	}
}

// keepAlive sends a comment on a stream that has been quiet, or has the response
// become one.
func (x *exchange) keepAlive() {
	if x.conn != nil && !x.streams() {
		x.conn.reader.BeginEvents()
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.ended && x.err == nil {
		_ = x.send(sse.AppendComment(nil)) // loses the client when it fails
	}
}

// end keeps whatever still runs from writing. It is called with mu held.
func (x *exchange) end() {
	x.ended = true
	if x.quiet != nil {
		x.quiet.Stop()
	}
}

// finish sends the response, as JSON with the status unless a stream has
// begun. Whatever a handler has left running cannot write afterwards.
func (x *exchange) finish(status int, response *protocol.Response) {
	buf := x.buffer()
	defer x.release(buf)
	message, err := protocol.AppendMessage((*buf)[:0], response)
	if err != nil { // cannot happen: the server encodes results
		internal := &protocol.Error{Code: protocol.CodeInternalError, Message: "internal error"}
		message, _ = protocol.AppendMessage((*buf)[:0], &protocol.Response{ID: response.ID, Error: internal})
	}
	*buf = message
	x.deliver(status, buf)
}

// deliver is finish for a response whose text is buf.
func (x *exchange) deliver(status int, buf *[]byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.end()
	switch {
	case x.err != nil:
	case x.streaming:
		_ = x.event(buf, *buf) // there is nobody left to tell
	default:
		x.writeJSON(status, *buf)
	}
}

// writeJSON makes message the whole response.
func (x *exchange) writeJSON(status int, message []byte) {
	header := x.w.Header()
	x.media[0] = typeJSON
	header["Content-Type"] = x.media[:]
	if len(message) > inHeader {
		header["Content-Length"] = []string{strconv.Itoa(len(message))}
	}
	x.w.WriteHeader(status)
	x.err = x.write(message)
}

// raw writes what is spelled as events already; the first call begins the
// stream.
func (x *exchange) raw(events []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || x.err != nil {
		return cmp.Or(x.err, errEnded)
	}
	x.begin()
	return x.send(events)
}

// json answers with what is spelled already.
func (x *exchange) json(status int, message []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.end()
	if x.err == nil {
		x.writeJSON(status, message)
	}
	return x.err
}

// streams reports whether the response has become a stream.
func (x *exchange) streams() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.streaming
}

// begun reports whether the response, or the beginning of it, has been written.
func (x *exchange) begun() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.streaming || x.media[0] != ""
}

// close ends a stream in good order.
func (x *exchange) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.end()
}

// fail answers what no middleware has seen and none will: it is the only way to
// refuse such a request, so the observer hears of all of them. The body may not
// have been read; net/http reads what is left of a short one, which must not take
// for ever either.
func (x *exchange) fail(f *fault) {
	x.h.reportRefusal(x.r, f)
	x.answerFault(f)
}

// answerFault is fail for what the observer knows already.
func (x *exchange) answerFault(f *fault) {
	if x.h.opts.ReadTimeout > 0 && !x.arrival.late && !x.deadline.none {
		x.deadline.read(time.Now().Add(x.h.opts.ReadTimeout))
	}
	if f.value != "" {
		x.w.Header().Set(f.header, f.value)
	}
	if f.text != "" {
		_ = x.json(f.status, []byte(f.text)) // nobody is left to tell if it fails
		return
	}
	x.finish(f.status, &protocol.Response{ID: f.id, Error: f.err})
}

// abandon ends the exchange without another byte: the client is gone. The
// deadline keeps net/http from completing the response on its own, which a
// client that has closed only its sending direction would take for an answer.
func (x *exchange) abandon() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.end()
	x.deadline.write(time.Unix(1, 0))
}

// write writes in pieces, each of which the client must take in time.
func (x *exchange) write(p []byte) error {
	for len(p) > 0 {
		piece := p[:min(len(p), writeChunk)]
		x.extend()
		if _, err := x.w.Write(piece); err != nil {
			return err
		}
		p = p[len(piece):]
	}
	return nil
}

// extend gives the client the write timeout from now on. It also covers what
// net/http writes when the handler has returned, and ends with the response.
func (x *exchange) extend() {
	if x.h.opts.WriteTimeout > 0 && !x.deadline.none {
		x.deadline.write(time.Now().Add(x.h.opts.WriteTimeout))
	}
}

func (x *exchange) buffer() *[]byte {
	if buf, ok := x.h.buffers.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, 0, usualBytes)
	return &buf
}

func (x *exchange) release(buf *[]byte) {
	if cap(*buf) <= maxPooled {
		x.h.buffers.Put(buf)
	}
}
