package bearer

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
)

const (
	// defaultVerifications and defaultIntrospections are those of Issuer.MaxFailedLookUps. GitHub
	// permits 5000 look-ups an hour; an introspection endpoint is there for this server.
	defaultVerifications  = 60
	defaultIntrospections = 1200
	// sourceShare is the part of a budget that one sender may use.
	sourceShare = 4
	// maxSources bounds the senders whose failures are counted. Others count in the whole budget.
	maxSources = 4096
)

// A budget bounds the look-ups of an issuer that fail, by minute: of all senders, and of each one.
// Made-up tokens must not have an issuer asked without end.
type budget struct {
	cost time.Duration // of a failure

	mu      sync.Mutex
	all     time.Time                      // when all failures are paid off
	sources *recent.Map[string, time.Time] // the same of each sender
}

// newBudget returns the budget of an issuer with Introspection or Verify.
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

// pause returns the time until a token of a sender may be looked up; 0 or less: it may.
func (b *budget) pause(source string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	own, _ := b.sources.Get(source)
	return max(time.Until(b.all)+b.cost, time.Until(own)+sourceShare*b.cost, 0) - time.Minute
}

// charge counts a look-up that has failed.
func (b *budget) charge(source string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = later(b.all, b.cost)
	if source != "" {
		own, _ := b.sources.Get(source)
		b.sources.Put(source, later(own, sourceShare*b.cost))
	}
}

// later returns a time after t, or after now if t has passed.
func later(t time.Time, by time.Duration) time.Time {
	if now := time.Now(); t.Before(now) {
		t = now
	}
	return t.Add(by)
}

// sourceOf names the sender of a request: its address, or of IPv6 the network. Empty: it may be a
// proxy, which has the requests of many.
func sourceOf(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	addr := at.Addr().Unmap()
	if err != nil || addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() {
		return ""
	}
	network, _ := addr.Prefix(min(addr.BitLen(), 64))
	return network.String()
}
