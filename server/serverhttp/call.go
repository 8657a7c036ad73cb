package serverhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/wire/replay"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// A call is a running request of a legacy client. It survives the disconnect of its POST: messages
// stay in the event log for a resumption. Cancellation, session end and shutdown cancel it.
type call struct {
	task     inflight.Request
	admitted *server.Admission // nil after the response
	done     func()            // called after the response
	stream   *replay.Stream
	jsonOnly bool // the response to the POST carries no other messages
	loan
	text []byte // the lent buffer
	lack *lack  // missing scopes; set before the response; may be nil

	sessions *sessionTable
	session  *session // may be nil

	// Guarded by the mutex of the table.
	waits    bool // for a person: not counted in session.running
	finished bool
}

// SetWaiting implements [waiting.Listener].
func (c *call) SetWaiting(waiting bool) {
	if c.session != nil {
		c.sessions.setWaiting(c, waiting)
	}
}

// beginCalls registers requests of a POST in s, which may be nil, or returns false in a shutdown.
func (h *Handler) beginCalls(ctx context.Context, s *session,
	requests []*protocol.Request) ([]call, bool) {
	ctx = context.WithoutCancel(ctx)
	calls := make([]call, len(requests))
	for i := range calls {
		calls[i].id, calls[i].sessions, calls[i].session = requests[i].ID, h.sessions, s
		if _, ok := h.beginRequest(ctx, &calls[i].task, &calls[i]); !ok {
			for begun := range i {
				h.endRequest(&calls[begun].task)
			}
			return nil, false
		}
	}
	return calls, true
}

// runCalls runs each call on its own goroutine and sends their messages in response to the POST.
func (h *Handler) runCalls(rw *responseWriter, r *http.Request, log *replay.Log, calls []call,
	d *legacyPost) {
	if len(d.broken) > 0 { // one event: a batch may have many
		h.reportRefusal(r, &fault{status: http.StatusOK, reason: words.RefusedMalformed,
			id: d.broken[0].ID, err: d.broken[0].Error})
	}
	c := newStreamWriter(rw)
	if c.batch = d.batch; !c.batch && len(calls) == 1 {
		c.only = &calls[0]
	}
	s := log.OpenStream(len(calls)+len(d.broken), &c.reader)
	for _, response := range d.broken {
		s.Respond(encodeResponse(response))
	}
	for i := range calls {
		call := &calls[i]
		call.stream = s
		go func() {
			inflight.GrowStack()
			var response *protocol.Response
			returned := false
			defer func() {
				if !returned { // the handler ended its goroutine
					response = &protocol.Response{ID: call.id, Error: rules.InternalError()}
				}
				call.sendResponse(response) // before endRequest lets a shutdown end
				h.endRequest(&call.task)
				call.admitted, call.text = nil, nil // free memory while the rest of a batch runs
				call.done()
			}()
			response = h.serveCall(call)
			returned = true
		}()
	}
	c.sendAll(r.Context())
}

// serveCall returns the response to a call, nil if it must not be answered.
func (h *Handler) serveCall(c *call) *protocol.Response {
	response := h.srv.Serve(c.task.Context(), c.admitted)
	if c.admitted.Abandoned() {
		return nil
	}
	c.lack = lackOf(c.admitted)
	return response
}

func (c *call) sendResponse(response *protocol.Response) {
	if response != nil && c.holdsResult(response) {
		c.stream.Respond(append(c.text, '}'))
		return
	}
	c.stream.Respond(encodeResponse(response))
}

func (h *Handler) deliveryOf(c *call, rw *responseWriter, r *http.Request,
	p protocol.Principal) server.Delivery {
	d := h.newDelivery(rw, r, p)
	d.Panicked, c.jsonOnly = logPanic, rw.jsonOnly
	if d.Back = (sessionChannel{notifyChannel{c}}); c.session == nil {
		d.Back = notifyChannel{c} // no session to match answers to questions
	}
	return d
}

// sideStream returns the stream for notifications and questions: the POST's, or the open GET stream
// if the POST accepts only JSON; may be nil.
func (c *call) sideStream() *replay.Stream {
	switch {
	case !c.jsonOnly:
		return c.stream
	case c.session == nil:
		return nil
	}
	return c.session.log.OpenListener()
}

func encodeResponse(response *protocol.Response) []byte {
	if response == nil {
		return nil
	}
	return rules.AppendResponse(nil, response)
}

// A notifyChannel sends notifications on the stream of a request. A client without a session gets
// no requests, because its answers could not be matched to a call.
type notifyChannel struct{ *call }

// Notify sends a notification. It returns nil after a disconnect: the handler continues.
func (b notifyChannel) Notify(ctx context.Context, n *protocol.Notification) error {
	if n == nil {
		return errors.New("serverhttp: nil notification")
	}
	if err := b.sendMessage(ctx, n); !errors.Is(err, replay.ErrUnreachable) {
		return err
	}
	return nil
}

func (b notifyChannel) sendMessage(ctx context.Context, m protocol.Message) error {
	message, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return err
	}
	return b.sendText(ctx, message)
}

func (b notifyChannel) sendText(ctx context.Context, message []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s := b.sideStream(); s != nil {
		return s.Send(ctx, message)
	}
	return replay.ErrUnreachable
}

// SendTransient implements [rpc.TransientSender].
func (b notifyChannel) SendTransient(ctx context.Context, notification []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s := b.sideStream(); s != nil {
		s.SendTransient(notification)
	}
	return nil
}

type sessionChannel struct{ notifyChannel }

var (
	_ server.BackSender   = sessionChannel{}
	_ rpc.TextSender      = sessionChannel{}
	_ rpc.PushChecker     = sessionChannel{}
	_ rpc.StreamCloser    = sessionChannel{}
	_ rpc.TransientSender = notifyChannel{}
)

// Send sends a request or notification. It returns an error if the client cannot receive it.
func (b sessionChannel) Send(ctx context.Context, m protocol.Message) error {
	return b.sendMessage(ctx, m)
}

// SendText implements [rpc.TextSender].
func (b sessionChannel) SendText(ctx context.Context, request []byte) error {
	return b.sendText(ctx, request)
}

const cannotAsk = "nobody could be asked: the Accept header of the call admits application/json " +
	"alone, and the client has no GET stream open; send Accept: application/json, " +
	"text/event-stream, or open a GET stream"

// CannotPush implements [rpc.PushChecker].
func (b sessionChannel) CannotPush() string {
	if b.sideStream() != nil {
		return ""
	}
	return cannotAsk
}

// CloseStream implements [rpc.StreamCloser].
func (b sessionChannel) CloseStream(_ context.Context, retry time.Duration) error {
	if b.jsonOnly || !b.stream.CloseForReconnect(retry) {
		return server.ErrCannotClose
	}
	return nil
}
