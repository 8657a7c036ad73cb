package replay

import (
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/recent"
)

// Shared is common to all logs of an endpoint: the bound of one log, and the queue of ended
// streams, which are evicted first when the logs together hold too much.
type Shared struct {
	maxLogBytes int64
	ended       *recent.Queue[*Stream]
}

// NewShared returns a Shared for logs of at most maxLogBytes each. The events of an ended stream
// are kept for endedStreamLife, for clients that have not received all of them.
func NewShared(maxLogBytes int64, endedStreamLife time.Duration) *Shared {
	return &Shared{
		maxLogBytes: maxLogBytes,
		ended:       recent.NewQueue(endedStreamLife, (*Stream).forgetEnded),
	}
}

// Stop ends the timer, after the last log has ended.
func (s *Shared) Stop() { s.ended.Stop() }

// evictEnded evicts ended streams until the total of all logs is within its bound, or no ended
// stream is left; then the log that grew evicts events (see Log.applyChange). Hold no lock.
func (s *Shared) evictEnded(account Account) {
	for account.FindExceeded() == quota.Total {
		oldest, ok := s.ended.RemoveOldest()
		if !ok {
			return
		}
		oldest.forgetEnded()
	}
}

// An Account counts the bytes in one principal's logs, concurrently and with a log's lock held.
type Account interface {
	// ForceTake adds n bytes, beyond the bound if necessary.
	ForceTake(n int64)
	// Give subtracts n bytes.
	Give(n int64)
	// FindExceeded returns the exceeded bound: of all principals, of this one, or [quota.None].
	FindExceeded() quota.Limit
}
