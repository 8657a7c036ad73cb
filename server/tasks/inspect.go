package tasks

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/rondo-mcp/rondo/internal/inspection"
)

const maxSeen = 100 // tasks that a process remembers for [Tasks.Inspect]

// A seenTask is a row about a task for operators.
type seenTask [7]string

// Inspect reports running tasks and the last 100 ended ones to the page of package server/inspect.
func (t *Tasks) Inspect(ctx context.Context) {
	report := inspection.From(ctx)
	if report == nil {
		return
	}
	table := inspection.Table{Name: "Tasks",
		Caption: "Running tasks of this process, and the last 100 that ran here",
		Head:    []string{"Changed", "Task", "Tool", "Principal", "Status", "Taken over", "Deaths"}}
	t.mu.Lock()
	for id, row := range t.seen.All() {
		if t.running[id] == nil {
			table.Rows = append(table.Rows, row[:])
		}
	}
	for _, r := range t.running {
		if row, ok := r.describe(true); ok {
			table.Rows = append(table.Rows, row[:])
		}
	}
	t.mu.Unlock()
	slices.SortFunc(table.Rows, func(a, b []string) int { return slices.Compare(b, a) })
	report.Tables = append(report.Tables, table)
	used, total := t.slots.Usage()
	report.AddLimit("runs of tasks", "tasks.Options.Runs", used, total)
}

// describe describes the run; it reports false while the run is being stored.
func (r *run) describe(runs bool) (seenTask, bool) {
	if !r.mu.TryLock() {
		return seenTask{}, false
	}
	defer r.mu.Unlock()
	status, takenOver := r.rec.Status, ""
	switch {
	case runs && r.rec.Queued:
		status = "queued"
	case runs:
		status = "runs"
	case status == statusWorking:
		status = "waits"
	}
	if r.takenOver {
		takenOver = "from a process that ended"
	}
	return seenTask{r.rec.Updated.Format(time.DateTime), hex.EncodeToString(r.id[:4]), r.rec.Tool,
		inspection.NameOf(r.rec.Owner.principal()), status, takenOver,
		strconv.Itoa(r.rec.Deaths)}, true
}

func (t *Tasks) rememberLocked(r *run) {
	if row, ok := r.describe(false); ok {
		before, _ := t.seen.Get(r.id)
		row[5] = cmp.Or(row[5], before[5])
		t.seen.Put(r.id, row)
	}
}
