package store

import (
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
)

// ErrStateGone is what a [StateStore] answers for an id that it does not hold, or no longer.
var ErrStateGone = errors.New("state store: no such state")

// A SpentError means that a state has been claimed before.
type SpentError struct {
	// Outcome is what was recorded for it, nil while the first claim is still
	// running or when the answers presented now differ from those then.
	Outcome []byte
	// Running means that the answers are those of the first claim and that its leg
	// has not ended, as far as the guard knows: its [Lease] has not run out. The client
	// is told to come back soon, instead of that the state is spent.
	Running bool
	// Unknown means that the answers are those of the first claim, and that no outcome is
	// known: its leg has ended without one, or nobody has renewed its [Lease]. The client
	// is told to find out what happened and to start anew.
	Unknown bool
}

// Error means that the state was used.
func (e *SpentError) Error() string { return "request state has been used" }

// A QuotaError means that a [Guard], a [StateStore] or a [TaskStore] has no room. It has stored
// nothing. The client gets [protocol.CodeBusy] and may send the request again after RetryAfter.
type QuotaError struct {
	// Resource is what has no room, for logs: "guard", "store" or "tasks".
	Resource string
	// Limit is "principal" when the caller has used up its share, "server" when
	// all callers together have used up everything.
	Limit string
	// RetryAfter is when there may be room again, 0: in a second.
	RetryAfter time.Duration
}

// Error tells which bound was reached.
func (e *QuotaError) Error() string {
	if e.Limit == string(quota.Share) {
		return e.Resource + ": the principal has used up its share"
	}
	return e.Resource + ": full"
}
