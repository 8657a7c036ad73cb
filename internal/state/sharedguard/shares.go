package sharedguard

import (
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// Shares bound what each owner may have of claims, and of states, in a store that replicas share.
// The store counts; Shares tell what it may count up to. Owners are named as [OwnerOf] does.
type Shares struct {
	all           Room
	local         string      // an owner that only the totals bound
	authenticates atomic.Bool // an owner that is not anonymous was seen
}

// A Room is a number of entries and their size in bytes.
type Room struct{ Entries, Bytes int64 }

// NewShares returns the shares of a store that holds as much as all.
func NewShares(all Room) *Shares {
	return &Shares{all: all, local: OwnerOf(quota.OwnerDigest(protocol.LocalPrincipal()))}
}

// ReserveForAuthenticated leaves a quarter of the room to owners who authenticate.
func (s *Shares) ReserveForAuthenticated() { s.authenticates.Store(true) }

// Of returns what an owner may have, and what all may have together. Who asks for an owner that
// authenticates has seen one.
func (s *Shares) Of(owner string) (share, all Room) {
	if owner != "" && owner != s.local {
		s.authenticates.Store(true)
		return Room{quota.ShareOf(s.all.Entries), quota.ShareOf(s.all.Bytes)}, s.all
	}
	if owner == "" && s.authenticates.Load() {
		return Room{s.all.Entries - quota.ShareOf(s.all.Entries),
			s.all.Bytes - quota.ShareOf(s.all.Bytes)}, s.all
	}
	return s.all, s.all
}

// Refuse returns the [*store.QuotaError] for an owner who has reached a limit. The share of an
// owner that has none is the total.
func (s *Shares) Refuse(resource, owner string, limit quota.Limit) error {
	if owner == s.local || owner == "" && !s.authenticates.Load() {
		limit = quota.Total
	}
	return &store.QuotaError{Resource: resource, Limit: string(limit), RetryAfter: time.Minute}
}
