package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A Task is a task in a [TaskStore], which is trusted with availability but cannot read Record.
type Task struct {
	// ID is a digest of the client's id, Flow of the flow that began the task, Owner of its
	// principal or, if anonymous, zero. ID and Flow are each unique.
	ID, Flow, Owner [32]byte
	Wakes           [][32]byte // digests of events to wait for, see [TaskStore].WakeTasks
	Number          int64      // 1 at creation, incremented by each [TaskStore].PutTask
	Holder          string     // the process that runs the task; may be empty
	Over            bool       // ended for good: never due
	Record          []byte
	// Due, set by the store on reading, means to run the task now: any lease of its Holder is over.
	Due bool
}

// TaskTimes are durations from now, by the store's clock.
type TaskTimes struct {
	// Due is when to run the task, or when its Holder's lease ends. Negative means never.
	Due  time.Duration
	Keep time.Duration // minimum retention
}

// TaskRoom limits unfinished tasks of an owner (anonymous callers are one) and in all. 0: no limit.
type TaskRoom struct{ Owner, All int }

var (
	// ErrNoTask means that the [TaskStore] does not hold the task.
	ErrNoTask = errors.New("task store: no such task")
	// ErrTaskChanged means that a task has changed since it was read, or has another holder.
	ErrTaskChanged = errors.New("task store: the task has changed")
	// ErrTaskExists means that the flow has begun a task already.
	ErrTaskExists = errors.New("task store: the flow has a task already")
)

// A TaskStore keeps tasks (package server/tasks). A completed write must be visible to all
// replicas. Calls may overlap. Package storetest tests implementations.
type TaskStore interface {
	// CreateTask stores a task with Number 1. It returns [ErrTaskExists] if a task has the same
	// Flow or ID, even without room, and a [*QuotaError] without room; finished tasks count.
	CreateTask(ctx context.Context, task *Task, times TaskTimes, room TaskRoom) error
	// GetTask and GetFlow return a task by its ID or Flow, or [ErrNoTask].
	GetTask(ctx context.Context, id [32]byte) (*Task, error)
	GetFlow(ctx context.Context, flow [32]byte) (*Task, error)
	// PutTask replaces the task with the same ID and Number, but not Flow and Owner, and increments
	// Number, in task too. It returns [ErrNoTask], or [ErrTaskChanged] if the number differs or
	// Over is reset.
	PutTask(ctx context.Context, task *Task, times TaskTimes) error
	// RenewTask moves the due time of holder's task, or returns [ErrTaskChanged] if another process
	// holds it.
	RenewTask(ctx context.Context, id [32]byte, holder string, due time.Duration) error
	// DueTasks returns the IDs of at most limit due tasks, the longest due first.
	DueTasks(ctx context.Context, limit int) ([][32]byte, error)
	// WakeTasks makes all tasks due that have no holder and wait for digest, and returns at most
	// limit IDs.
	WakeTasks(ctx context.Context, digest [32]byte, limit int) ([][32]byte, error)
	// DropTasks drops some expired tasks. Until then they take room, and their Flow is taken.
	DropTasks(ctx context.Context) error
}

// A MemoryTaskStore is a [TaskStore] for a single process.
type MemoryTaskStore struct {
	mu    sync.Mutex
	tasks map[[32]byte]*memoryTask
	flows map[[32]byte]*memoryTask
	owned map[[32]byte]taskUse
	all   taskUse
}

// A taskUse counts unfinished tasks, and the bytes of finished tasks' records.
type taskUse struct{ open, bytes int }

const maxOverBytes = 256 << 20 // of finished tasks' records; one principal may use a quarter

type memoryTask struct {
	Task
	due, keep time.Time // zero due: never
}

// NewMemoryTaskStore returns an empty store. New tasks are refused while finished ones take 256
// MiB, or 64 MiB for one principal. CreateTask's caller limits unfinished ones.
func NewMemoryTaskStore() *MemoryTaskStore {
	return &MemoryTaskStore{tasks: map[[32]byte]*memoryTask{}, flows: map[[32]byte]*memoryTask{},
		owned: map[[32]byte]taskUse{}}
}

// CreateTask implements [TaskStore].
func (s *MemoryTaskStore) CreateTask(_ context.Context, task *Task, times TaskTimes,
	room TaskRoom) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flows[task.Flow] != nil || s.tasks[task.ID] != nil {
		return ErrTaskExists
	}
	switch {
	case s.owned[task.Owner].fills(room.Owner, maxOverBytes/4):
		return &QuotaError{Resource: "tasks", Limit: "principal"}
	case s.all.fills(room.All, maxOverBytes):
		return &QuotaError{Resource: "tasks", Limit: "server"}
	}
	task.Number = 1
	t := &memoryTask{}
	t.set(task, times)
	s.tasks[task.ID], s.flows[task.Flow] = t, t
	s.countLocked(t, 1)
	return nil
}

func (u taskUse) fills(tasks, bytes int) bool {
	return tasks > 0 && u.open >= tasks || u.bytes >= bytes
}

func (s *MemoryTaskStore) countLocked(t *memoryTask, n int) {
	u := taskUse{open: n}
	if t.Over {
		u = taskUse{bytes: n * len(t.Record)}
	}
	s.all = taskUse{s.all.open + u.open, s.all.bytes + u.bytes}
	had := s.owned[t.Owner]
	s.owned[t.Owner] = taskUse{had.open + u.open, had.bytes + u.bytes}
	if s.owned[t.Owner] == (taskUse{}) {
		delete(s.owned, t.Owner)
	}
}

func (t *memoryTask) set(task *Task, times TaskTimes) {
	flow, owner, old := t.Flow, t.Owner, t.Number > 0
	t.Task = *task
	if old {
		t.Flow, t.Owner = flow, owner
	}
	t.Record, t.Wakes = slices.Clone(task.Record), slices.Clone(task.Wakes)
	now := time.Now()
	t.due, t.keep = time.Time{}, now.Add(times.Keep)
	if times.Due >= 0 && !task.Over {
		t.due = now.Add(times.Due)
	}
}

func (t *memoryTask) isDue(now time.Time) bool { return !t.due.IsZero() && !t.due.After(now) }

func (t *memoryTask) read() (*Task, error) {
	now := time.Now()
	if t == nil || !t.keep.After(now) {
		return nil, ErrNoTask
	}
	c := t.Task
	c.Record, c.Wakes, c.Due = slices.Clone(t.Record), slices.Clone(t.Wakes), t.isDue(now)
	return &c, nil
}

// GetTask implements [TaskStore].
func (s *MemoryTaskStore) GetTask(_ context.Context, id [32]byte) (*Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tasks[id].read()
}

// GetFlow implements [TaskStore].
func (s *MemoryTaskStore) GetFlow(_ context.Context, flow [32]byte) (*Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flows[flow].read()
}

// PutTask implements [TaskStore].
func (s *MemoryTaskStore) PutTask(_ context.Context, task *Task, times TaskTimes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[task.ID]
	switch {
	case t == nil || !t.keep.After(time.Now()):
		return ErrNoTask
	case t.Number != task.Number || t.Over && !task.Over:
		return ErrTaskChanged
	}
	s.countLocked(t, -1)
	task.Number++
	t.set(task, times)
	s.countLocked(t, 1)
	return nil
}

// RenewTask implements [TaskStore].
func (s *MemoryTaskStore) RenewTask(_ context.Context, id [32]byte, holder string,
	due time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[id]
	if t == nil || t.Over || t.Holder != holder || holder == "" {
		return ErrTaskChanged
	}
	t.due = time.Now().Add(due)
	return nil
}

// DueTasks implements [TaskStore].
func (s *MemoryTaskStore) DueTasks(_ context.Context, limit int) ([][32]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*memoryTask
	now := time.Now()
	for _, t := range s.tasks {
		if t.isDue(now) {
			due = append(due, t)
		}
	}
	slices.SortFunc(due, func(a, b *memoryTask) int { return a.due.Compare(b.due) })
	ids := make([][32]byte, min(limit, len(due)))
	for i := range ids {
		ids[i] = due[i].ID
	}
	return ids, nil
}

// WakeTasks implements [TaskStore].
func (s *MemoryTaskStore) WakeTasks(_ context.Context, digest [32]byte, limit int) (
	ids [][32]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tasks {
		if t.Holder != "" || t.Over || !slices.Contains(t.Wakes, digest) {
			continue
		}
		t.due = time.Now()
		if len(ids) < limit {
			ids = append(ids, t.ID)
		}
	}
	return ids, nil
}

// DropTasks implements [TaskStore].
func (s *MemoryTaskStore) DropTasks(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for id, t := range s.tasks {
		if !t.keep.After(now) {
			s.countLocked(t, -1)
			delete(s.tasks, id)
			delete(s.flows, t.Flow)
		}
	}
	return nil
}
