package tasks_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// A copyingStore keeps the task that was written last, as a backup does.
type copyingStore struct {
	store.TaskStore
	mu   sync.Mutex
	last store.Task
}

func (s *copyingStore) CreateTask(ctx context.Context, task *store.Task, times store.TaskTimes,
	room store.TaskRoom) error {
	return s.keep(task, s.TaskStore.CreateTask(ctx, task, times, room))
}

func (s *copyingStore) PutTask(ctx context.Context, task *store.Task,
	times store.TaskTimes) error {
	return s.keep(task, s.TaskStore.PutTask(ctx, task, times))
}

func (s *copyingStore) keep(task *store.Task, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.last = *task
	}
	return err
}

// restore returns a new store with a task that waits for an answer.
func restore(t *testing.T, task store.Task) *copyingStore {
	t.Helper()
	s := &copyingStore{TaskStore: store.NewMemoryTaskStore()}
	task.Holder = ""
	number, times := task.Number, store.TaskTimes{Due: -1, Keep: time.Hour}
	err := s.CreateTask(context.Background(), &task, times, store.TaskRoom{})
	for err == nil && task.Number < number { // the record also has its number
		err = s.PutTask(context.Background(), &task, times)
	}
	noError(t, err)
	return s
}

// The type effects has the effects of the tool "work", by idempotency key, and its memos.
type effects struct {
	byKey map[string]int
	memos map[string]bool
}

// newEffectWorld has a tool that asks "a" and "b" and has an effect after each.
func newEffectWorld(t *testing.T, s store.TaskStore, ring *keys.Keyring, made *effects) *world {
	t.Helper()
	w := newWorld(t, &tasks.Options{Store: s, Keys: ring})
	w.addTask(func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
		memo, err := roundtrip.Memo(ctx, "began", func(context.Context) (string, error) {
			return time.Now().String(), nil
		})
		if err != nil {
			return nil, err
		}
		made.memos[memo] = true
		for _, key := range []string{"a", "b"} {
			answer, err := roundtrip.Ask[name](ctx, key, "Who?")
			if err != nil {
				return nil, err
			}
			unique, err := roundtrip.IdempotencyKey(ctx, key)
			if err != nil {
				return nil, err
			}
			made.byKey[unique+answer.Name] = 1 // like an insert that does nothing on a conflict
		}
		return server.Text("done"), nil
	})
	return w
}

func newEffects() *effects {
	return &effects{byKey: map[string]int{}, memos: map[string]bool{}}
}

// answerKey answers the only open question of the task.
func (w *world) answerKey(id, key string) {
	w.t.Helper()
	task := w.get(id)
	asks, ok := task.State.(protocol.TaskInputRequired)
	if !ok || len(asks.Requests) != 1 || asks.Requests[0].Key != key {
		w.t.Fatalf("%+v, want the question %s", task.State, key)
	}
	w.update(id, fmt.Sprintf(`{%q:{"action":"accept","content":{"name":"N"}}}`, key))
	synctest.Wait()
}

// The task resumes from the older copy, asks again under the same key, and effects with an
// idempotency key happen once.
func TestStoreRestoredFromAnHourAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring, made := testRing(t), newEffects()
		s := &copyingStore{TaskStore: store.NewMemoryTaskStore()}
		w := newEffectWorld(t, s, ring, made)
		id := w.call("work", "")
		synctest.Wait()
		w.answerKey(id, "a")
		backup := s.last
		w.answerKey(id, "b")
		w.want(id, "completed")
		time.Sleep(time.Hour)
		w = newEffectWorld(t, restore(t, backup), ring, made)
		w.answerKey(id, "b")
		w.want(id, "completed")
		if len(made.byKey) != 2 || len(made.memos) != 1 {
			t.Errorf("effects %v, memos %v", made.byKey, made.memos)
		}
	})
}

// A task continues on a replica whose clock is two minutes behind, and then on the first replica
// again. Its times never go back.
func TestReplicasWhoseClocksDiffer(t *testing.T) {
	ring, made, id := testRing(t), newEffects(), ""
	var kept store.Task
	var seen []time.Time
	for _, leg := range []struct {
		ahead  time.Duration // of a clock that stands still between the legs
		answer string
	}{{2 * time.Minute, ""}, {0, "a"}, {2*time.Minute + time.Second, "b"}} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(leg.ahead)
			s := &copyingStore{TaskStore: store.NewMemoryTaskStore()}
			if id != "" {
				s = restore(t, kept)
			}
			w := newEffectWorld(t, s, ring, made)
			if id == "" {
				id = w.call("work", "")
				synctest.Wait()
			} else {
				w.answerKey(id, leg.answer)
			}
			task := w.get(id)
			seen = append(seen, task.Updated)
			if leg.answer == "b" && task.State.Status() != "completed" {
				t.Errorf("%+v", task.State)
			}
			kept = s.last
		})
	}
	if len(seen) != 3 || !seen[1].After(seen[0]) || !seen[2].After(seen[1]) {
		t.Errorf("updated at %v", seen)
	}
	if len(made.byKey) != 2 || len(made.memos) != 1 {
		t.Errorf("effects %v, memos %v", made.byKey, made.memos)
	}
}
