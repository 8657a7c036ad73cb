package serverhttp

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
)

// errPrefix is what every error of this package begins with, once.
const errPrefix errtext.Prefix = "serverhttp: "

// ErrShutdown is the cause with which the contexts of requests are cancelled
// that outlast the patience of [Handler.Shutdown].
var ErrShutdown error = &shutdownError{"serverhttp: shutting down"}

// A shutdownError is why something ends when a handler shuts down.
type shutdownError struct{ text string }

func (e *shutdownError) Error() string { return e.text }

// Is makes it known to the funnel, which tells the caller.
func (e *shutdownError) Is(target error) bool { return target == waiting.ErrClosing }

// cancelGrace is how long cancelled requests have to send what they have to
// say. Handlers that watch their context need milliseconds.
const cancelGrace = time.Second

// beginRequest adds a request to those in flight, until endRequest, and returns the
// context to serve it under. It reports false when the handler is shutting down.
// listener, which may be nil, hears when the request waits for a person.
func (h *Handler) beginRequest(
	ctx context.Context, task *inflight.Request, listener waiting.Listener,
) (context.Context, bool) {
	ctx = task.Start(ctx, listener)
	if h.requests.Begin(task, task) != nil {
		task.Cancel(nil)
		return nil, false
	}
	return ctx, true
}

func (h *Handler) endRequest(task *inflight.Request) {
	task.Cancel(nil)
	h.requests.End(task, task)
}

// RefuseNew has what begins something get 503 with Retry-After from now on, so that a balancer
// offers it to another replica: sessions, and requests of revision 2026-07-28 that bring no
// requestState. Open sessions go on, as do flows. Connections close with the next response, so that
// at the end none is idle on which a balancer may just have sent a request. [Handler.Shutdown]
// should follow. It may be called more than once.
func (h *Handler) RefuseNew() {
	h.refusesNew.Store(true)
	if h.forwarder != nil {
		h.forwarder.SetDraining()
	}
}

// beginModern is beginRequest for a request of revision 2026-07-28, unless it begins something and
// nothing may begin.
func (h *Handler) beginModern(
	rw *responseWriter, r *http.Request, request *protocol.Request,
) (context.Context, bool) {
	if h.refusesNew.Load() && !bytes.Contains(request.Params, []byte(`"requestState"`)) {
		return nil, false
	}
	return h.beginRequest(rw.handlerContext(r), &rw.task, nil)
}

// Shutdown ends the handler: from now on requests get 503, those that run are waited for, and
// subscriptions end in good order; then all legacy sessions end. Calls of legacy clients that wait
// for a person end at once, see [server.Options].ShutdownWaitsForPeople. When ctx ends first, their
// contexts are cancelled with [ErrShutdown], they have another second to answer, and the error of
// ctx is returned. Shutdown leaves the connections to the [http.Server], whose own Shutdown should
// follow, and the [server.Server] to its owner. It may be called more than once.
func (h *Handler) Shutdown(ctx context.Context) error {
	h.refusesNew.Store(true)
	idle := h.requests.Drain(h.srv.ShutdownWaitsForPeople())
	h.sessions.closeForNew()
	defer h.sessions.endAll()
	if h.forwarder != nil {
		h.forwarder.SetDraining()
		defer h.forwarder.CloseIdle()
	}
	select {
	case <-idle:
		return nil
	default:
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	cancelled := h.requests.Abort(ErrShutdown)
	timer := time.NewTimer(cancelGrace)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
	return errPrefix.Errorf("shutdown: cancelled %d requests: %w", cancelled, context.Cause(ctx))
}

// Drain lets the sessions of this replica finish: it opens no more of them, serves those
// that are open, whichever replica their requests come through, and returns when the last
// has ended or when ctx ends, with the error of ctx. Requests of revision 2026-07-28 are
// served meanwhile. [Handler.Shutdown] should follow. The replicas that have spoken to this
// one go on to find it, even if the directory behind Locate of [Options].Replicas has forgotten it.
func (h *Handler) Drain(ctx context.Context) error {
	if h.forwarder != nil {
		h.forwarder.SetDraining()
	}
	select {
	case <-h.sessions.drainSessions():
		return nil
	case <-ctx.Done():
		return errPrefix.Errorf("drain: sessions are open: %w", context.Cause(ctx))
	}
}
