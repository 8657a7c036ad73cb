// Package waiting tells the code around a call that the call waits for a person. Then clocks stop,
// slots are freed, heartbeats go to the caller, and a shutdown can end waits without ending work.
//
// Code that asks a person calls [Wait.Begin] and, after the answer or withdrawal, [Wait.End]. Code
// around a call (middleware, a transport, a router) puts a [Watch] into its context, and learns
// when the call begins and ends to wait. A call waits while any of its questions is open.
package waiting

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

// ErrClosing ends waits when a server closes; other packages' causes match it with [errors.Is].
var ErrClosing = errors.New("the server is closing, call again")

// closingRetryAfter is short: another process may soon replace a closing server.
const closingRetryAfter = time.Second

// RefuseClosing returns [ErrClosing] as a wire error.
func RefuseClosing() *protocol.Error {
	return quota.Refuse(quota.None, closingRetryAfter, "%s", ErrClosing.Error())
}

// A Listener learns when a call begins and ends to wait.
type Listener interface {
	// SetWaiting is called alternately with true and false, by one goroutine at a time, and with
	// false before the call continues. It must return soon and must not call [Begin].
	SetWaiting(waiting bool)
}

// A Resumer is a [Listener] that may delay a call after its answer.
type Resumer interface {
	Listener
	// AwaitResume returns when the call may continue, or the cause of ctx if that ends first. It
	// returns nil at once while another question is open. Calls may overlap.
	AwaitResume(ctx context.Context) error
}

// A Watch follows all waits under its context. Do not copy. Methods may be called concurrently.
type Watch struct {
	parent   context.Context
	listener Listener

	mu    sync.Mutex
	waits []*Wait  // open waits
	room  [1]*Wait // for the usual single one
	ended error    // why waits must end; nil if they need not
}

// A Canceler ends something. Cancel must return soon; calls may repeat and overlap [Wait.Begin].
type Canceler interface{ Cancel(cause error) }

// A Wait is one or more questions that a call waits for. It is used once and must not be copied.
type Wait struct {
	innermost *Watch
	questions Canceler // nil if they cannot be withdrawn from outside
	over      atomic.Bool
}

type watchKey struct{}

// Key is the context key of a [Watch].
func Key() any { return watchKey{} }

// Attach initializes a Watch and returns a context that carries it, for code without its own
// context type. listener may be nil. Call it once, first.
func (w *Watch) Attach(parent context.Context, listener Listener) context.Context {
	w.parent, w.listener = parent, listener
	return context.WithValue(parent, watchKey{}, w)
}

// A LazyWatch creates a [Watch] on demand. The zero value is ready. It must not be copied.
type LazyWatch struct{ watch atomic.Pointer[Watch] }

// Ensure returns the watch for a context below parent, whose Value returns it for [Key]. The first
// call creates it. listener may be nil. Calls may overlap.
func (l *LazyWatch) Ensure(parent context.Context, listener Listener) *Watch {
	if l.watch.Load() == nil {
		l.watch.CompareAndSwap(nil, &Watch{parent: parent, listener: listener})
	}
	return l.watch.Load()
}

type listenerFunc func(bool)

func (f listenerFunc) SetWaiting(waiting bool) { f(waiting) }

// WithWatch returns a context with a watch whose [Listener] is tell.
func WithWatch(ctx context.Context, tell func(waiting bool)) context.Context {
	return new(Watch).Attach(ctx, listenerFunc(tell))
}

// WithWatchOf returns ctx extended by the watches of a second context, of, which are told of its
// waits too. It is for a call that asks with a context other than its own.
func WithWatchOf(ctx, of context.Context) context.Context {
	own := from(of)
	for w := from(ctx); w != nil; w = from(w.parent) {
		if w == own {
			return ctx
		}
	}
	if own == nil {
		return ctx
	}
	return context.WithValue(ctx, watchKey{}, own)
}

func from(ctx context.Context) *Watch {
	w, _ := ctx.Value(watchKey{}).(*Watch)
	return w
}

// Begin reports that ctx's call waits for a person until end is called, perhaps repeatedly.
func Begin(ctx context.Context) (end func()) {
	w := &Wait{}
	w.Begin(ctx, nil)
	return w.End
}

// Begin reports that the call of ctx waits for a person. questions, if not nil, are cancelled when
// the wait is to end, at once if calls under ctx may not wait; the caller still calls [Wait.End].
func (one *Wait) Begin(ctx context.Context, questions Canceler) {
	one.innermost, one.questions = from(ctx), questions
	for w := one.innermost; w != nil; w = from(w.parent) {
		if ended := w.addWait(one); ended != nil && questions != nil {
			questions.Cancel(ended)
		}
	}
}

// End ends the wait. Further calls do nothing.
func (one *Wait) End() {
	if !one.over.Swap(true) {
		one.removeFrom(one.innermost)
	}
}

// Resume waits until the call may continue after [Wait.End]. It asks the watches, the innermost
// first, and returns the cause of ctx if that ends before.
func (one *Wait) Resume(ctx context.Context) error {
	for w := one.innermost; w != nil; w = from(w.parent) {
		if r, ok := w.listener.(Resumer); ok {
			if err := r.AwaitResume(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeFrom ends the wait for w and outer watches. No clock stays paused if a listener panics.
func (one *Wait) removeFrom(w *Watch) {
	if w == nil {
		return
	}
	defer func() { one.removeFrom(from(w.parent)) }()
	w.removeWait(one)
}

// addWait returns why calls under the watch may not wait, or nil if they may.
func (w *Watch) addWait(one *Wait) (ended error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waits) == 0 {
		w.waits = w.room[:0]
	}
	w.waits = append(w.waits, one)
	if len(w.waits) == 1 && w.listener != nil {
		w.listener.SetWaiting(true)
	}
	return w.ended
}

func (w *Watch) removeWait(one *Wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.waits, one)
	if i < 0 { // an inner listener panicked at the wait's begin
		return
	}
	w.waits = slices.Delete(w.waits, i, i+1)
	if len(w.waits) == 0 {
		w.waits = nil
		if w.listener != nil {
			w.listener.SetWaiting(false)
		}
	}
}

// End withdraws questions of current and later waits, if possible. Working calls continue.
func (w *Watch) End(cause error) {
	w.mu.Lock()
	if w.ended == nil {
		w.ended = cause
	}
	open := slices.Clone(w.waits)
	w.mu.Unlock()
	for _, one := range open {
		if one.questions != nil {
			one.questions.Cancel(cause)
		}
	}
}
