package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
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

// A faultyStore fails on demand.
type faultyStore struct {
	store.TaskStore
	mu      sync.Mutex
	calls   map[string]int
	n       int
	failAt  int           // the call that fails, 0: none
	applied bool          // it fails after it was carried out
	outage  time.Duration // for this time all calls fail, too
	until   time.Time
	dead    bool   // the process is dead
	broken  string // calls of this name fail
}

var errBroken = errors.New("the store is broken")

func newFaultyStore(inner store.TaskStore) *faultyStore {
	return &faultyStore{TaskStore: inner, calls: map[string]int{}}
}

func (s *faultyStore) do(name string, call func() error) error {
	s.mu.Lock()
	s.n++
	s.calls[name]++
	fails := s.n == s.failAt
	if fails {
		s.until = time.Now().Add(s.outage)
	}
	fails = fails || s.dead || name == s.broken || time.Now().Before(s.until)
	applied := s.applied && !s.dead
	s.mu.Unlock()
	if fails && !applied {
		return errBroken
	}
	err := call()
	if fails {
		return errBroken
	}
	return err
}

func (s *faultyStore) kill(dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = dead
}

// breakCalls makes all calls of that name fail; if name is empty, none fail.
func (s *faultyStore) breakCalls(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = name
}

func (s *faultyStore) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "" {
		return s.n
	}
	return s.calls[name]
}

func (s *faultyStore) CreateTask(ctx context.Context, task *store.Task, times store.TaskTimes,
	room store.TaskRoom) error {
	return s.do("create", func() error {
		return s.TaskStore.CreateTask(ctx, task, times, room)
	})
}

func (s *faultyStore) GetTask(ctx context.Context, id [32]byte) (task *store.Task, err error) {
	err = s.do("get", func() error { task, err = s.TaskStore.GetTask(ctx, id); return err })
	return task, err
}

func (s *faultyStore) GetFlow(ctx context.Context, id [32]byte) (task *store.Task, err error) {
	err = s.do("flow", func() error { task, err = s.TaskStore.GetFlow(ctx, id); return err })
	return task, err
}

func (s *faultyStore) PutTask(ctx context.Context, task *store.Task, times store.TaskTimes) error {
	number := task.Number
	err := s.do("put", func() error {
		return s.TaskStore.PutTask(ctx, task, times)
	})
	if err != nil {
		task.Number = number
	}
	return err
}

func (s *faultyStore) RenewTask(ctx context.Context, id [32]byte, holder string,
	due time.Duration) error {
	return s.do("renew", func() error { return s.TaskStore.RenewTask(ctx, id, holder, due) })
}

func (s *faultyStore) DueTasks(ctx context.Context, limit int) (ids [][32]byte, err error) {
	err = s.do("due", func() error { ids, err = s.TaskStore.DueTasks(ctx, limit); return err })
	return ids, err
}

func testRing(t testing.TB) *keys.Keyring {
	t.Helper()
	return newRing(t, "a")
}

// newRing returns a ring with keys of these ids, the primary first. Equal ids are equal keys.
func newRing(t testing.TB, ids ...string) *keys.Keyring {
	t.Helper()
	var list []string
	for _, id := range ids {
		list = append(list, id+":"+strings.Repeat("MDEyMzQ1Njc4OTAx", 3)+"MDEyMzQ1Njc=")
	}
	ring, err := keys.KeyringFromEnv(func(string) (string, bool) {
		return strings.Join(list, ","), true
	}, "KEYS")
	noError(t, err)
	return ring
}

// replicas returns two servers with separate access to one store.
func replicas(t *testing.T, opts tasks.Options, tool server.Tool,
	handler func(context.Context, *server.ToolCall) (outcome, error)) (
	[2]*world, [2]*faultyStore) {
	t.Helper()
	memory := store.NewMemoryTaskStore()
	var w [2]*world
	var s [2]*faultyStore
	ring := testRing(t)
	for i := range w {
		s[i] = newFaultyStore(memory)
		o := opts
		o.Store, o.Keys = s[i], ring
		so := server.Options{}
		so.Roundtrip.Sealer = ring
		w[i] = newServerWorld(t, so, &o)
		server.AddRawTool(w[i].srv, tool, handler)
	}
	return w, s
}

// One replica's store fails once, at each call in turn: the task completes with its answers, and
// nothing happens twice.
func TestStoreFailsAtEachCall(t *testing.T) {
	modes := map[string]func(*faultyStore){
		"not done":       func(s *faultyStore) {},
		"done all same":  func(s *faultyStore) { s.applied = true },
		"40 s not done":  func(s *faultyStore) { s.outage = 40 * time.Second },
		"10 s done same": func(s *faultyStore) { s.applied, s.outage = true, 10*time.Second },
	}
	for name, set := range modes {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				reached := 0
				synctest.Test(t, func(t *testing.T) {
					reached = runWithFault(t, n, set)
				})
				if t.Failed() {
					t.Fatalf("at call %d", n)
				}
				if reached < n {
					if n < 10 {
						t.Errorf("only %d calls", n)
					}
					return
				}
			}
		})
	}
}

type memoLog struct {
	mu      sync.Mutex
	made    int
	given   map[int]bool
	commits int
}

func (m *memoLog) handle(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome,
	error) {
	first, err := roundtrip.Ask[name](ctx, "who", "Who?")
	if err != nil {
		return nil, err
	}
	if err := roundtrip.BeginTask(ctx); err != nil {
		return nil, err
	}
	memo, err := roundtrip.Memo(ctx, "m", func(context.Context) (int, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.made++
		return m.made, nil
	})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.given[memo] = true
	m.mu.Unlock()
	second, err := roundtrip.Ask[name](ctx, "a", "First?")
	if err != nil {
		return nil, err
	}
	roundtrip.OnCommit(ctx, func(context.Context) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.commits++
	})
	return server.Text(fmt.Sprint(first.Name, second.Name)), nil
}

func runWithFault(t *testing.T, n int, set func(*faultyStore)) int {
	log := &memoLog{given: map[int]bool{}}
	w, s := replicas(t, tasks.Options{}, taskTool, log.handle)
	synctest.Wait()
	s[0].mu.Lock()
	s[0].n, s[0].failAt = 0, n
	set(s[0])
	s[0].mu.Unlock()
	// The client retries until it has an answer.
	turn := 0
	ask := func(method, params string) json.RawMessage {
		for range 200 {
			turn++
			resp := w[turn%2].ask(method, params+","+declared)
			if resp.Error == nil {
				return resp.Result
			}
			if code := resp.Error.Code; code != protocol.CodeInternalError &&
				code != protocol.CodeBusy {
				t.Fatalf("%s: %v", method, resp.Error)
			}
			time.Sleep(time.Second)
		}
		t.Fatalf("%s: no answer", method)
		return nil
	}
	var asks struct{ RequestState string }
	json.Unmarshal(ask("tools/call", `"name":"work"`), &asks)
	var handle struct{ TaskID string }
	json.Unmarshal(ask("tools/call", fmt.Sprintf(`"name":"work","requestState":%q,`+
		`"inputResponses":{"who":{"action":"accept","content":{"name":"A"}}}`,
		asks.RequestState)), &handle)
	answered := map[string]bool{}
	last := ""
	for range 300 {
		raw := ask("tasks/get", fmt.Sprintf(`"taskId":%q`, handle.TaskID))
		task, err := protocol.DecodeTask(raw)
		noError(t, err)
		if last != "" && task.State.Status() != last {
			t.Fatalf("%s after %s", task.State.Status(), last)
		}
		switch state := task.State.(type) {
		case protocol.TaskInputRequired:
			key := state.Requests[0].Key
			if answered[key] {
				t.Fatalf("%s is asked again", key)
			}
			ask("tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept",`+
				`"content":{"name":"B"}}}`, handle.TaskID, key))
			answered[key] = true
		case protocol.TaskCompleted:
			last = "completed"
			if text := state.Result.Content[0].(*protocol.TextContent).Text; text != "AB" {
				t.Errorf("text %q", text)
			}
			time.Sleep(5 * time.Minute) // whatever still runs ends
		case protocol.TaskFailed, protocol.TaskCancelled:
			t.Fatalf("%+v", state)
		}
		if last != "" && s[0].count("due") > 3 {
			break
		}
		time.Sleep(time.Second)
	}
	if last == "" || len(answered) != 1 || log.commits > 1 || len(log.given) != 1 {
		t.Errorf("%q, answered %v, %d commits, memos %v", last, answered, log.commits, log.given)
	}
	s[0].mu.Lock()
	defer s[0].mu.Unlock()
	return s[0].n
}

// Each run's process dies: five deaths without progress end the task, whatever it reports, but
// queued runs do not count. Only a new memo is progress.
func TestDeaths(t *testing.T) {
	scripts := []string{"......", "tttttt", "qqqqqq"} // does nothing, reports, is queued
	random := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		script := ""
		for range 14 {
			script += string("m.t."[random.IntN(4)]) // m: a new memo
		}
		scripts = append(scripts, script)
	}
	for _, script := range scripts {
		synctest.Test(t, func(t *testing.T) { testDeaths(t, script) })
	}
}

func testDeaths(t *testing.T, script string) {
	memory, ring := store.NewMemoryTaskStore(), testRing(t)
	runs, id, told := 0, "", &changes{}
	var last *world
	for range script {
		s := newFaultyStore(memory)
		w := newServerWorld(t, server.Options{Observer: told},
			&tasks.Options{Store: s, Keys: ring, Runs: 1})
		block := func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		server.AddRawTool(w.srv, server.Tool{Name: "block", Task: server.TaskMust}, inTask(block))
		w.addTask(func(ctx context.Context, c *server.ToolCall) (outcome, error) {
			runs++
			for i, how := range script[:runs] {
				if how == 'm' {
					_, _ = roundtrip.Memo(ctx, fmt.Sprint(i), func(context.Context) (int, error) {
						return i, nil
					})
				}
			}
			if script[runs-1] == 't' {
				tasks.StatusMessage(ctx, "nearly there")
			}
			return block(ctx, c)
		})
		if script[0] == 'q' {
			w.call("block", "")
			synctest.Wait()
		}
		if last = w; id == "" {
			id = w.call("work", "")
		} else {
			w.get(id) // takes over
		}
		synctest.Wait()
		s.kill(true)
		time.Sleep(41 * time.Second) // past the lease, and the renewal that notices
		s.kill(false)
		w.tasks.Shutdown(canceled())
	}
	want, deaths := 0, 0
	for want < len(script) && deaths < 5 && script[0] != 'q' {
		if script[want] == 'm' {
			deaths = 0
		}
		deaths, want = deaths+1, want+1
	}
	failed, stopped := last.get(id).State.(protocol.TaskFailed)
	if stopped != (deaths == 5 && want < len(script)) || runs != want ||
		stopped && !strings.Contains(failed.Error.Message, "5 times") {
		t.Errorf("%s: %+v after %d runs, want %d", script, last.get(id).State, runs, want)
	}
	if stopped {
		told.want(t, map[string]int{"begun": 1, "runs": want, "stops": want,
			"taken_over": want - 1, "died": 1, "failed": 0})
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A run survives a short failure of the store. A lost run is stopped at once in the process that
// takes over, a run cancelled elsewhere within a second.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs, now atomic.Int64
		id := ""
		w, s := replicas(t, tasks.Options{}, taskTool,
			inTask(func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
				runs.Add(1)
				now.Add(1)
				defer now.Add(-1)
				time.Sleep(time.Second)
				if _, err := roundtrip.Memo(ctx, "m", func(context.Context) (int, error) {
					return 1, nil
				}); err != nil {
					return nil, err
				}
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}))
		want := func(n int64) {
			t.Helper()
			w[0].get(id)
			synctest.Wait()
			if runs.Load() != n || now.Load() != 1 {
				t.Errorf("%d of %d handlers run, want 1 of %d", now.Load(), runs.Load(), n)
			}
		}
		id = w[0].call("work", "")
		s[0].breakCalls("put")
		time.Sleep(5 * time.Second)
		s[0].breakCalls("renew")
		time.Sleep(2 * time.Second)
		want(1)
		time.Sleep(31 * time.Second)
		want(2)
		cancel := func(replica int) *protocol.Response {
			return w[replica].ask("tasks/cancel", fmt.Sprintf(`"taskId":%q,%s`, id, declared))
		}
		s[0].breakCalls("put")
		if resp := cancel(0); resp.Error == nil ||
			resp.Error.Code != protocol.CodeInternalError {
			t.Errorf("a cancellation that cannot be stored: %v", resp.Error)
		}
		s[0].breakCalls("")
		if resp := cancel(1); resp.Error != nil {
			t.Error(resp.Error)
		}
		time.Sleep(1500 * time.Millisecond)
		if now.Load() != 0 {
			t.Error("it runs on, and was cancelled on another replica")
		}
	})
}

// The next poll, on another replica, continues the task. A cancelled task ends at once, and a new
// task never runs here.
func TestShutdownHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, stays := 0, true
		w, _ := replicas(t, tasks.Options{}, taskTool,
			inTask(func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
				if runs++; stays {
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}
				return server.Text("done"), nil
			}))
		id := w[0].call("work", "")
		synctest.Wait()
		cancelled := w[0].call("work", "")
		synctest.Wait()
		w[1].ask("tasks/cancel", fmt.Sprintf(`"taskId":%q,%s`, cancelled, declared))
		if err := w[0].tasks.Shutdown(canceled()); err == nil {
			t.Error("no error although the context had ended")
		}
		w[1].want(cancelled, "cancelled")
		stays = false
		late := w[0].call("work", "")
		synctest.Wait()
		if runs != 2 {
			t.Errorf("%d runs", runs)
		}
		for _, id := range []string{id, late} {
			w[1].get(id)
			synctest.Wait()
			w[1].want(id, "completed")
		}
	})
}

// The store is read the same number of times for unknown, foreign and expired ids.
func TestUnknownLooksForeign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := replicas(t, tasks.Options{TTL: func(string, protocol.Principal) time.Duration {
			return time.Hour
		}}, taskTool, askForever)
		foreign := w[0].call("work", "")
		synctest.Wait()
		ask := func(p protocol.Principal, id string) string {
			said := ""
			for _, method := range []string{"get", "update", "cancel"} {
				before, all := s[1].count("get"), s[1].count("")
				resp := w[1].askAs(p, "tasks/"+method,
					fmt.Sprintf(`"taskId":%q,"inputResponses":{},%s`, id, declared))
				said += fmt.Sprintf("%v %v %d %d\n", resp.Error, resp.Error != nil,
					s[1].count("get")-before, s[1].count("")-all)
			}
			return said
		}
		other := protocol.Principal{Issuer: "i", Subject: "s"}
		want := ask(protocol.LocalPrincipal(), "nope")
		if !strings.Contains(want, "true 1 1") {
			t.Error(want)
		}
		for i, got := range []string{ask(other, foreign), ask(protocol.Principal{}, foreign),
			ask(other, strings.Repeat("x", 10<<10))} {
			if got != want {
				t.Errorf("%d: %s, want %s", i, got, want)
			}
		}
		time.Sleep(time.Hour + time.Second)
		w[1].want(foreign, "failed")
		time.Sleep(time.Hour)
		if got := ask(protocol.LocalPrincipal(), foreign); got != want {
			t.Errorf("not kept: %s, want %s", got, want)
		}
	})
}

func askForever(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	if err := roundtrip.BeginTask(ctx); err != nil {
		return nil, err
	}
	in, err := roundtrip.Ask[name](ctx, "a", "First?")
	if err != nil {
		return nil, err
	}
	return server.Text(in.Name), nil
}

// Two replicas acknowledge different answers to one question; one counts.
func TestUpdatesAtOnce(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			w, _ := replicas(t, tasks.Options{}, taskTool, askForever)
			id := w[0].call("work", "")
			synctest.Wait()
			var wg sync.WaitGroup
			for i := range w {
				wg.Go(func() {
					w[i].update(id, fmt.Sprintf(
						`{"a":{"action":"accept","content":{"name":"%d"}}}`, i))
				})
			}
			wg.Wait()
			w[0].update(id, `{"a":{"action":"decline"}}`) // the question is answered
			synctest.Wait()
			done, ok := w[0].get(id).State.(protocol.TaskCompleted)
			if !ok || done.Result.IsError {
				t.Fatalf("%+v", done)
			}
			w[1].update(id, `{"a":{"action":"decline"}}`) // the task is over
			w[1].want(id, "completed")
		})
	}
}

// If a cancellation on any replica meets the end of the handler, the first final status stays, and
// a completed handler is not cancelled after its commits.
func TestCancelAgainstCompletion(t *testing.T) {
	for _, at := range []time.Duration{0, 4900, 4999, 5000, 5001, 6000, 20_000} {
		for _, deaf := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				commits := 0
				w, _ := replicas(t, tasks.Options{}, taskTool,
					inTask(func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
						timer := time.After(5 * time.Second)
						select {
						case <-timer:
						case <-ctx.Done():
							if !deaf {
								return nil, context.Cause(ctx)
							}
							<-timer
						}
						roundtrip.OnCommit(ctx, func(context.Context) { commits++ })
						return server.Text("done"), nil
					}))
				id := w[0].call("work", "")
				time.Sleep(at * time.Millisecond)
				last := ""
				for i := range 30 {
					if i < 2 {
						resp := w[(i+1)%2].ask("tasks/cancel",
							fmt.Sprintf(`"taskId":%q,%s`, id, declared))
						if resp.Error != nil {
							t.Fatal(resp.Error)
						}
					}
					task := w[i%2].get(id)
					if status := task.State.Status(); last != "" && status != last {
						t.Fatalf("%s after %s", status, last)
					} else if task.IsOver() {
						last = status
					}
					time.Sleep(300 * time.Millisecond)
				}
				if last == "" || (last == "completed") != (commits == 1) ||
					last == "cancelled" && (deaf || at > 5000) {
					t.Errorf("at %d: %q with %d commits, deaf %v", at, last, commits, deaf)
				}
			})
		}
	}
}
