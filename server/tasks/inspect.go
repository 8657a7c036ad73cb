package tasks

import (
	"context"
	"encoding/hex"

	"github.com/rondo-mcp/rondo/internal/inspection"
)

// maxSeen is how many tasks a process remembers for [Tasks.Inspect] after it ran them.
const maxSeen = 100

// Inspect tells the page of package server/inspect which tasks run here, and of the last 100 that
// ran what became of them. For any other context it does nothing.
func (t *Tasks) Inspect(ctx context.Context) {
	report := inspection.From(ctx)
	if report == nil {
		return
	}
	t.mu.Lock()
	seen := map[[32]byte]inspection.Task{}
	for id, task := range t.seen.All() {
		seen[id] = task
	}
	running := make([]*run, 0, len(t.running))
	for _, r := range t.running {
		running = append(running, r)
	}
	t.mu.Unlock()
	used, bound := int64(len(t.slots)), int64(cap(t.slots))
	report.Limits = append(report.Limits, inspection.Limit{Name: "runs of tasks",
		Option: "tasks.Options.Runs", Used: used, Bound: bound})
	for _, r := range running {
		if task, ok := r.describe(true); ok {
			seen[r.id] = task
		}
	}
	for _, task := range seen {
		report.Tasks = append(report.Tasks, task)
	}
}

// describe returns what an operator may know of the task of a run. It reports false while the run
// is being stored.
func (r *run) describe(runs bool) (inspection.Task, bool) {
	if !r.mu.TryLock() {
		return inspection.Task{}, false
	}
	defer r.mu.Unlock()
	status := r.rec.Status
	switch {
	case runs && r.rec.Queued:
		status = "waits for its turn"
	case runs:
		status = "runs"
	case r.rec.Status == statusWorking && r.rec.Looks > 0:
		status = "waits"
	case r.rec.Status == statusWorking:
		status = "to be run again"
	}
	return inspection.Task{ID: hex.EncodeToString(r.id[:4]), Tool: r.rec.Tool, Status: status,
		Who: inspection.NameOf(r.rec.Owner.principal()), Created: r.rec.Created,
		Changed: r.rec.Updated, TakenOver: r.takenOver, Deaths: r.rec.Deaths}, true
}

// rememberLocked keeps what became of a run that has ended.
func (t *Tasks) rememberLocked(r *run) {
	if task, ok := r.describe(false); ok {
		if before, ok := t.seen.Get(r.id); ok {
			task.TakenOver = task.TakenOver || before.TakenOver
		}
		t.seen.Put(r.id, task)
	}
}
