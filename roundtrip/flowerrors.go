package roundtrip

import (
	"errors"
	"fmt"
)

// ErrNoRound is returned by the calls of flow style outside of a handler that
// can ask, or after it has returned.
var ErrNoRound = errors.New("there is no round to ask in: not in a handler of tools/call, prompts/get or resources/read")

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
