package inflight

// This file remembers notifications/cancelled that overtake their request.

import (
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// MaxEarlyCancels is small: most unmatched cancellations come after the response.
	MaxEarlyCancels = 16
	// MaxEarlyCancelID is the longest remembered request id, in bytes.
	MaxEarlyCancelID = 128
	EarlyCancelLife  = 5 * time.Second // reordered messages arrive within milliseconds
)

// EarlyCancels holds cancellations of unknown requests. It starts empty. Calls must not overlap.
type EarlyCancels struct {
	cancelled *recent.Map[protocol.ID, struct{}]
}

// Note remembers a cancellation, evicting the oldest above MaxEarlyCancels.
func (s *EarlyCancels) Note(id protocol.ID) {
	if len(id.String()) > MaxEarlyCancelID {
		return
	}
	if s.cancelled == nil {
		s.cancelled = recent.New[protocol.ID, struct{}](MaxEarlyCancels, EarlyCancelLife)
	}
	s.cancelled.Put(id, struct{}{})
}

// Take reports whether the request about to run has been cancelled. It forgets the cancellation, so
// that a peer that reuses an id, against the protocol, loses only one request.
func (s *EarlyCancels) Take(id protocol.ID) (cancelled bool) {
	_, cancelled = s.cancelled.Get(id)
	s.cancelled.Delete(id)
	return cancelled
}
