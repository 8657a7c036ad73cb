// Package inflight tracks the requests being served: to cancel one by its key, to cancel all, and
// to drain. A [Request] is started once and may be in several sets: the server's, its connection's.
package inflight

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
)

// A Request is the context and watch of one request. It must not be copied.
type Request struct {
	// DrainCause is the cause with which [Set.Drain] cancels an endless request, such as a
	// subscription. If nil, Drain waits. Set it before adding the request to a set.
	DrainCause error
	// Uncancellable makes [Set.Cancel] skip the request, as for initialize. Set it before Begin.
	Uncancellable bool

	cancelled atomic.Bool
	ctx       waiting.Context
	listener  waiting.Listener
	watch     waiting.LazyWatch // carried by ctx
}

// Start returns the context for serving the request, a child of parent. Call it once. listener,
// which may be nil, learns when the request waits for a person.
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

func (r *Request) ensureWatch() *waiting.Watch {
	return r.watch.Ensure(r.ctx.Parent(), r.listener)
}

// Context returns Start's result.
func (r *Request) Context() context.Context { return &r.ctx }

// Cancel cancels the context and frees its resources. Call it for each request, finally with nil.
func (r *Request) Cancel(cause error) { r.ctx.Cancel(cause) }

// IsCancelled reports whether the client cancelled the request, which then must not be answered.
func (r *Request) IsCancelled() bool { return r.cancelled.Load() }

// ErrCancelled is the cause for a request that its client cancelled, see [Set.Cancel].
var ErrCancelled = errors.New("server: the client cancelled the request")

// Errors of [Set.Begin].
var (
	ErrDraining  = errors.New("inflight: no more requests are taken")
	ErrDuplicate = errors.New("inflight: a request with this key is in flight")
)

// A Set holds requests by key: the client's ids, or the requests themselves if they are not
// cancelled by id. The zero value is empty and ready. All methods may be called concurrently.
// Listeners and functions of [context.AfterFunc] must not call the set, whose mutex is held.
type Set[K comparable] struct {
	mu       sync.Mutex
	requests map[K]*Request // whose key is not freed
	count    int            // begun and not ended
	draining bool
	drained  chan struct{} // made by Drain, closed when count is 0
}

// Begin adds a started request until [Set.End], or fails with [ErrDraining] or [ErrDuplicate].
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

// Free frees a key early, once the client may have the response; Cancel no longer works.
func (s *Set[K]) Free(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, key)
}

// End removes a request. Call it once for each successful [Set.Begin].
func (s *Set[K]) End(key K, r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests[key] == r { // not freed and reused
		delete(s.requests, key)
	}
	s.count--
	s.closeIfDrainedLocked()
}

// Cancel cancels a request for its client. It reports whether it exists, cancellable or not.
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

// Drain refuses new requests, cancels requests with a DrainCause, and returns a channel that is
// closed when no request is left. Unless waitForPeople is set, current and later waits for people
// end with [waiting.ErrClosing].
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

// Abort is [Set.CancelAll] for a closing server: it first ends waits with [waiting.ErrClosing].
func (s *Set[K]) Abort(cause error) int {
	s.Drain(false)
	return s.CancelAll(cause)
}

// CancelAll refuses new requests, cancels those in flight with cause, and returns their number.
func (s *Set[K]) CancelAll(cause error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for _, r := range s.requests {
		r.ctx.Cancel(cause)
	}
	return len(s.requests)
}

// Len returns the number of requests whose key is not freed.
func (s *Set[K]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}
