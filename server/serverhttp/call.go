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

// A call is a running request of a legacy client. It survives the disconnect of its POST: its
// messages stay in the event log for a resumption. Only the client's cancellation, the end of the
// session and a shutdown cancel it.
type call struct {
	task     inflight.Request
	admitted *server.Admission // nil once it has been answered
	done     func()            // called when it has been answered
	stream   *replay.Stream
	jsonOnly bool // the response to the POST carries the response alone
	loan
	text []byte // what is lent
	lack *lack  // set before the response is added; nil: it was not refused for want of scopes

	sessions *sessionTable
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

// beginCalls registers the requests of one POST in s; nil: without a session. It reports false
// during a shutdown.
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

// runCalls runs each call on its own goroutine and sends their messages as the response to the
// POST.
func (h *Handler) runCalls(rw *responseWriter, r *http.Request, log *replay.Log, calls []call,
	d *legacyPost) {
	if len(d.broken) > 0 { // one event for all: a batch may have many
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
				call.sendResponse(response) // before a shutdown finds that nothing runs any more
				h.endRequest(&call.task)
				call.admitted, call.text = nil, nil // the others of a batch may go on for long
				call.done()
			}()
			response = h.serveCall(call)
			returned = true
		}()
	}
	c.sendAll(r.Context())
}

// serveCall returns the response to a call, nil when it must not be answered.
func (h *Handler) serveCall(c *call) *protocol.Response {
	response := h.srv.Serve(c.task.Context(), c.admitted)
	if c.admitted.Abandoned() {
		return nil
	}
	c.lack = lackOf(c.admitted)
	return response
}

// sendResponse adds the response to the stream; nil: the request is not answered.
func (c *call) sendResponse(response *protocol.Response) {
	if response != nil && c.holdsResult(response) {
		c.stream.Respond(append(c.text, '}'))
		return
	}
	c.stream.Respond(encodeResponse(response))
}

// deliveryOf returns what the server is told of a call that r brought.
func (h *Handler) deliveryOf(c *call, rw *responseWriter, r *http.Request,
	p protocol.Principal) server.Delivery {
	d := h.newDelivery(rw, r, p)
	d.Panicked, c.jsonOnly = logPanic, rw.jsonOnly
	if d.Back = (sessionChannel{notifyChannel{c}}); c.session == nil {
		d.Back = notifyChannel{c} // answers could not find their way to a question
	}
	return d
}

// sideStream returns the stream for notifications and questions: that of the POST, or the open GET
// stream of a client that accepts JSON alone; nil: there is none.
func (c *call) sideStream() *replay.Stream {
	switch {
	case !c.jsonOnly:
		return c.stream
	case c.session == nil:
		return nil
	}
	return c.session.log.OpenListener()
}

// encodeResponse returns nil for nil: a request that is not answered.
func encodeResponse(response *protocol.Response) []byte {
	if response == nil {
		return nil
	}
	return rules.AppendResponse(nil, response)
}

// A notifyChannel sends notifications on the stream of a request. A client without a session gets
// no requests, because its answers could not be matched to a call.
type notifyChannel struct{ *call }

// Notify sends a notification. A disconnect of the client is no error: the handler goes on.
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

// A sessionChannel sends to the client of a session.
type sessionChannel struct{ notifyChannel }

var (
	_ server.BackSender   = sessionChannel{}
	_ rpc.TextSender      = sessionChannel{}
	_ rpc.PushChecker     = sessionChannel{}
	_ rpc.StreamCloser    = sessionChannel{}
	_ rpc.TransientSender = notifyChannel{}
)

// Send sends any message but a response. A request that the client can never receive is an error.
func (b sessionChannel) Send(ctx context.Context, m protocol.Message) error {
	return b.sendMessage(ctx, m)
}

// SendText implements [rpc.TextSender].
func (b sessionChannel) SendText(ctx context.Context, request []byte) error {
	return b.sendText(ctx, request)
}

// cannotAsk is the text for a client that no question can reach.
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
