package upstream

import (
	"context"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
)

// requestCalls are those that a handler has begun.
type requestCalls struct {
	mu    sync.Mutex
	calls []*elicitation.Call
}

type requestKey struct{}

// WithRequest returns the context for the handler of a client's request, and what is called when it
// has returned: it ends the calls that the handler has not. Whatever came on their connections
// would be ambiguous.
func WithRequest(ctx context.Context) (_ context.Context, end func()) {
	r := &requestCalls{}
	return context.WithValue(ctx, requestKey{}, r), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, call := range r.calls {
			call.End()
		}
	}
}

// NoteCall adds a call to those of the request that ctx is of.
func NoteCall(ctx context.Context, call *elicitation.Call) {
	if r, ok := ctx.Value(requestKey{}).(*requestCalls); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, call)
	}
}

// NewContext returns a context for requests upstream: it ends when that of the client's request
// ends, and has none of its values, such as the session and the revision of the client.
func NewContext(ctx context.Context) context.Context { return requestContext{ctx} }

type requestContext struct{ ended context.Context }

// Deadline implements [context.Context].
func (c requestContext) Deadline() (time.Time, bool) { return c.ended.Deadline() }

// Done implements [context.Context].
func (c requestContext) Done() <-chan struct{} { return c.ended.Done() }

// Err implements [context.Context].
func (c requestContext) Err() error { return c.ended.Err() }

// Value implements [context.Context].
func (c requestContext) Value(any) any { return nil }

// AfterFunc lets package context derive contexts without a goroutine each.
func (c requestContext) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(c.ended, f)
}

// Unreachable is the error of a call that the upstream has not answered. Its text is for the
// client: the cause may name what clients are not to know, such as addresses.
type Unreachable struct{ Cause error }

// Error returns the message for the client.
func (e Unreachable) Error() string { return "The upstream server cannot be reached" }

// Unwrap returns the cause.
func (e Unreachable) Unwrap() error { return e.Cause }

// RetryLost makes a call, and makes it again where the upstream does not know the session and so
// has not run it.
func RetryLost[Result any](isLost func(error) bool, call func() (Result, error)) (Result, error) {
	result, err := call()
	if isLost(err) {
		return call()
	}
	return result, err
}
