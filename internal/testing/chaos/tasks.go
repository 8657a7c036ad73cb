package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

const patience = 2 * time.Minute // for tasks to complete after the last death

type taskFleet struct {
	*fleet
	failed atomic.Int64 // number of retried requests
}

// RunTasks fails the test if a task does not complete, loses an answer, or repeats an effect.
func RunTasks(t *testing.T, plan Plan) {
	t.Helper()
	f := &taskFleet{fleet: startFleet(t, work, plan, replicas)}
	ctx, cancel := context.WithTimeout(t.Context(), plan.Length+patience)
	defer cancel()
	began := time.Now()
	clients := make([]taskClient, plan.Flows)
	var wg sync.WaitGroup
	for i := range clients {
		c := &clients[i]
		*c = taskClient{fleet: f, n: i, began: began, accepted: map[string]bool{}}
		wg.Go(func() {
			if err := c.run(ctx); err != nil {
				t.Errorf("task %d: %v", c.n, err)
			}
		})
	}
	stop := make(chan struct{})
	time.AfterFunc(plan.Length, func() { close(stop) })
	left, each := plan.Trouble, plan.Length/time.Duration(len(plan.Trouble)+1)
	next := began.Add(each)
	failures := f.makeTrouble(stop, func(int) func() {
		if len(left) == 0 || time.Now().Before(next) {
			return nil
		}
		trouble := left[0]
		left, next = left[1:], next.Add(each)
		return trouble
	})
	wg.Wait()
	t.Logf("%d tasks, %d failures in %v, %d of them of the store, %d requests sent again, %s; "+
		"over after %v", plan.Flows, failures, plan.Length, len(plan.Trouble)-len(left),
		f.failed.Load(), f.checkNotes(), time.Since(began).Round(time.Second))
	if len(left) > 0 {
		t.Errorf("%d failures of the store were not made", len(left))
	}
}

// RunDeaths runs a task that ends each of its processes. After five runs it must be stopped, and
// have failed at all replicas. If talks is set, the task sends messages in each run.
func RunDeaths(t *testing.T, store string, talks bool) {
	t.Helper()
	f := startFleet(t, work, Plan{Store: store}, replicas)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	raw, err := f.send(ctx, protocol.MethodCallTool, "die",
		fmt.Sprintf(`"name":"die","arguments":{"talks":%t}`, talks))
	var handle struct{ TaskID string }
	testkit.NoError(t, errors.Join(err, json.Unmarshal(raw, &handle)))
	for failed := 0; failed < 3*replicas; time.Sleep(100 * time.Millisecond) {
		f.replaceDead()
		raw, err := f.send(ctx, protocol.MethodGetTask, handle.TaskID,
			fmt.Sprintf(`"taskId":%q`, handle.TaskID))
		if ctx.Err() != nil {
			t.Fatal("the task is not stopped")
		}
		if err != nil {
			continue // the replica is dead
		}
		task, err := protocol.DecodeTask(raw)
		testkit.NoError(t, err)
		state, over := task.State.(protocol.TaskFailed)
		switch {
		case over && strings.Contains(state.Error.Message, "ended 5 times"):
			failed++
		case over || failed > 0:
			t.Fatalf("after %d polls that saw it fail: %+v", failed, task.State)
		}
	}
	deaths := 0
	f.eachNote(func(string, string, string) { deaths++ })
	if deaths != 5 {
		t.Errorf("it has ended %d processes, want 5", deaths)
	}
}

type taskClient struct {
	fleet    *taskFleet
	n        int
	began    time.Time
	id       string
	accepted map[string]bool // wire keys of acknowledged answers
}

// think waits in a step's share of Length, so that all tasks are in flight while replicas die.
func (c *taskClient) think(step int) {
	share := c.fleet.plan.Length / time.Duration(c.fleet.plan.Questions+1)
	time.Sleep(time.Until(c.began.Add(time.Duration(step)*share + rand.N(share))))
}

func (c *taskClient) run(ctx context.Context) error {
	c.think(0)
	if err := c.begin(ctx); err != nil {
		return err
	}
	for {
		time.Sleep(time.Second/2 + rand.N(time.Second))
		raw, err := c.ask(ctx, protocol.MethodGetTask, c.id, fmt.Sprintf(`"taskId":%q`, c.id))
		if err != nil {
			return err
		}
		task, err := protocol.DecodeTask(raw)
		if err != nil {
			return err
		}
		switch state := task.State.(type) {
		case protocol.TaskInputRequired:
			if err := c.answer(ctx, state.Requests); err != nil {
				return err
			}
		case protocol.TaskCompleted:
			return c.checkResult(state.Result)
		case protocol.TaskFailed:
			return fmt.Errorf("failed: %w", state.Error)
		case protocol.TaskCancelled:
			return errors.New("cancelled")
		}
	}
}

// begin repeatedly sends the last request before the task: the handle must always be the same.
func (c *taskClient) begin(ctx context.Context) error {
	params := fmt.Sprintf(`"name":"work","arguments":{"n":%d,"questions":%d}`, c.n,
		c.fleet.plan.Questions)
	raw, err := c.ask(ctx, protocol.MethodCallTool, "work", params)
	if err != nil {
		return err
	}
	if params, err = withAnswer(params, raw, "first", c.reply("first")); err != nil {
		return err
	}
	for range 2 {
		raw, err := c.ask(ctx, protocol.MethodCallTool, "work", params)
		if err != nil {
			return err
		}
		var handle struct{ TaskID string }
		if err := json.Unmarshal(raw, &handle); err != nil || handle.TaskID == "" {
			return fmt.Errorf("no handle: %s", raw)
		}
		if c.id != "" && handle.TaskID != c.id {
			return errors.New("a second handle for one call")
		}
		c.id = handle.TaskID
	}
	return nil
}

func (c *taskClient) text(key string) string { return fmt.Sprintf("%d-%s", c.n, key) }

func (c *taskClient) reply(key string) string {
	return fmt.Sprintf(`{"action":"accept","content":{"text":%q}}`, c.text(key))
}

// answer answers the only open question, which must not have been answered before.
func (c *taskClient) answer(ctx context.Context, requests protocol.InputRequests) error {
	if len(requests) != 1 {
		return fmt.Errorf("%d questions", len(requests))
	}
	key := requests[0].Key
	if want := fmt.Sprint("q", len(c.accepted)); key != want {
		return fmt.Errorf("asked %q, want %q", key, want)
	}
	c.think(len(c.accepted) + 1)
	_, err := c.ask(ctx, protocol.MethodUpdateTask, c.id, fmt.Sprintf(
		`"taskId":%q,"inputResponses":{%q:%s}`, c.id, key, c.reply(key)))
	c.accepted[key] = true
	return err
}

func (c *taskClient) checkResult(result *protocol.CallToolResult) error {
	want := c.text("first")
	for i := range c.fleet.plan.Questions {
		want += " " + c.text(fmt.Sprint("q", i))
	}
	if result.IsError || len(result.Content) != 1 {
		return fmt.Errorf("the result is %+v", result.Content)
	}
	if got, ok := result.Content[0].(*protocol.TextContent); !ok || got.Text != want {
		return fmt.Errorf("the result is %+v, want %q", result.Content[0], want)
	}
	return nil
}

func (c *taskClient) ask(ctx context.Context, method, name, params string) (
	json.RawMessage, error) {
	for {
		result, err := c.fleet.send(ctx, method, name, params)
		if refused, ok := protocol.AsError(err); err == nil ||
			ok && refused.Code == protocol.CodeInvalidParams {
			return result, err
		}
		c.fleet.failed.Add(1)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: not in time, after %w", method, err)
		case <-time.After(100*time.Millisecond + rand.N(200*time.Millisecond)):
		}
	}
}

func (f *taskFleet) checkNotes() string {
	memos, commits, given := map[string]string{}, map[string]int{}, 0
	effects := map[string][]string{} // keys: an effect happens once per key
	f.eachNote(func(what, which, value string) {
		switch old, ok := memos[which]; {
		case what == "effect":
			if !slices.Contains(effects[which], value) {
				effects[which] = append(effects[which], value)
			}
		case what == "commit":
			if commits[which]++; commits[which] == 2 {
				f.t.Errorf("task %s is committed twice", which)
			}
		default:
			if given++; ok && old != value {
				f.t.Errorf("memo %s is %s after %s", which, value, old)
			}
			memos[which] = value
		}
	})
	for n := range f.plan.Flows {
		if keys := effects[fmt.Sprint(n)]; len(keys) != 1 {
			f.t.Errorf("task %d has had its effect %d times: %v", n, len(keys), keys)
		}
	}
	if want := f.plan.Flows * f.plan.Questions; len(memos) != want {
		f.t.Errorf("%d memos, want %d", len(memos), want)
	}
	// Without failures the first memo is returned in each run, the second in all but the first, …
	replays := given - f.plan.Flows*f.plan.Questions*(f.plan.Questions+3)/2
	return fmt.Sprintf("%d memos given %d times (%d more than without), %d commits", len(memos),
		given, replays, len(commits))
}
