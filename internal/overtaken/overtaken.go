// Package overtaken remembers cancellations that were there before the requests
// that they cancel: one that travels by itself, as over HTTP, or is taken at
// once while the request waits for its turn.
package overtaken

import (
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// Max is how many cancellations are remembered. One side cancels a few
	// things at a time, and most that find nothing came too late.
	Max = 16
	// MaxID is how many bytes the id of a request may take that is remembered.
	MaxID = 128
	// Life is how long a cancellation counts. What overtakes another message
	// does so by milliseconds.
	Life = 5 * time.Second
)

// A Set holds cancellations that found nothing to cancel. Its zero value is
// ready; calls must not overlap.
type Set struct{ list []cancellation }

type cancellation struct {
	id protocol.ID
	at time.Time
}

// Note remembers a cancellation, in place of the oldest if there are too many.
func (s *Set) Note(id protocol.ID) {
	if len(id.String()) > MaxID {
		return
	}
	if len(s.list) >= Max {
		s.list = slices.Delete(s.list, 0, 1)
	}
	s.list = append(s.list, cancellation{id, time.Now()})
}

// Take reports whether a request that is about to run has been cancelled. A
// cancellation counts once: whoever uses ids again, which it must not, is served
// the next time.
func (s *Set) Take(id protocol.ID) (cancelled bool) {
	i := slices.IndexFunc(s.list, func(c cancellation) bool { return c.id == id })
	if i < 0 {
		return false
	}
	cancelled = time.Since(s.list[i].at) < Life
	s.list = slices.Delete(s.list, i, i+1)
	return cancelled
}
