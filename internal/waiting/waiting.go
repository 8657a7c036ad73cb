// Package waiting makes it visible to everything around a call that the call
// waits for a person. While it does, clocks stop and slots are given back.
//
// Whatever puts a question to a person calls [Begin] and, when the question is
// answered or withdrawn, the function that Begin returns. What surrounds a call
// (middleware, a transport, a router) puts a watch into its context with
// [WithWatch] and is told when the call begins and ends to wait. A call waits
// while any of its questions is open, however many goroutines ask.
package waiting

import (
	"context"
	"sync"
)

// A watch is one listener around a call.
type watch struct {
	outer *watch
	tell  func(waiting bool)

	mu   sync.Mutex
	open int // questions
}

type watchKey struct{}

// WithWatch returns a context that has tell called with true when a call under
// it begins to wait, and with false when its last question is answered or
// withdrawn: before the call goes on. tell is called by one goroutine at a time,
// with true and false by turns. It must return soon and must not call [Begin].
func WithWatch(ctx context.Context, tell func(waiting bool)) context.Context {
	return context.WithValue(ctx, watchKey{}, &watch{outer: from(ctx), tell: tell})
}

func from(ctx context.Context) *watch {
	w, _ := ctx.Value(watchKey{}).(*watch)
	return w
}

// Begin says that the call of ctx waits for a person from now on. The caller
// calls end when it does not any more; further calls of end do nothing.
func Begin(ctx context.Context) (end func()) {
	innermost := from(ctx)
	if innermost == nil {
		return func() {}
	}
	for w := innermost; w != nil; w = w.outer {
		w.addOpen(1)
	}
	return sync.OnceFunc(func() {
		for w := innermost; w != nil; w = w.outer {
			w.addOpen(-1)
		}
	})
}

// addOpen counts questions and tells when the first one opens and the last one
// closes.
func (w *watch) addOpen(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.open
	w.open += n
	if (before == 0) != (w.open == 0) {
		w.tell(w.open > 0)
	}
}
