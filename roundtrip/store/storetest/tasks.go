package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// TestTaskStore checks a [store.TaskStore].
func TestTaskStore(t *testing.T, o *Options) {
	o.run(t, "tasks", testTasks)
	o.run(t, "changes at once", testTaskChanges)
	o.run(t, "one task a flow", testTaskFlows)
	o.run(t, "leases of tasks", testTaskLeases)
	o.run(t, "due tasks", testDueTasks)
	o.run(t, "wakes", testTaskWakes)
	o.run(t, "tasks that are dropped", testTaskDrop)
	o.run(t, "room of tasks", testTaskRoom)
	o.run(t, "room of tasks that are over", testOverRoom)
	o.run(t, "contexts of tasks that have ended", testTaskContexts)
}

const short = time.Second // waited for in tests; enough for some calls of a slow store

var (
	never = store.TaskTimes{Due: -1, Keep: time.Hour}
	now   = store.TaskTimes{Keep: time.Hour}
	later = store.TaskTimes{Due: time.Hour, Keep: time.Hour}
)

func digestOf(name string) (d [32]byte) {
	copy(d[:], "\x00\xff'"+name)
	return d
}

func taskOf(name string) *store.Task {
	return &store.Task{ID: digestOf(name), Flow: digestOf("flow of " + name),
		Owner: digestOf(alice), Record: []byte("record of " + name)}
}

func create(t *testing.T, s store.TaskStore, task *store.Task, times store.TaskTimes) {
	t.Helper()
	if err := s.CreateTask(t.Context(), task, times, store.TaskRoom{}); err != nil {
		t.Fatalf("create: %v", err)
	}
}

func get(t *testing.T, s store.TaskStore, id [32]byte) *store.Task {
	t.Helper()
	task, err := s.GetTask(t.Context(), id)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	return task
}

func put(t *testing.T, s store.TaskStore, task *store.Task, times store.TaskTimes) {
	t.Helper()
	if err := s.PutTask(t.Context(), task, times); err != nil {
		t.Fatalf("put: %v", err)
	}
}

func expect(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// testTasks compares returned tasks, even after the caller changed its values.
func testTasks(t *testing.T, s *Store) {
	a, b, ctx := s.Tasks(t), s.Tasks(t), t.Context()
	task := taskOf("task")
	_, err := b.GetTask(ctx, task.ID)
	expect(t, "get of nothing", err, store.ErrNoTask)
	_, err = b.GetFlow(ctx, task.Flow)
	expect(t, "get of no flow", err, store.ErrNoTask)
	expect(t, "put of nothing", b.PutTask(ctx, task, never), store.ErrNoTask)
	task.Wakes = [][32]byte{digestOf("w 1"), digestOf("w 2")}
	task.Record = bytes.Repeat([]byte("\x00\xff'"), 400_000)
	same := func(want store.Task) {
		t.Helper()
		byFlow, err := b.GetFlow(ctx, want.Flow)
		if got := get(t, b, want.ID); err != nil || !reflect.DeepEqual(*got, want) ||
			!reflect.DeepEqual(*byFlow, want) {
			t.Errorf("got number %d, holder %q, owner %q, %d bytes, %v, want number %d",
				got.Number, got.Holder, got.Owner, len(got.Record), err, want.Number)
		}
	}
	want := *task
	want.Number, want.Wakes = 1, slices.Clone(task.Wakes)
	want.Record = bytes.Clone(task.Record)
	create(t, a, task, never)
	clear(task.Record)
	clear(task.Wakes)
	same(want)
	got := get(t, b, want.ID)
	clear(got.Record)
	clear(got.Wakes)
	same(want)

	for _, next := range []store.Task{
		{Holder: "h", Record: []byte("second"), Wakes: [][32]byte{digestOf("w 2")}},
		{Record: []byte("third")},
		{Record: []byte("last"), Over: true},
		{Record: []byte("last, sealed anew"), Over: true},
	} {
		next.ID, next.Number = want.ID, want.Number
		put(t, b, &next, later)
		if next.Number != want.Number+1 {
			t.Errorf("number %d after a put of %d", next.Number, want.Number)
		}
		next.Flow, next.Owner = want.Flow, want.Owner
		want = next
		same(want)
	}
	undone := want
	undone.Over = false
	expect(t, "a task that is over goes on", a.PutTask(ctx, &undone, now), store.ErrTaskChanged)
	same(want)
	anonymous := &store.Task{ID: digestOf("anonymous"), Flow: digestOf("another"), Number: 1}
	create(t, a, &store.Task{ID: anonymous.ID, Flow: anonymous.Flow}, never)
	if got := get(t, b, anonymous.ID); got.Owner != anonymous.Owner || len(got.Record) > 0 {
		t.Errorf("an empty task: %+v", got)
	}
}

// tasksAtOnce calls do 12 times at once and counts successes. Others must fail with want, if set.
func (s *Store) tasksAtOnce(t *testing.T, want error,
	do func(n int, s store.TaskStore) error) int {
	t.Helper()
	return atOnce(t, 12, s.Tasks, do, func(n int, err error) {
		if want != nil && !errors.Is(err, want) {
			t.Errorf("call %d: got %v, want %v", n, err, want)
		}
	})
}

func testTaskChanges(t *testing.T, s *Store) {
	a := s.Tasks(t)
	task := taskOf("task")
	create(t, a, task, now)
	for range 5 {
		number := get(t, a, task.ID).Number
		won := s.tasksAtOnce(t, store.ErrTaskChanged, func(n int, s store.TaskStore) error {
			mine := *task
			mine.Number, mine.Holder = number, fmt.Sprint("holder ", n)
			mine.Record = []byte("record of " + mine.Holder)
			mine.Wakes = [][32]byte{digestOf(mine.Holder)}
			return s.PutTask(t.Context(), &mine, later)
		})
		got := get(t, a, task.ID)
		if won != 1 || got.Number != number+1 || string(got.Record) != "record of "+got.Holder ||
			len(got.Wakes) != 1 || got.Wakes[0] != digestOf(got.Holder) {
			t.Errorf("%d changes succeeded, want 1; there is %d of %q: %q", won, got.Number,
				got.Holder, got.Record)
		}
	}
}

func testTaskFlows(t *testing.T, s *Store) {
	flow := digestOf("flow")
	for range 3 {
		flow[31]++
		won := s.tasksAtOnce(t, store.ErrTaskExists, func(n int, s store.TaskStore) error {
			mine := taskOf(fmt.Sprint("task ", flow[31], n))
			mine.Flow = flow
			return s.CreateTask(t.Context(), mine, never, store.TaskRoom{Owner: 1000})
		})
		if won != 1 {
			t.Errorf("one flow began %d tasks", won)
		}
	}
	a := s.Tasks(t)
	first, err := a.GetFlow(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	twin := taskOf("a flow of its own")
	twin.ID = first.ID
	for _, task := range []*store.Task{{ID: digestOf("another"), Flow: flow}, twin} {
		expect(t, "a second task without room", a.CreateTask(t.Context(), task, now,
			store.TaskRoom{Owner: 1, All: 1}), store.ErrTaskExists)
	}
	if got := get(t, a, first.ID); !reflect.DeepEqual(got, first) {
		t.Errorf("the first task has changed: %+v", got)
	}
}

func testTaskLeases(t *testing.T, s *Store) {
	a, b, ctx := s.Tasks(t), s.Tasks(t), t.Context()
	task, id := taskOf("task"), digestOf("task")
	task.Holder = "a"
	create(t, a, task, store.TaskTimes{Due: short, Keep: time.Hour})
	if get(t, b, id).Due {
		t.Error("due before the end of the lease")
	}
	expect(t, "renewal by another", b.RenewTask(ctx, id, "b", time.Hour), store.ErrTaskChanged)
	expect(t, "renewal by nobody", b.RenewTask(ctx, id, "", time.Hour), store.ErrTaskChanged)
	expect(t, "renewal of nothing", b.RenewTask(ctx, digestOf("no"), "a", time.Hour),
		store.ErrTaskChanged)
	for range 3 {
		time.Sleep(2 * short / 3)
		expect(t, "renewal", a.RenewTask(ctx, id, "a", short), nil)
		if get(t, b, id).Due {
			t.Error("due with a lease that is renewed")
		}
	}
	time.Sleep(2 * short)
	taken := get(t, b, id)
	if due, err := b.DueTasks(ctx, 10); !taken.Due || taken.Number != 1 || len(due) != 1 {
		t.Errorf("after the end of the lease: %+v, due are %v, %v", taken, due, err)
	}
	taken.Holder = "b"
	put(t, b, taken, later)
	expect(t, "renewal after a take-over", a.RenewTask(ctx, id, "a", short), store.ErrTaskChanged)
	if get(t, a, id).Due {
		t.Error("due with a new holder")
	}
	taken.Holder = ""
	put(t, b, taken, now)
	if !get(t, a, id).Due {
		t.Error("not due after it was given back")
	}
	expect(t, "renewal by nobody", b.RenewTask(ctx, id, "", time.Hour), store.ErrTaskChanged)
	taken.Holder, taken.Over = "b", true
	put(t, b, taken, now)
	expect(t, "renewal when it is over", b.RenewTask(ctx, id, "b", short), store.ErrTaskChanged)
	if due, err := a.DueTasks(ctx, 10); get(t, a, id).Due || len(due) > 0 || err != nil {
		t.Errorf("due when it is over: %v, %v", due, err)
	}
}

func testDueTasks(t *testing.T, s *Store) {
	a, b := s.Tasks(t), s.Tasks(t)
	create(t, a, taskOf("never"), never)
	create(t, a, taskOf("later"), later)
	var want [][32]byte
	for i := range 5 { // the names have another order
		task := taskOf(fmt.Sprint("task ", 9-i))
		create(t, a, task, now)
		want = append(want, task.ID)
		time.Sleep(5 * time.Millisecond)
	}
	for _, limit := range []int{100, 5, 2} {
		got, err := b.DueTasks(t.Context(), limit)
		if n := min(limit, 5); err != nil || !slices.Equal(got, want[:n]) {
			t.Errorf("limit %d: got %q, %v, want %q", limit, got, err, want[:n])
		}
	}
	put(t, b, get(t, b, want[0]), never)
	got, err := a.DueTasks(t.Context(), 100)
	if err != nil || !slices.Equal(got, want[1:]) {
		t.Errorf("when the first is due no longer: got %q, %v", got, err)
	}
}

func testTaskWakes(t *testing.T, s *Store) {
	a, b, ctx := s.Tasks(t), s.Tasks(t), t.Context()
	w, other := digestOf("order 7"), digestOf("order 8")
	for name, task := range map[string]store.Task{
		"waits":     {Wakes: [][32]byte{other, w}},
		"waits too": {Wakes: [][32]byte{w, w}},
		"else":      {Wakes: [][32]byte{other}},
		"nothing":   {},
		"runs":      {Wakes: [][32]byte{w}, Holder: "h"},
		"over":      {Wakes: [][32]byte{w}, Over: true},
	} {
		task.ID, task.Flow = digestOf(name), digestOf("flow of "+name)
		create(t, a, &task, later)
	}
	waked := func(limit int) [][32]byte {
		t.Helper()
		ids, err := b.WakeTasks(ctx, w, limit)
		expect(t, "wake", err, nil)
		slices.SortFunc(ids, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
		return ids
	}
	want := [][32]byte{digestOf("waits"), digestOf("waits too")}
	if got := waked(1); len(got) != 1 {
		t.Errorf("limit 1: %q are waked", got)
	}
	if due, err := a.DueTasks(ctx, 10); err != nil || len(due) != 2 {
		t.Errorf("beyond the limit: due are %q, %v, want both", due, err)
	}
	if got := waked(10); !slices.Equal(got, want) {
		t.Errorf("%q are waked, want %q", got, want)
	}
	if got := get(t, b, want[0]); !got.Due || got.Number != 1 {
		t.Errorf("a waked task: %+v", got)
	}
	task := get(t, b, want[0])
	task.Wakes = [][32]byte{other}
	put(t, b, task, later)
	if got := waked(10); !slices.Equal(got, want[1:]) {
		t.Errorf("%q are waked, want %q: the other waits for something else", got, want[1:])
	}
	ended := get(t, b, want[1])
	ended.Over, ended.Wakes = true, nil
	put(t, b, ended, never)
	if got := waked(10); len(got) > 0 {
		t.Errorf("%q are waked, want none", got)
	}
}

// testTaskDrop: expired tasks are invisible, and take room until dropped.
func testTaskDrop(t *testing.T, s *Store) {
	a, b, ctx := s.Tasks(t), s.Tasks(t), t.Context()
	room := store.TaskRoom{Owner: 3}
	for _, name := range []string{"open", "waits", "over"} {
		task := taskOf(name)
		task.Over = name == "over"
		task.Wakes = [][32]byte{digestOf("w")}
		expect(t, name, a.CreateTask(ctx, task, store.TaskTimes{Due: -1, Keep: short}, room), nil)
	}
	kept := taskOf("kept")
	expect(t, "kept", a.CreateTask(ctx, kept, store.TaskTimes{Due: -1, Keep: short}, room), nil)
	put(t, b, kept, never)
	expect(t, "drop", b.DropTasks(ctx), nil)
	get(t, a, digestOf("open"))
	time.Sleep(2 * short)
	gone := taskOf("open")
	gone.Number = 1
	_, err := b.GetTask(ctx, gone.ID)
	expect(t, "get past the time", err, store.ErrNoTask)
	_, err = b.GetFlow(ctx, gone.Flow)
	expect(t, "get past the time", err, store.ErrNoTask)
	expect(t, "put past the time", b.PutTask(ctx, gone, never), store.ErrNoTask)
	err = a.CreateTask(ctx, taskOf("further"), never, room)
	if _, full := errors.AsType[*store.QuotaError](err); !full {
		t.Errorf("before they are dropped: got %v, want no room", err)
	}
	expect(t, "drop", a.DropTasks(ctx), nil)
	get(t, a, kept.ID)
	for _, name := range []string{"open", "waits"} {
		expect(t, name+" again", a.CreateTask(ctx, taskOf(name), never, room), nil)
	}
	if ids, err := a.WakeTasks(ctx, digestOf("w"), 10); err != nil || len(ids) > 0 {
		t.Errorf("%q are waked for what was dropped, %v", ids, err)
	}
	err = a.CreateTask(ctx, taskOf("further"), never, room)
	if _, full := errors.AsType[*store.QuotaError](err); !full {
		t.Errorf("three of three: got %v, want no room", err)
	}
}

// testTaskRoom: unfinished tasks are counted, by owner and in all, concurrently too.
func testTaskRoom(t *testing.T, s *Store) {
	a, ctx, room := s.Tasks(t), t.Context(), store.TaskRoom{Owner: 5, All: 8}
	fits := func(name string, owner [32]byte, limit string) {
		t.Helper()
		task := taskOf(name)
		task.Owner = owner
		err := a.CreateTask(ctx, task, now, room)
		full, _ := errors.AsType[*store.QuotaError](err)
		switch {
		case limit == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case limit != "" && (full == nil || full.Limit != limit || full.Resource != "tasks"):
			t.Errorf("%s: got %v, want that the bound %q is reached", name, err, limit)
		}
	}
	won := s.tasksAtOnce(t, nil, func(n int, s store.TaskStore) error {
		return s.CreateTask(ctx, taskOf(fmt.Sprint("at once ", n)), now, room)
	})
	if won != 5 {
		t.Errorf("%d tasks of one owner fit, want 5", won)
	}
	fits("of alice", digestOf(alice), "principal")
	for n := range 3 {
		fits(fmt.Sprint("anonymous ", n), [32]byte{}, "")
	}
	fits("of bob", digestOf(bob), "server")
	if due, err := a.DueTasks(ctx, 100); err != nil || len(due) != 8 {
		t.Errorf("%d tasks are there, %v, want 8: what has no room is not stored", len(due), err)
	}
	ended := taskOf("anonymous 0")
	ended.Number, ended.Over = 1, true
	put(t, a, ended, never)
	ended.Record = []byte("sealed anew")
	put(t, a, ended, never)
	fits("of bob", digestOf(bob), "")
	fits("of bob 2", digestOf(bob), "server")
}

// testOverRoom: finished tasks take memory until dropped; without room new ones are refused.
func testOverRoom(t *testing.T, s *Store) {
	if s.TaskBytes == 0 {
		t.Skip("no bounds")
	}
	a, ctx := s.Tasks(t), t.Context()
	for n := range 4 {
		task := taskOf(fmt.Sprint("task ", n))
		create(t, a, task, now)
		task.Record, task.Over = make([]byte, s.TaskBytes/16+1), true
		put(t, a, task, store.TaskTimes{Due: -1, Keep: short})
	}
	err := a.CreateTask(ctx, taskOf("further"), now, store.TaskRoom{})
	if full, ok := errors.AsType[*store.QuotaError](err); !ok || full.Limit != "principal" {
		t.Errorf("a quarter is taken: %v", err)
	}
	other := taskOf("of bob")
	other.Owner = digestOf(bob)
	create(t, a, other, now)
	time.Sleep(2 * short)
	expect(t, "drop", a.DropTasks(ctx), nil)
	create(t, a, taskOf("further"), now)
}

// testTaskContexts: a call with an ended context works or does nothing, and reports no lost task.
func testTaskContexts(t *testing.T, s *Store) {
	a := s.Tasks(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	created := taskOf("created")
	task := taskOf("task")
	task.Holder = "h"
	create(t, a, task, later)
	_, got := a.GetTask(gone, task.ID)
	_, flow := a.GetFlow(gone, task.Flow)
	before := *task
	_, due := a.DueTasks(gone, 1)
	_, waked := a.WakeTasks(gone, digestOf("w"), 1)
	errs := []error{a.CreateTask(gone, created, never, store.TaskRoom{Owner: 10}), got, flow,
		a.PutTask(gone, task, later), a.RenewTask(gone, task.ID, "h", time.Hour), due, waked,
		a.DropTasks(gone)}
	for i, err := range errs {
		_, full := errors.AsType[*store.QuotaError](err)
		if full || errors.Is(err, store.ErrNoTask) || errors.Is(err, store.ErrTaskChanged) ||
			errors.Is(err, store.ErrTaskExists) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	_, err := a.GetTask(t.Context(), created.ID)
	if errs[0] == nil && err != nil || errs[0] != nil && created.Number != 0 {
		t.Errorf("created: %v, then %v", errs[0], err)
	}
	after := get(t, a, task.ID)
	if errs[3] == nil && after.Number != before.Number+1 ||
		errs[3] != nil && task.Number != before.Number {
		t.Errorf("put: %v, then number %d", errs[3], after.Number)
	}
	put(t, a, after, later)
}
