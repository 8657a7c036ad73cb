package serverhttp

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/internal/inspection"
)

// Inspect tells the page of package server/inspect which sessions are open, without their ids, and
// how full the limits are. For any other context it does nothing.
func (h *Handler) Inspect(ctx context.Context) {
	report := inspection.From(ctx)
	if report == nil {
		return
	}
	add := func(name, option string, bytes bool, usage func() (int64, int64)) {
		used, bound := usage()
		report.Limits = append(report.Limits, inspection.Limit{Name: name,
			Option: "serverhttp.Limits." + option, Used: used, Bound: bound, Bytes: bytes})
	}
	t := h.sessions
	add("sessions", "Sessions", false, t.count.Usage)
	add("bytes of what they said at initialize", "Sessions", true, t.bytes.Usage)
	add("bytes of events that are kept", "EventBytes", true, t.events.Usage)
	t.mu.Lock()
	all := t.listLocked()
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(b.busy, a.busy) })
	report.SessionCount += len(all)
	all = all[:min(len(all), inspection.MaxSessions)]
	listed := make([]inspection.Session, len(all))
	for i, s := range all {
		listed[i] = inspection.Session{Who: inspection.NameOf(s.principal), Busy: s.busy,
			Running: s.running}
		if s.busy == 0 {
			listed[i].Idle = time.Since(s.inOwn.Since())
		}
	}
	t.mu.Unlock()
	for i, s := range all {
		listed[i].Version, listed[i].Client = string(s.core.Version()), s.core.ClientName()
	}
	report.Sessions = append(report.Sessions, listed...)
}
