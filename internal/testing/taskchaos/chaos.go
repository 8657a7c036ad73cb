package taskchaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/proctest"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Plan says what happens.
type Plan struct {
	Tasks     int           // how many there are
	Questions int           // of each, once it is a task
	Store     string        // the address of the store for the replicas
	Every     time.Duration // the time between two deaths of replicas
	Length    time.Duration // how long replicas die
	Trouble   []func()      // failures of the store, spread over Length
}

const (
	replicas = 3
	// patience is how long tasks may take once nothing dies any more.
	patience = 2 * time.Minute
)

// A fleet is replicas that are killed and started again.
type fleet struct {
	t         *testing.T
	plan      Plan
	dir       string
	http      [replicas]*http.Client
	processes [replicas]*proctest.Process
	failed    atomic.Int64 // requests that were sent again
}

// Run runs the tasks among the failures, and fails the test where one does not complete, where an
// answer is lost, and where anything happens twice.
func Run(t *testing.T, plan Plan) {
	t.Helper()
	dir, err := os.MkdirTemp("", "tasks") // the name of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := &fleet{t: t, plan: plan, dir: dir}
	for i := range replicas {
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (
			net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", f.socket(i))
		}}
		t.Cleanup(transport.CloseIdleConnections)
		f.http[i] = &http.Client{Transport: transport, Timeout: 15 * time.Second}
		f.startReplica(i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), plan.Length+patience)
	defer cancel()
	began := time.Now()
	clients := make([]taskClient, plan.Tasks)
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
	kills := f.killReplicas()
	wg.Wait()
	t.Logf("%d tasks, %d kills of replicas in %v, %d of the store, %d requests sent again, %s; "+
		"over after %v", plan.Tasks, kills, plan.Length, len(plan.Trouble), f.failed.Load(),
		f.checkNotes(), time.Since(began).Round(time.Second))
}

func (f *fleet) socket(i int) string { return filepath.Join(f.dir, fmt.Sprint("s", i)) }

// startReplica starts the process of a replica. It is called on the goroutine of the test.
func (f *fleet) startReplica(i int) {
	f.t.Helper()
	f.processes[i] = proctest.Start(f.t, proctest.Self(f.t, storeVar+"="+f.plan.Store,
		dirVar+"="+f.dir, socketVar+"="+f.socket(i)))
}

// killReplicas kills one replica after the other, and makes the failures of the store.
func (f *fleet) killReplicas() (kills int) {
	trouble := f.plan.Trouble
	each := f.plan.Length / time.Duration(len(trouble)+1)
	next := time.Now().Add(each)
	tick := time.NewTicker(f.plan.Every)
	defer tick.Stop()
	for end := time.Now().Add(f.plan.Length); time.Now().Before(end); <-tick.C {
		if len(trouble) > 0 && time.Now().After(next) {
			trouble[0]()
			trouble, next = trouble[1:], next.Add(each)
		}
		i := rand.IntN(replicas)
		f.processes[i].Kill()
		f.startReplica(i)
		kills++
	}
	return kills
}

// A taskClient is who has one task.
type taskClient struct {
	fleet    *fleet
	n        int
	began    time.Time
	id       string
	accepted map[string]bool // wire keys whose answers were acknowledged
}

// think waits for some time in the share of Length that belongs to a step, so that all tasks are
// under way as long as replicas die.
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

// begin sends the last request before the task more than once: the handle is always the same.
func (c *taskClient) begin(ctx context.Context) error {
	params := fmt.Sprintf(`"name":"work","arguments":{"n":%d,"questions":%d}`, c.n,
		c.fleet.plan.Questions)
	raw, err := c.ask(ctx, protocol.MethodCallTool, "work", params)
	if err != nil {
		return err
	}
	var asks struct{ RequestState string }
	if err := json.Unmarshal(raw, &asks); err != nil {
		return err
	}
	params += fmt.Sprintf(`,"requestState":%q,"inputResponses":{"first":%s}`, asks.RequestState,
		c.reply("first"))
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

// text is the answer to a question.
func (c *taskClient) text(key string) string { return fmt.Sprintf("%d-%s", c.n, key) }

func (c *taskClient) reply(key string) string {
	return fmt.Sprintf(`{"action":"accept","content":{"text":%q}}`, c.text(key))
}

// answer answers the one question that is outstanding, which must not have been answered before,
// under this key or under another.
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

// checkResult looks for all answers in the result.
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

// ask sends a request to any replica, again and again until it is served.
func (c *taskClient) ask(ctx context.Context, method, name, params string) (
	json.RawMessage, error) {
	for {
		result, err := c.send(ctx, method, name, params)
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

func (c *taskClient) send(ctx context.Context, method, name, params string) (
	json.RawMessage, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},`+
		`"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, method, params)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/",
		strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for key, value := range map[string]string{"Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", "Mcp-Method": method, "Mcp-Name": name,
		"MCP-Protocol-Version": "2026-07-28"} {
		req.Header.Set(key, value)
	}
	resp, err := c.fleet.http[rand.IntN(replicas)].Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var r struct {
		Result json.RawMessage
		Error  *protocol.Error
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %q", resp.Status, text)
	}
	if r.Error != nil {
		return nil, r.Error
	}
	return r.Result, nil
}

// checkNotes holds what the handlers left against what may happen once.
func (f *fleet) checkNotes() string {
	text, err := os.ReadFile(filepath.Join(f.dir, notesFile))
	if err != nil {
		f.t.Fatal(err)
	}
	memos, commits, given := map[string]string{}, map[string]int{}, 0
	for line := range strings.Lines(string(text)) {
		var what, which, value string
		if _, err := fmt.Sscan(line, &what, &which, &value); err != nil {
			f.t.Fatalf("%v: %q", err, line)
		}
		if what == "commit" {
			if commits[which]++; commits[which] == 2 {
				f.t.Errorf("task %s is committed twice", which)
			}
			continue
		}
		given++
		if old, ok := memos[which]; ok && old != value {
			f.t.Errorf("memo %s is %s after %s", which, value, old)
		}
		memos[which] = value
	}
	for n := range f.plan.Tasks {
		effects, err := filepath.Glob(filepath.Join(f.dir, fmt.Sprintf("effect.%d.*", n)))
		if err != nil || len(effects) != 1 {
			f.t.Errorf("task %d has had its effect %d times: %v", n, len(effects), err)
		}
	}
	if want := f.plan.Tasks * f.plan.Questions; len(memos) != want {
		f.t.Errorf("%d memos, want %d", len(memos), want)
	}
	// Without failures the first memo is given in each run, the second in all but the first, …
	replays := given - f.plan.Tasks*f.plan.Questions*(f.plan.Questions+3)/2
	return fmt.Sprintf("%d memos given %d times (%d more than without), %d commits", len(memos),
		given, replays, len(commits))
}
