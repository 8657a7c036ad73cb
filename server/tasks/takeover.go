package tasks

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// keepLease renews the lease until done. It stops lost, cancelled and overdue runs.
func (r *run) keepLease(ctx context.Context, done chan struct{}) {
	t := r.tasks
	third := max(t.opts.Lease/3, time.Millisecond)
	// One ticker does it all. With synctest's clock two would be due at once, on which Go 1.26's race
	// detector crashes if several goroutines select them.
	tick := min(cancelPoll, third)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	tried, kept := time.Now(), time.Now()
	stopped, ended := ctx.Done(), time.Time{}
	for {
		select {
		case <-done:
			return
		case <-stopped:
			stopped, ended = nil, time.Now()
			continue
		case <-ticker.C:
		}
		if !ended.IsZero() && time.Since(ended) >= stopGrace {
			r.settleStopped(ctx, time.Now())
			return
		}
		if time.Since(tried) > third-tick/2 {
			tried = time.Now()
			err := t.store.RenewTask(context.WithoutCancel(ctx), r.id, r.name, t.opts.Lease)
			switch {
			case err == nil:
				kept = time.Now()
			case errors.Is(err, store.ErrTaskChanged) || time.Since(kept) > t.opts.Lease:
				r.lose()
				return
			}
		}
		task, err := t.store.GetTask(context.WithoutCancel(ctx), r.id)
		if err != nil || task.Number == r.number() {
			continue
		}
		if rec, err := t.open(ctx, task); err == nil && rec.Cancelled {
			r.stop(errCancelled)
		}
	}
}

func (r *run) number() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.task.Number
}

// lose ends a run whose task now belongs to another process.
func (r *run) lose() {
	r.mu.Lock()
	r.lost = true
	r.mu.Unlock()
	r.stop(errLost)
}

// sweep takes over tasks without a process, and drops expired ones.
func (t *Tasks) sweep() {
	timer := time.NewTimer(firstSweep)
	for ; t.awaitSweep(timer); timer.Reset(t.opts.Sweep + rand.N(t.opts.Sweep/2+1)) {
		t.sweepDue()
		if err := t.store.DropTasks(t.base); err != nil && t.base.Err() == nil {
			t.reportStore(t.base, "drop", err)
		}
	}
}

const firstSweep = time.Second // gives the program time to add its tools

// awaitSweep waits for the next sweep. It reports false on shutdown.
func (t *Tasks) awaitSweep(timer *time.Timer) bool {
	defer timer.Stop()
	select {
	case <-t.admits.Done():
		return false
	case <-t.server.Done():
		t.beginClosing()
		t.stop(errShutdown)
		return false
	case <-t.again:
	case <-timer.C:
	}
	return true
}

// sweepDue takes over due tasks while there is room. Unusable ones do not block it.
func (t *Tasks) sweepDue() {
	tried := map[[32]byte]bool{}
	for limit := sweepBatch; ; limit *= 2 {
		ids, err := t.store.DueTasks(t.base, limit)
		if err != nil {
			if t.base.Err() == nil {
				t.reportStore(t.base, "sweep", err)
			}
			return
		}
		for _, id := range ids {
			if !tried[id] && !t.takeOver(t.base, id) {
				return
			}
			tried[id] = true
		}
		if len(ids) < limit {
			return
		}
	}
}

// isFullLocked reports whether this process takes no more tasks, and if full notes to look again.
func (t *Tasks) isFullLocked() bool {
	full := len(t.running) >= queued*t.opts.Runs
	t.behind = t.behind || full
	return full || t.admits.Err() != nil
}

// hasRoomLocked reports whether this process may hold one more task of an owner. No owner fills it
// alone, so that a full process uses all its slots.
func (t *Tasks) hasRoomLocked(owner [32]byte) bool {
	if t.isFullLocked() {
		return false
	}
	if t.heldLocked(owner) < queued*t.share(owner) {
		return true
	}
	t.left[owner] = true
	return false
}

// share returns how many runs of an owner may be in flight.
func (t *Tasks) share(owner [32]byte) int {
	switch owner {
	case t.local:
		return t.opts.Runs
	case [32]byte{}: // the rest is for authenticated callers
		return t.opts.Runs - t.opts.Runs/4
	}
	return int(quota.ShareOf(int64(t.opts.Runs)))
}

func (t *Tasks) heldLocked(owner [32]byte) (n int) {
	for _, r := range t.running {
		if r.owner == owner {
			n++
		}
	}
	return n
}

// lookAgainLocked starts a sweep after a run, if tasks were left to others and now fit.
func (t *Tasks) lookAgainLocked(owner [32]byte) {
	if t.left[owner] && t.heldLocked(owner) <= t.share(owner) {
		delete(t.left, owner)
		signal(t.again)
	}
	if t.behind && len(t.running) < t.opts.Runs {
		t.behind = false
		signal(t.again)
	}
}

// takeOver runs a due task in this process. It reports false if the process is full or closing.
func (t *Tasks) takeOver(ctx context.Context, id [32]byte) bool {
	t.mu.Lock()
	full := t.isFullLocked()
	t.mu.Unlock()
	if full {
		return false
	}
	task, err := t.store.GetTask(ctx, id)
	if err != nil || !task.Due {
		return true
	}
	t.mu.Lock()
	hasRoom := t.hasRoomLocked(task.Owner)
	t.mu.Unlock()
	if !hasRoom {
		return true
	}
	rec, err := t.open(ctx, task)
	if err != nil {
		t.reportStore(ctx, "open", err)
		return true
	}
	now := time.Now()
	takenOver := task.Holder != ""
	if takenOver && !rec.Queued {
		rec.Deaths++
	}
	task.Holder, rec.Queued = "", false
	times := store.TaskTimes{}
	switch {
	case rec.hasExpired(now):
		rec.expire(now)
	case rec.Cancelled:
		rec.end(statusCancelled, now)
	case rec.Deaths >= maxDeaths:
		rec.how = "died"
		rec.fail(protocol.Errorf(protocol.CodeInternalError, "the task was stopped: the process "+
			"that ran it ended %d times without getting further", rec.Deaths), now)
	default:
		t.claim(task, &times)
	}
	times.Keep = rec.expires().Sub(now) + keepAfterEnd
	switch err := t.put(ctx, task, rec, times); {
	case err == nil && !rec.isOver():
		if takenOver {
			t.report(ctx, rec, "taken_over", time.Since(rec.Created))
		}
		t.start(task, rec, takenOver)
	case err != nil && !errors.Is(err, store.ErrTaskChanged):
		t.reportStore(ctx, "put", err)
	}
	return true
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
