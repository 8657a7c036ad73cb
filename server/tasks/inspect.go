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

// maxSeen is how many tasks a process remembers for [Tasks.Inspect] after it ran them.
const maxSeen = 100

// A seenTask is what an operator may know of a task that this process runs or ran.
type seenTask struct {
	id        [32]byte
	tool, who string
	status    string
	takenOver string // from a process that ended; empty: it was not
	deaths    int    // of processes that ran it, since it got further
	changed   time.Time
}

// Inspect tells the page of package server/inspect which tasks run here, and of the last 100 that
// ran what became of them. For any other context it does nothing.
func (t *Tasks) Inspect(ctx context.Context) {
	report := inspection.From(ctx)
	if report == nil {
		return
	}
	t.mu.Lock()
	var seen []seenTask
	for id, task := range t.seen.All() {
		if t.running[id] == nil {
			seen = append(seen, task)
		}
	}
	for _, r := range t.running {
		if task, ok := r.describe(true); ok {
			seen = append(seen, task)
		}
	}
	t.mu.Unlock()
	report.AddLimit("runs of tasks", "tasks.Options.Runs", int64(len(t.slots)),
		int64(cap(t.slots)))
	slices.SortFunc(seen, func(a, b seenTask) int {
		return cmp.Or(b.changed.Compare(a.changed), slices.Compare(a.id[:], b.id[:]))
	})
	table := inspection.Table{Name: "Tasks", Head: []string{"Task", "Tool", "Whose", "Status",
		"Taken over", "Deaths", "Changed"},
		Caption: "Those that run here, and of the last 100 that did what became of them"}
	for _, s := range seen {
		table.Rows = append(table.Rows, []string{hex.EncodeToString(s.id[:4]), s.tool, s.who,
			s.status, s.takenOver, strconv.Itoa(s.deaths), inspection.Ago(s.changed)})
	}
	report.Tables = append(report.Tables, table)
}

// describe returns what an operator may know of the task of a run. It reports false while the run
// is being stored.
func (r *run) describe(runs bool) (seenTask, bool) {
	if !r.mu.TryLock() {
		return seenTask{}, false
	}
	defer r.mu.Unlock()
	s := seenTask{r.id, r.rec.Tool, inspection.NameOf(r.rec.Owner.principal()), r.rec.Status, "",
		r.rec.Deaths, r.rec.Updated}
	if r.takenOver {
		s.takenOver = "from a process that ended"
	}
	switch {
	case runs && r.rec.Queued:
		s.status = "waits for its turn"
	case runs:
		s.status = "runs"
	case r.rec.Status == statusWorking:
		s.status = "waits"
	}
	return s, true
}

// rememberLocked keeps what became of a run that has ended.
func (t *Tasks) rememberLocked(r *run) {
	if s, ok := r.describe(false); ok {
		before, _ := t.seen.Get(r.id)
		s.takenOver = cmp.Or(s.takenOver, before.takenOver)
		t.seen.Put(r.id, s)
	}
}
