package server

import (
	"context"
	"sync"
)

// running is the set of requests being served. Its zero value accepts.
type running struct {
	mu      sync.Mutex
	cancels map[*context.CancelCauseFunc]struct{}
	closing bool
	drained chan struct{} // made by drain, closed when nothing runs any more
}

// begin adds a request. It returns the context to run it under and the function
// to call at its end, or false when the server is closing.
func (r *running) begin(ctx context.Context) (context.Context, func(), bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		cancel(ErrClosed)
		return nil, nil, false
	}
	if r.cancels == nil {
		r.cancels = map[*context.CancelCauseFunc]struct{}{}
	}
	r.cancels[&cancel] = struct{}{}
	return ctx, func() { r.end(&cancel) }, true
}

func (r *running) end(cancel *context.CancelCauseFunc) {
	(*cancel)(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cancels, cancel)
	r.settle()
}

// drain stops accepting and returns a channel that is closed once nothing runs.
func (r *running) drain() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closing = true
	if r.drained == nil {
		r.drained = make(chan struct{})
		r.settle()
		return r.drained
	}
	return r.drained
}

// settle closes drained once nothing runs. It is called with mu held.
func (r *running) settle() {
	if r.drained == nil || len(r.cancels) > 0 {
		return
	}
	select {
	case <-r.drained:
	default:
		close(r.drained)
	}
}

// close stops accepting and cancels what runs.
func (r *running) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closing = true
	for cancel := range r.cancels {
		(*cancel)(ErrClosed)
	}
}
