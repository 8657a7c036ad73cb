package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// ErrNoRound is returned, wrapped with what is wrong, by the calls of flow style
// outside of a handler that can ask, with a context that is not the handler's,
// and after the handler has returned.
var ErrNoRound = errors.New("there is no round to ask in")

// noRound says why ctx has no round, and what to do about it.
func noRound(ctx context.Context) error {
	if ctx.Value(runKey{}) != nil { // it is there, and empty
		return fmt.Errorf("%w: requests of this method cannot ask; ask in a handler of tools/call, prompts/get or resources/read", ErrNoRound)
	}
	if calledByHandler() {
		return fmt.Errorf("%w: this is a handler, and the context is another one; pass on the context that the handler was called with, "+
			"not context.Background()", ErrNoRound)
	}
	return fmt.Errorf("%w: the context is not that of a handler of tools/call, prompts/get or resources/read; "+
		"pass on the one that the handler was called with", ErrNoRound)
}

// maxFrames is how far up a handler is looked for.
const maxFrames = 256

// calledByHandler reports whether a handler is running further up on this
// goroutine. It is asked for the text of an error only.
func calledByHandler() bool {
	callers := make([]uintptr, maxFrames)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "/roundtrip.(*exchange).invokeHandler") {
			return true
		}
		if !more {
			return false
		}
	}
}

// errReturned is what is said after the handler's return.
func errReturned() error {
	return fmt.Errorf("%w: the handler has returned; wait in it for the goroutines that ask", ErrNoRound)
}

// adviceOn is what a model is to make of a refusal.
func adviceOn(err error) string {
	if refusedWith[*DeclinedError](err) {
		return "; the person does not want this: do not call again unless they ask for it"
	}
	return "; the person has not decided: call again only if they want to"
}

// ErrPending is returned, wrapped with the keys, by the calls of flow style in a
// round that is going to ask, and is the cause with which the handler's context
// ends then. Handlers return it or anything else: the funnel does not look.
var ErrPending = errors.New("the question is being asked; the handler runs again with the answer")

// A DeclinedError says that the person declined the question Key.
type DeclinedError struct{ Key string }

// Error names the question.
func (e *DeclinedError) Error() string { return "declined: " + e.Key }

// A CancelledError says that the person dismissed the question Key without
// deciding.
type CancelledError struct{ Key string }

// Error names the question.
func (e *CancelledError) Error() string { return "cancelled: " + e.Key }

// A JournalError says that the handler does not ask the same in every round, or
// asks twice under one key. The flow ends: whatever the handler returns, the
// client gets an internal error, and the observer a [ServerBug] with this.
type JournalError struct {
	Key     string
	Problem string
}

// Error names the key and the problem.
func (e *JournalError) Error() string { return fmt.Sprintf("key %q: %s", e.Key, e.Problem) }

// refusedWith reports whether err is a refusal of the sort E.
func refusedWith[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
