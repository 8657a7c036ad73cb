package serverhttp

import (
	"context"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/errprefix"
	"github.com/rondo-mcp/rondo/internal/lazyctx"
	"github.com/rondo-mcp/rondo/internal/waiting"
	"github.com/rondo-mcp/rondo/server"
)

// errPrefix is what every error of this package begins with, once.
const errPrefix errprefix.Prefix = "serverhttp: "

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

// A task is a request that runs.
type task struct {
	ctx     lazyctx.Context // it runs under it, once it has begun
	watch   waiting.Watch   // in ctx
	endless bool            // it ends only when one side wants it to
}

// running is the set of requests that are being served.
type running struct {
	mu      sync.Mutex
	tasks   map[*task]struct{}
	closing bool
	idle    chan struct{} // closed once nothing runs, made by close
}

// begin adds t. It returns the context to run it under, or false when no more
// are taken. listener hears when the task waits for a person, nil: nobody does.
func (r *running) begin(ctx context.Context, t *task, listener waiting.Listener) (context.Context, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return nil, false
	}
	if r.tasks == nil {
		r.tasks = make(map[*task]struct{})
	}
	t.watch.Init(ctx, listener)
	t.ctx.Init(ctx)
	t.ctx.SetValue(waiting.Key(), &t.watch)
	r.tasks[t] = struct{}{}
	return &t.ctx, true
}

func (r *running) end(t *task) {
	t.ctx.Cancel(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tasks, t)
	if r.closing && len(r.tasks) == 0 {
		close(r.idle)
	}
}

// close takes no more requests and ends those that would run for ever, or wait
// for people, unless people are waited for. The channel is closed once none is
// left.
func (r *running) close(people bool) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closing {
		r.closing = true
		r.idle = make(chan struct{})
		for t := range r.tasks {
			if t.endless {
				t.ctx.Cancel(server.ErrClosed) // which is answered with a result
			}
			if !people {
				t.watch.End(waiting.ErrClosing)
			}
		}
		if len(r.tasks) == 0 {
			close(r.idle)
		}
	}
	return r.idle
}

// cancel cancels what runs and returns how much that is.
func (r *running) cancel(cause error) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.tasks {
		t.watch.End(waiting.ErrClosing)
		t.ctx.Cancel(cause)
	}
	return len(r.tasks)
}

// Shutdown ends the handler: from now on requests get 503, those that run are
// waited for, and subscriptions end in good order; then all legacy sessions
// end. Calls of legacy clients that wait for a person end at once, see
// [server.Options].ShutdownWaitsForPeople. When ctx ends first, their contexts are cancelled with
// [ErrShutdown], they have another second to answer, and the error of ctx is
// returned. Shutdown leaves the connections to the [http.Server], whose own
// Shutdown should follow, and the [server.Server] to its owner. It may be
// called more than once.
func (h *Handler) Shutdown(ctx context.Context) error {
	idle := h.running.close(h.srv.ShutdownWaitsForPeople())
	h.sessions.closeForNew()
	defer h.sessions.endAll()
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
	return errPrefix.Errorf("shutdown: cancelled %d requests: %w", cancelled, context.Cause(ctx))
}
