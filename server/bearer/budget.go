package bearer

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
)

const (
	// These are defaults of Issuer.MaxFailedLookUps. GitHub permits 5000 look-ups an hour.
	defaultVerifications  = 60
	defaultIntrospections = 1200
	sourceShare           = 4    // each sender gets a quarter of a budget
	maxSources            = 4096 // number of senders counted separately
)

// A budget limits an issuer's failed look-ups per minute, for all senders and for each one.
type budget struct {
	cost time.Duration // cost of one failure

	mu      sync.Mutex
	all     time.Time                      // when all failures are paid off
	sources *recent.Map[string, time.Time] // the same for each sender
}

func newBudget(i *Issuer) *budget {
	n := i.MaxFailedLookUps
	switch {
	case n == 0 && i.Verify != nil:
		n = defaultVerifications
	case n == 0:
		n = defaultIntrospections
	}
	return &budget{cost: time.Minute / time.Duration(n),
		sources: recent.New[string, time.Time](maxSources, 2*time.Minute)}
}

// take charges a look-up in flight as failed. If the result is positive, wait: it was not charged.
func (b *budget) take(source string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	own, _ := b.sources.Get(source)
	pause := max(time.Until(b.all)+b.cost, time.Until(own)+sourceShare*b.cost, 0) - time.Minute
	if pause <= 0 {
		b.chargeLocked(source, 1)
	}
	return pause
}

func (b *budget) refund(source string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chargeLocked(source, -1)
}

func (b *budget) chargeLocked(source string, n time.Duration) {
	b.all = later(b.all, n*b.cost)
	if source != "" {
		own, _ := b.sources.Get(source)
		b.sources.Put(source, later(own, n*sourceShare*b.cost))
	}
}

// The function later adds a time to t, or to now if t has passed.
func later(t time.Time, by time.Duration) time.Time {
	if now := time.Now(); t.Before(now) {
		t = now
	}
	return t.Add(by)
}

// sourceOf names a request's sender: its address or IPv6 network. Empty: it may be a proxy.
func sourceOf(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	addr := at.Addr().Unmap()
	if err != nil || addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() {
		return ""
	}
	network, _ := addr.Prefix(min(addr.BitLen(), 64))
	return network.String()
}
