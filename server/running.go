package server

import (
	"context"
	"sync"

	"github.com/rondo-mcp/rondo/internal/waiting"
)

// running is the set of requests being served. Its zero value accepts.
type running struct {
	mu      sync.Mutex
	legs    map[*activeRequest]struct{}
	closing bool
	drained chan struct{} // made by drain, closed when nothing runs any more
}

// begin adds a request that runs under a child of ctx. It reports false when
// the server is closing.
func (r *running) begin(ctx context.Context, l *activeRequest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return false
	}
	if r.legs == nil {
		r.legs = map[*activeRequest]struct{}{}
	}
	l.watch.Init(ctx, nil)
	l.ctx.Init(ctx)
	l.ctx.SetValue(waiting.Key(), &l.watch)
	r.legs[l] = struct{}{}
	return true
}

func (r *running) end(l *activeRequest) {
	l.ctx.Cancel(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.legs, l)
	r.settle()
}

// drain stops accepting and returns a channel that is closed once nothing runs.
// Requests that wait for a person are ended, unless people are waited for, and so
// are those that begin to wait.
func (r *running) drain(people bool) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closing = true
	for l := range r.legs {
		if !people {
			l.watch.End(waiting.ErrClosing)
		}
	}
	if r.drained == nil {
		r.drained = make(chan struct{})
		r.settle()
		return r.drained
	}
	return r.drained
}

// settle closes drained once nothing runs. It is called with mu held.
func (r *running) settle() {
	if r.drained == nil || len(r.legs) > 0 {
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
	for l := range r.legs {
		l.watch.End(waiting.ErrClosing) // in words for the caller, and whatever context it asks with
		l.ctx.Cancel(ErrClosed)
	}
}
