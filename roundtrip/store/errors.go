package store

import (
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
)

// ErrStateGone is returned by a [StateStore] for an unknown or expired id.
var ErrStateGone = errors.New("state store: no such state")

// A SpentError means that a state was claimed before.
type SpentError struct {
	// Outcome is the recorded outcome; nil while the first claim runs or if the answers differ now.
	Outcome []byte
	// Running: the same answers hold an unexpired [Lease], and the client is told to retry soon.
	Running bool
	// Unknown means that the answers are those of the first claim, which ended without an outcome
	// or whose [Lease] ran out: the client is told to find out what happened and to start anew.
	Unknown bool
}

func (e *SpentError) Error() string { return "request state has been used" }

// A QuotaError means that a [Guard], a [StateStore] or a [TaskStore] has no room and stored
// nothing. The client gets [protocol.CodeBusy] and may retry after RetryAfter.
type QuotaError struct {
	Resource   string        // for logs: "guard", "store" or "tasks"
	Limit      string        // "principal" (the caller's share) or "server" (the total)
	RetryAfter time.Duration // 0: 1 s
}

// Error names the limit that was reached.
func (e *QuotaError) Error() string {
	if e.Limit == string(quota.Share) {
		return e.Resource + ": the principal has used up its share"
	}
	return e.Resource + ": full"
}
