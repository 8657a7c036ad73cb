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

// errPrefix begins every error of this package.
const errPrefix errtext.Prefix = "serverhttp: "

// ErrShutdown is the cause of the contexts that [Handler.Shutdown] cancels.
var ErrShutdown error = &shutdownError{"serverhttp: shutting down"}

type shutdownError struct{ text string }

func (e *shutdownError) Error() string { return e.text }

// Is makes the error match waiting.ErrClosing, so that the caller gets that refusal.
func (e *shutdownError) Is(target error) bool { return target == waiting.ErrClosing }

// cancelGrace is how long Shutdown waits for the responses of cancelled requests.
const cancelGrace = time.Second

// beginRequest adds a request to those in flight, until endRequest, and returns its context. It
// reports false during a shutdown. listener may be nil.
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

// RefuseNew refuses new sessions, and requests of revision 2026-07-28 without a requestState, with
// 503 and Retry-After, so that a balancer uses another replica. Open sessions and flows continue.
// Each connection closes with its next response. It may be called more than once, before Shutdown.
func (h *Handler) RefuseNew() {
	h.refusesNew.Store(true)
	if h.forwarder != nil {
		h.forwarder.SetDraining()
	}
}

func (h *Handler) beginModern(
	rw *responseWriter, r *http.Request, request *protocol.Request,
) (context.Context, bool) {
	if h.refusesNew.Load() && !bytes.Contains(request.Params, []byte(`"requestState"`)) {
		return nil, false
	}
	return h.beginRequest(rw.handlerContext(r), &rw.task, nil)
}

// Shutdown refuses requests with 503, waits for requests in flight, ends subscriptions with a
// response, and then ends all legacy sessions. Legacy calls that wait for a person end at once, see
// [server.Options].ShutdownWaitsForPeople. When ctx ends first, the remaining requests are
// cancelled with [ErrShutdown], Shutdown waits another second, and returns the error of ctx. Shut
// down the [http.Server] next; the [server.Server] stays open. It may be called more than once.
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

// Drain opens no more sessions, serves the open ones, also through other replicas, and returns nil
// when the last has ended, or else the error of ctx. Requests of revision 2026-07-28 are served
// meanwhile. Call Shutdown next. Replicas that know this one find it even if Locate of
// [Options].Replicas does not.
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
