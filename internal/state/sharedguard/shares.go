package sharedguard

import (
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// Shares are the limits of each owner, named by [OwnerOf], in a store shared by replicas.
type Shares struct {
	all           Room
	local         string      // owner bounded only by the totals
	authenticates atomic.Bool // an authenticated owner was seen
}

type Room struct{ Entries, Bytes int64 }

func NewShares(all Room) *Shares {
	return &Shares{all: all, local: OwnerOf(quota.OwnerDigest(protocol.LocalPrincipal()))}
}

// ReserveForAuthenticated reserves a quarter for authenticated owners.
func (s *Shares) ReserveForAuthenticated() { s.authenticates.Store(true) }

// Of returns the limits of an owner, and of all together. It notes authenticated owners.
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

// Refuse returns the [*store.QuotaError] for an owner that reached a limit.
func (s *Shares) Refuse(resource, owner string, limit quota.Limit) error {
	if owner == s.local || owner == "" && !s.authenticates.Load() {
		limit = quota.Total
	}
	return &store.QuotaError{Resource: resource, Limit: string(limit), RetryAfter: time.Minute}
}
