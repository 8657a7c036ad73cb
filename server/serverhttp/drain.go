package serverhttp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrShutdown is the cause with which the contexts of requests are cancelled
// that outlast the patience of [Handler.Shutdown].
var ErrShutdown = errors.New("serverhttp: shutting down")

// cancelGrace is how long cancelled requests have to send what they have to
// say. Handlers that watch their context need milliseconds.
const cancelGrace = time.Second

// running is the set of requests that are being served.
type running struct {
	mu      sync.Mutex
	cancels map[*context.CancelCauseFunc]struct{}
	closing bool
	idle    chan struct{} // closed once nothing runs, made by close
}

// begin adds a request. It returns the context to run it under and a function
// to call at its end, or false when no more are taken.
func (r *running) begin(ctx context.Context) (context.Context, func(), bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		cancel(ErrShutdown)
		return nil, nil, false
	}
	if r.cancels == nil {
		r.cancels = make(map[*context.CancelCauseFunc]struct{})
	}
	r.cancels[&cancel] = struct{}{}
	return ctx, func() { r.end(&cancel) }, true
}

func (r *running) end(cancel *context.CancelCauseFunc) {
	(*cancel)(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cancels, cancel)
	if r.closing && len(r.cancels) == 0 {
		close(r.idle)
	}
}

// close takes no more requests. The channel is closed once none is left.
func (r *running) close() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closing {
		r.closing = true
		r.idle = make(chan struct{})
		if len(r.cancels) == 0 {
			close(r.idle)
		}
	}
	return r.idle
}

// cancel cancels what runs and returns how much that is.
func (r *running) cancel(cause error) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cancel := range r.cancels {
		(*cancel)(cause)
	}
	return len(r.cancels)
}

// Shutdown ends the handler: from now on requests get 503, those that run are
// waited for. When ctx ends first, their contexts are cancelled with
// [ErrShutdown], they have another second to answer, and the error of ctx is
// returned. Shutdown leaves the connections to the [http.Server], whose own
// Shutdown should follow, and the [server.Server] to its owner. It may be
// called more than once.
func (h *Handler) Shutdown(ctx context.Context) error {
	idle := h.running.close()
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
	cancelled := h.running.cancel(ErrShutdown)
	timer := time.NewTimer(cancelGrace)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
	return fmt.Errorf("serverhttp: shutdown: cancelled %d requests: %w", cancelled, context.Cause(ctx))
}
