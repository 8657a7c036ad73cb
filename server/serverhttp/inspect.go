package serverhttp

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/rondo-mcp/rondo/internal/inspection"
)

const maxInspected = 200 // sessions listed by [Handler.Inspect]

// Inspect reports the open sessions, without their ids, and the use of limits to the page of
// package server/inspect. With any other context it does nothing.
func (h *Handler) Inspect(ctx context.Context) {
	report := inspection.From(ctx)
	if report == nil {
		return
	}
	if h.forwarder != nil {
		report.Describe("Replica", h.forwarder.Self().Name)
	}
	t := h.sessions
	used, bound := t.count.Usage()
	report.AddLimit("sessions", "serverhttp.Limits.Sessions", used, bound)
	used, bound = t.bytes.Usage()
	report.AddBytes("bytes of initialize parameters", "serverhttp.Limits.Sessions", used, bound)
	used, bound = t.events.Usage()
	report.AddBytes("bytes of their events", "serverhttp", used, bound)
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.byID))
	table := inspection.Table{Name: "Sessions", Caption: fmt.Sprintf("%d open; at most %d are "+
		"listed, the busiest first", len(all), maxInspected), Head: []string{"Principal",
		"Client (self-reported)", "Revision", "In flight", "Running calls", "Idle since"}}
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(b.busy, a.busy) })
	for _, s := range all[:min(len(all), maxInspected)] {
		table.Rows = append(table.Rows, []string{inspection.NameOf(s.principal), "", "",
			strconv.Itoa(s.busy), strconv.Itoa(s.running), inspection.Ago(s.inOwn.Since())})
	}
	t.mu.Unlock()
	for i, row := range table.Rows {
		row[1], row[2] = all[i].core.ClientName(), string(all[i].core.Version())
	}
	report.Tables = append(report.Tables, table)
}
