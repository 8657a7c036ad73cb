// Package inflight keeps the requests that are being served: to cancel one by its key, to cancel
// all, and to drain, which is to take no more and to wait until the last has ended.
//
// A [Request] is started once and may be in several sets: in that of the server and in that of its
// connection, for example.
package inflight

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
)

// A Request is the context of one request that is served, and the watch that sees it wait for
// people. It must not be copied.
type Request struct {
	// DrainCause is the cause with which [Set.Drain] cancels a request that would go on for ever,
	// such as a subscription. Nil: Drain waits for the request. It is set before the request is
	// added to a set.
	DrainCause error
	// Uncancellable makes [Set.Cancel] pass the request over: initialize, which a client must not
	// cancel. It is set before the request is added to a set.
	Uncancellable bool

	cancelled atomic.Bool
	ctx       waiting.Context
	listener  waiting.Listener
	watch     waiting.LazyWatch // that ctx carries
}

// Start returns the context to serve the request under, a child of parent. It is called once.
// listener, which may be nil, hears when the request waits for a person.
func (r *Request) Start(parent context.Context, listener waiting.Listener) context.Context {
	r.listener = listener
	r.ctx.Init(parent)
	r.ctx.SetValues(r)
	return &r.ctx
}

// Value implements [waiting.Values].
func (r *Request) Value(key any) any {
	if key == waiting.Key() {
		return r.ensureWatch()
	}
	return nil
}

// ensureWatch returns the watch of a request that was started.
func (r *Request) ensureWatch() *waiting.Watch {
	return r.watch.Ensure(r.ctx.Parent(), r.listener)
}

// Context returns the context that Start returned.
func (r *Request) Context() context.Context { return &r.ctx }

// Cancel cancels the context with a cause. It frees its resources, too, so it is called for each
// request in the end, with nil for one that has been served.
func (r *Request) Cancel(cause error) { r.ctx.Cancel(cause) }

// IsCancelled reports whether the client cancelled the request, by [Set.Cancel]: it must not be
// answered.
func (r *Request) IsCancelled() bool { return r.cancelled.Load() }

// ErrCancelled is the cause with which a server cancels a request that its client does not want any
// more, see [Set.Cancel].
var ErrCancelled = errors.New("server: the client cancelled the request")

// Why [Set.Begin] does not take a request.
var (
	ErrDraining  = errors.New("inflight: no more requests are taken")
	ErrDuplicate = errors.New("inflight: a request with this key is in flight")
)

// A Set holds requests under keys: the ids that a client gave them, or the requests themselves
// where nobody cancels one by its id. The zero value is empty and takes requests. All methods may
// be called concurrently. They call listeners and cancel contexts with the mutex held, so neither
// may call the set.
type Set[K comparable] struct {
	mu       sync.Mutex
	requests map[K]*Request // those whose key is not free yet
	count    int            // of requests that have begun and not ended
	draining bool
	drained  chan struct{} // made by Drain, closed when count is 0
}

// Begin adds a request, which has been started, until [Set.End]. It fails with [ErrDraining] or
// [ErrDuplicate], and then End must not be called.
func (s *Set[K]) Begin(key K, r *Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return ErrDraining
	}
	if _, taken := s.requests[key]; taken {
		return ErrDuplicate
	}
	if s.requests == nil {
		s.requests = map[K]*Request{}
	}
	s.requests[key] = r
	s.count++
	return nil
}

// Free makes the key of a request free for another before the request ends, which is when its
// client may have the response. From then on the request cannot be cancelled.
func (s *Set[K]) Free(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, key)
}

// End removes a request. It is called once for each [Set.Begin] that succeeded.
func (s *Set[K]) End(key K, r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests[key] == r { // not freed, and taken by another
		delete(s.requests, key)
	}
	s.count--
	s.closeIfDrainedLocked()
}

// Cancel cancels a request because its client wants it. It reports whether there is one under key,
// even if it cannot be cancelled.
func (s *Set[K]) Cancel(key K, cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.requests[key]
	if ok && !r.Uncancellable {
		r.cancelled.Store(true)
		r.ctx.Cancel(cause)
	}
	return ok
}

// Drain takes no more requests, cancels those that have a DrainCause, and returns a channel that is
// closed when none is left. Requests that wait for people, and those that begin to, are ended with
// [waiting.ErrClosing] unless people are waited for.
func (s *Set[K]) Drain(waitForPeople bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	if s.drained == nil {
		s.drained = make(chan struct{})
	}
	for _, r := range s.requests {
		if r.DrainCause != nil {
			r.ctx.Cancel(r.DrainCause)
		}
		if !waitForPeople {
			r.ensureWatch().End(waiting.ErrClosing)
		}
	}
	s.closeIfDrainedLocked()
	return s.drained
}

func (s *Set[K]) closeIfDrainedLocked() {
	if s.drained == nil || s.count > 0 {
		return
	}
	select {
	case <-s.drained:
	default:
		close(s.drained)
	}
}

// Abort is [Set.CancelAll] for a server that closes: whatever context a question is asked with, it
// ends, and its caller is told that the server is closing.
func (s *Set[K]) Abort(cause error) int {
	s.Drain(false)
	return s.CancelAll(cause)
}

// CancelAll takes no more requests, cancels those in flight with cause, and returns how many these
// are.
func (s *Set[K]) CancelAll(cause error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for _, r := range s.requests {
		r.ctx.Cancel(cause)
	}
	return len(s.requests)
}

// Len returns how many requests are in flight whose key is not free.
func (s *Set[K]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}
