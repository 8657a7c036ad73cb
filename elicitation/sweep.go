package elicitation

import (
	"time"
)

// startSweepLocked starts the timer of the sweep with the first call. It runs only while
// there are calls. r.mu is held.
func (r *Router) startSweepLocked() {
	switch {
	case len(r.calls) > 1:
	case r.sweep == nil:
		r.sweep = time.AfterFunc(r.opts.SweepInterval, r.reportLeakedCalls)
	default:
		r.sweep.Reset(r.opts.SweepInterval)
	}
}

// reportLeakedCalls reports calls that are over, and were already at the last sweep, and
// that their host has not ended. It ends nothing: whatever the host still does
// with them would be cut off.
func (r *Router) reportLeakedCalls() {
	var leaked []*Call
	r.mu.Lock()
	for c := range r.calls {
		if c.swept {
			leaked = append(leaked, c)
		}
		c.swept = c.over || c.origin.Session.detached
	}
	if len(r.calls) > 0 && !r.draining {
		r.sweep.Reset(r.opts.SweepInterval)
	}
	r.mu.Unlock()
	if !r.recordsEvents() {
		return
	}
	for _, c := range leaked {
		e := Event{Kind: EventLeaked, Time: time.Now(), Upstream: c.upstream, Duration: time.Since(c.began)}
		c.describeIn(&e)
		r.emitEvent(&e)
	}
}
