package serverhttp

import (
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
	timeout  time.Duration
	buffers  *sync.Pool
	deadline deadlines

	mu        sync.Mutex // guards what follows, and writing
	streaming bool
	ended     bool
	err       error // of writing; nothing is written after it
}

func (h *Handler) newExchange(w http.ResponseWriter) *exchange {
	return &exchange{w: w, timeout: h.opts.WriteTimeout, buffers: &h.buffers, deadline: deadlines{w: w}}
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
	if !x.streaming {
		x.streaming = true
		header := x.w.Header()
		header.Set("Content-Type", typeEvents)
		header.Set("Cache-Control", "no-store")
		header.Set("X-Accel-Buffering", "no") // nginx would hold events back
		x.w.WriteHeader(http.StatusOK)
	}
	if x.err = x.write((*buf)[len(message):]); x.err != nil {
		return x.err
	}
	x.extend()
	// A writer that cannot flush delivers late, but it delivers.
	if err := http.NewResponseController(x.w).Flush(); !errors.Is(err, http.ErrNotSupported) {
		x.err = err
	}
	return x.err
}

// finish sends the response, as JSON with the status unless a stream has
// begun. Whatever a handler has left running cannot write afterwards.
func (x *exchange) finish(status int, response *protocol.Response) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	if x.err != nil {
		return
	}
	buf := x.buffer()
	defer x.release(buf)
	message, err := protocol.AppendMessage((*buf)[:0], response)
	if err != nil { // cannot happen: the server encodes results
		internal := &protocol.Error{Code: protocol.CodeInternalError, Message: "internal error"}
		message, _ = protocol.AppendMessage((*buf)[:0], &protocol.Response{ID: response.ID, Error: internal})
	}
	*buf = message
	if x.streaming {
		_ = x.event(buf, message) // there is nobody left to tell
		return
	}
	header := x.w.Header()
	header["Content-Type"] = []string{typeJSON}
	if len(message) > inHeader {
		header["Content-Length"] = []string{strconv.Itoa(len(message))}
	}
	x.w.WriteHeader(status)
	x.err = x.write(message)
}

// fail answers what is not a request.
func (x *exchange) fail(f *fault) {
	if f.header != "" {
		x.w.Header().Set(f.header, f.value)
	}
	x.finish(f.status, &protocol.Response{ID: f.id, Error: f.err})
}

// abandon ends the exchange without another byte: the client is gone. The
// deadline keeps net/http from completing the response on its own, which a
// client that has closed only its sending direction would take for an answer.
func (x *exchange) abandon() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
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
	if x.timeout > 0 {
		x.deadline.write(time.Now().Add(x.timeout))
	}
}

func (x *exchange) buffer() *[]byte {
	if buf, ok := x.buffers.Get().(*[]byte); ok {
		return buf
	}
	return new([]byte)
}

func (x *exchange) release(buf *[]byte) {
	if cap(*buf) <= maxPooled {
		x.buffers.Put(buf)
	}
}
