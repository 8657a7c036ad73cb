package inflight

// This file remembers notifications/cancelled that arrive before the request that they cancel. That
// happens when each message travels by itself, as in separate POSTs, or when the request waits for
// its turn and the notification does not.

import (
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// MaxEarlyCancels is how many cancellations are remembered. One side cancels a few requests at
	// a time, and most cancellations that find no request came after its response.
	MaxEarlyCancels = 16
	// MaxEarlyCancelID is the length in bytes of the longest request id that is remembered.
	MaxEarlyCancelID = 128
	// EarlyCancelLife is how long a cancellation counts. Reordered messages arrive within
	// milliseconds.
	EarlyCancelLife = 5 * time.Second
)

// EarlyCancels holds cancellations whose request is not known yet. The zero value is empty. Calls
// must not overlap.
type EarlyCancels struct {
	cancelled *recent.Map[protocol.ID, struct{}]
}

// Note remembers a cancellation. It evicts the oldest one when there are MaxEarlyCancels.
func (s *EarlyCancels) Note(id protocol.ID) {
	if len(id.String()) > MaxEarlyCancelID {
		return
	}
	if s.cancelled == nil {
		s.cancelled = recent.New[protocol.ID, struct{}](MaxEarlyCancels, EarlyCancelLife)
	}
	s.cancelled.Put(id, struct{}{})
}

// Take reports whether the request with that id, which is about to run, has been cancelled. It
// forgets the cancellation, so that a peer which reuses an id, against the protocol, has only one
// request cancelled.
func (s *EarlyCancels) Take(id protocol.ID) (cancelled bool) {
	_, cancelled = s.cancelled.Get(id)
	s.cancelled.Delete(id)
	return cancelled
}
