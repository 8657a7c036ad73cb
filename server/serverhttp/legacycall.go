package serverhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/internal/replay"
	"github.com/rondo-mcp/rondo/internal/stack"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// A call is one request of a legacy client while it runs. Unlike a modern one
// it does not end with the HTTP request that brought it.
type call struct {
	task
	in     *server.Incoming
	done   func() // called when it has been answered
	stream *replay.Stream
	loan
	text []byte // what is lent

	sessions *sessions
	session  *session // nil: it belongs to none

	// Guarded by the mutex of the table.
	waits    bool // for a person, and does not count in session.running
	finished bool
}

// SetWaiting implements [waiting.Listener].
func (c *call) SetWaiting(waiting bool) {
	if c.session != nil {
		c.sessions.setWaiting(c, waiting)
	}
}

// calls makes ready to run the requests of one POST, which all share a stream.
// They are calls of s, nil: of no session. It reports false when no more are taken.
func (h *Handler) calls(ctx context.Context, s *session, requests []*protocol.Request) ([]call, bool) {
	ctx = context.WithoutCancel(ctx)
	calls := make([]call, len(requests))
	for i := range calls {
		calls[i].sessions, calls[i].session = h.sessions, s
		if _, ok := h.running.begin(ctx, &calls[i].task, &calls[i]); !ok {
			for begun := range i {
				h.running.end(&calls[begun].task)
			}
			return nil, false
		}
	}
	return calls, true
}

// run runs calls and sends what they say as the response to one POST, for as
// long as the client is there.
func (h *Handler) run(x *exchange, r *http.Request, log *replay.Log, calls []call, d *delivered) {
	h.reportBroken(r, d)
	c := newConnection(x)
	c.batch = d.batch
	s := log.OpenStream(len(calls)+len(d.broken), c.reader)
	for _, response := range d.broken {
		s.Respond(encodeResponse(response))
	}
	for i := range calls {
		call := &calls[i]
		call.stream, call.id = s, call.in.Request.ID
		call.in.Back = sessionBack{notifyBack{call}}
		if !log.IsResumable() {
			call.in.Back = notifyBack{call} // answers could not find their way to a question
		}
		go func() {
			stack.Grow()
			var response *protocol.Response
			returned := false
			defer func() {
				if !returned { // the handler ended its goroutine
					response = &protocol.Response{ID: call.in.Request.ID, Error: internalError()}
				}
				call.respond(response) // before a shutdown finds that nothing runs any more
				h.running.end(&call.task)
				call.in, call.text = nil, nil // the others of a batch may go on for long
				call.done()
			}()
			response = h.serveCall(call)
			returned = true
		}()
	}
	c.run(r.Context())
}

// serveCall returns the response to a call, nil when it must not be answered.
func (h *Handler) serveCall(c *call) *protocol.Response {
	c.in.Panicked = logPanic
	response := h.srv.Serve(&c.ctx, c.in)
	if c.in.Abandoned() {
		return nil
	}
	return response
}

func internalError() *protocol.Error {
	return &protocol.Error{Code: protocol.CodeInternalError, Message: "internal error"}
}

// respond says the answer; nil for none.
func (c *call) respond(response *protocol.Response) {
	if response != nil && c.holds(response) {
		c.stream.Respond(append(c.text, '}'))
		return
	}
	c.stream.Respond(encodeResponse(response))
}

// encodeResponse returns nil for nil: a request that is not answered.
func encodeResponse(response *protocol.Response) []byte {
	if response == nil {
		return nil
	}
	message, err := protocol.AppendMessage(nil, response)
	if err != nil { // cannot happen: the server encodes results
		message, _ = protocol.AppendMessage(nil, &protocol.Response{ID: response.ID, Error: internalError()})
	}
	return message
}

// notifyBack is the way back to a client without a session.
type notifyBack struct{ *call }

// Notify says a notification on the stream of the request. That the client is
// gone is no reason for a handler to stop, and no error.
func (b notifyBack) Notify(ctx context.Context, n *protocol.Notification) error {
	if n == nil {
		return errors.New("serverhttp: nil notification")
	}
	if err := b.send(ctx, n); !errors.Is(err, replay.ErrUnreachable) {
		return err
	}
	return nil
}

func (b notifyBack) send(ctx context.Context, m protocol.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	message, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return err
	}
	return b.stream.Send(ctx, message)
}

// SendTransient says a notification unless the client is away; see package server.
func (b notifyBack) SendTransient(ctx context.Context, n *protocol.Notification) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	message, err := protocol.AppendMessage(nil, n)
	if err != nil {
		return err
	}
	b.stream.SendTransient(message)
	return nil
}

// sessionBack is the way back to the client of a session.
type sessionBack struct{ notifyBack }

var (
	_ server.BackSender   = sessionBack{}
	_ server.StreamCloser = sessionBack{}
)

// Send says any message but a response. A request that the client can never
// receive is an error.
func (b sessionBack) Send(ctx context.Context, m protocol.Message) error { return b.send(ctx, m) }

// SendText says a request that is spelled already; see package server.
func (b sessionBack) SendText(ctx context.Context, request []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.stream.Send(ctx, request)
}

// CloseStream implements [server.StreamCloser].
func (b sessionBack) CloseStream(_ context.Context, retry time.Duration) error {
	if !b.stream.CloseForReconnect(retry) {
		return server.ErrCannotClose
	}
	return nil
}
