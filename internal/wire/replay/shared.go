package replay

import (
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/recent"
)

// Shared is what all logs of an endpoint have in common: the bound on the bytes of one log, and the
// queue of the streams that have ended, which are the first to be evicted when the logs together
// hold too much. The events themselves are in the streams.
type Shared struct {
	maxLogBytes int64
	ended       *recent.Queue[*Stream]
}

// NewShared returns what logs share that keep at most maxLogBytes each. The events of a stream that
// has ended are kept for endedStreamLife, for a client that has not received all of them.
func NewShared(maxLogBytes int64, endedStreamLife time.Duration) *Shared {
	return &Shared{
		maxLogBytes: maxLogBytes,
		ended:       recent.NewQueue(endedStreamLife, (*Stream).forgetEnded),
	}
}

// Stop ends the timer of the store, after the last log has ended.
func (s *Shared) Stop() { s.ended.Stop() }

// evictEnded evicts streams that have ended until the total of all logs is within
// its bound. It is called without any lock held. When no stream has ended, the
// total stays exceeded, and the log that grew pays (see Log.applyChange).
func (s *Shared) evictEnded(account Account) {
	for account.FindExceeded() == quota.Total {
		oldest, ok := s.ended.RemoveOldest()
		if !ok {
			return
		}
		oldest.forgetEnded()
	}
}

// An Account counts the bytes that the logs of one principal keep. Its methods may
// be called concurrently and with the lock of a log held.
type Account interface {
	// ForceTake counts n bytes more, whatever the bound.
	ForceTake(n int64)
	// Give counts n bytes less.
	Give(n int64)
	// FindExceeded returns which bound is exceeded: that of all principals
	// together, that of this one, or none.
	FindExceeded() quota.Limit
}
