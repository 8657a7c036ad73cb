package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// A gauge counts runs by principal, and the most concurrent ones.
type gauge struct {
	mu        sync.Mutex
	now, most map[string]int
	done      int
}

// newGauge adds a tool whose runs take as many seconds as its argument says.
func newGauge(w *world) *gauge {
	g := &gauge{now: map[string]int{}, most: map[string]int{}}
	server.AddRawTool(w.srv, server.Tool{Name: "take", Task: server.TaskMust},
		inTask(func(ctx context.Context, call *server.ToolCall) (outcome, error) {
			var args struct{ Seconds int }
			if err := json.Unmarshal(call.Arguments, &args); err != nil {
				return nil, err
			}
			who := call.Principal.Subject
			g.mu.Lock()
			g.now[who]++
			g.most[who] = max(g.most[who], g.now[who])
			g.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(args.Seconds) * time.Second):
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			g.now[who]--
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			g.done++
			return &protocol.CallToolResult{}, nil
		}))
	return g
}

// read returns the finished runs, and the most concurrent ones by principal.
func (g *gauge) read() (done int, most map[string]int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done, maps.Clone(g.most)
}

type changes struct {
	mu sync.Mutex
	of map[string]int
}

func (c *changes) Observe(_ context.Context, e event.Event) {
	changed, ok := e.(event.TaskChanged)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[changed.Change]++
}

func (c *changes) count(change string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[change]
}

func (c *changes) want(t *testing.T, want map[string]int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for change, n := range want {
		if c.of[change] != n {
			t.Errorf("%d times %s, want %d: %v", c.of[change], change, n, c.of)
		}
	}
}

func user(name string) protocol.Principal {
	if name == "" {
		return protocol.Principal{}
	}
	return protocol.Principal{Issuer: "https://id.example", Subject: name}
}

func (w *world) take(who string, seconds int) {
	w.t.Helper()
	resp := w.askAs(user(who), "tools/call",
		fmt.Sprintf(`"name":"take","arguments":{"seconds":%d},%s`, seconds, declared))
	if resp.Error != nil {
		w.t.Fatal(resp.Error)
	}
}

// In any schedule principals keep to their shares, wait for others only if all slots are taken, and
// everything is done in the end.
func TestRunsHaveShares(t *testing.T) {
	seeds := uint64(30)
	if testkit.Race {
		seeds = 8
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			runs := 1 + random.IntN(16)
			share := max(runs/4, 1)
			told := &changes{}
			w := newServerWorld(t, server.Options{Observer: told}, &tasks.Options{Runs: runs})
			g := newGauge(w)
			open := map[string]int{}
			begun := 60
			for range begun {
				who := []string{"ann", "bob", "cid", ""}[random.IntN(4)]
				w.take(who, 1+random.IntN(20))
				time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
				synctest.Wait()
				open[who]++
				g.mu.Lock()
				all := 0
				for _, n := range g.now {
					all += n
				}
				if who != "" && g.now[who] == 0 && g.most[who] == 0 && all < runs-share {
					t.Errorf("seed %d: %s has no run, and there is room", seed, who)
				}
				g.mu.Unlock()
			}
			time.Sleep(time.Hour)
			done, most := g.read()
			for who, most := range most {
				if who != "" && most > share {
					t.Errorf("seed %d: %d runs of %q at once, its share is %d of %d", seed, most,
						who, share, runs)
				}
			}
			if done != begun {
				t.Errorf("seed %d: %d of %d tasks are done", seed, done, begun)
			}
			told.want(t, map[string]int{"begun": begun, "runs": begun, "stops": begun,
				"completed": begun, "dequeued": told.count("queued"), "taken_over": 0, "failed": 0})
		})
	}
}

// Tasks without room begin as soon as there is some, before the next sweep.
func TestTasksBeyondTheRoomAreNotForgotten(t *testing.T) {
	for who, runs := range map[string]int{"": 1, "ann": 4} { // one slot each
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, &tasks.Options{Runs: runs, Sweep: 1000 * time.Hour})
			g := newGauge(w)
			time.Sleep(time.Minute)
			for range 10 {
				w.take(who, 1)
			}
			time.Sleep(11 * time.Second)
			if done, _ := g.read(); done != 10 {
				t.Errorf("%q: %d of 10 tasks are done", who, done)
			}
		})
	}
}

// Two principals with 45 long tasks each do not delay others' tasks, whether new or waiting for an
// event, where they began or in a process that takes over.
func TestLongTasksHoldUpNobodyElse(t *testing.T) {
	for runs := 2; runs <= 5; runs++ {
		synctest.Test(t, func(t *testing.T) { testLongTasks(t, runs) })
	}
}

func testLongTasks(t *testing.T, runs int) {
	memory, ring := store.NewMemoryTaskStore(), testRing(t)
	var looks atomic.Int64
	begin := func() (*world, *gauge, *faultyStore) {
		s := newFaultyStore(memory)
		w := newWorld(t, &tasks.Options{Store: s, Keys: ring, Runs: runs})
		g := newGauge(w)
		server.AddRawTool(w.srv, server.Tool{Name: "wait", Task: server.TaskMust},
			inTask(func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
				err := roundtrip.AwaitEvent(ctx, "e", func(context.Context) (bool, error) {
					looks.Add(1)
					return false, nil
				})
				return server.Text("come"), err
			}))
		return w, g, s
	}
	w, g, s := begin()
	if resp := w.askAs(user("cid"), "tools/call", `"name":"wait",`+declared); resp.Error != nil {
		t.Fatal(resp.Error)
	}
	for range 45 {
		w.take("ann", 3000)
		if runs > 2 { // each has a slot
			w.take("bob", 3000)
		}
	}
	w.take("cid", 1)
	time.Sleep(10 * time.Minute)
	if done, _ := g.read(); done != 1 || looks.Load() < 10 {
		t.Errorf("%d runs: of the third %d tasks are done, and one has looked %d times", runs, done,
			looks.Load())
	}
	w.take("cid", 600)
	s.kill(true)
	time.Sleep(41 * time.Second) // the lease, and the renewal that finds it over
	s.kill(false)
	w.tasks.Shutdown(canceled())

	looks.Store(0)
	w, g, _ = begin()
	time.Sleep(15 * time.Minute)
	done, most := g.read()
	if most["cid"] != 1 || most["ann"] != 1 || done != 1 || looks.Load() < 3 { // its own task comes first
		t.Errorf("%d runs, taken over: at most %v at once, done %d, looks %d", runs, most, done,
			looks.Load())
	}
	w.tasks.Shutdown(canceled())
}

// A task whose client leaves before it has the handle is cancelled, even if queued or waiting.
func TestAClientThatLeavesInline(t *testing.T) {
	for _, how := range []string{"runs", "queued", "waits"} {
		synctest.Test(t, func(t *testing.T) {
			told := &changes{}
			w := newServerWorld(t, server.Options{Observer: told},
				&tasks.Options{Runs: 1, Inline: time.Minute})
			newGauge(w)
			w.addTask(func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
				if how == "waits" {
					err := roundtrip.AwaitEvent(ctx, "e", func(context.Context) (bool, error) {
						return false, nil
					})
					return nil, err
				}
				<-ctx.Done()
				return nil, context.Cause(ctx)
			})
			if how == "queued" {
				w.take("ann", 300)
				synctest.Wait()
			}
			ctx, cancel := context.WithTimeout(server.WithPrincipal(t.Context(), user("cid")),
				10*time.Second)
			defer cancel()
			_, _ = w.srv.Handle(ctx, &protocol.Request{ID: protocol.IntID(1),
				Method: protocol.MethodCallTool,
				Params: json.RawMessage(`{"name":"work",` + declared + `}`)}, deafBack{})
			time.Sleep(10 * time.Minute)
			want := map[string]int{"cancelled": 1}
			if how == "queued" {
				want["runs"] = 1 // the other task's run
			}
			told.want(t, want)
		})
	}
}

type noteBack struct{ n *atomic.Int64 }

func (b noteBack) Notify(context.Context, *protocol.Notification) error {
	b.n.Add(1)
	return nil
}

// A task is read once a second for any number of subscriptions, and a repeated id counts once.
func TestSubscriptionsShareAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaultyStore(store.NewMemoryTaskStore())
		w := newWorld(t, &tasks.Options{Store: s, Keys: testRing(t), Runs: 100})
		newGauge(w)
		const n = 20
		var ids []string
		for range n {
			ids = append(ids, w.call("take", `,"arguments":{"seconds":60}`))
		}
		ctx, cancel := context.WithCancel(server.WithPrincipal(t.Context(),
			protocol.LocalPrincipal()))
		defer cancel()
		named, err := json.Marshal(slices.Repeat(ids, 10))
		noError(t, err)
		var told atomic.Int64
		var open sync.WaitGroup
		before := s.count("get")
		for i := range n {
			open.Go(func() {
				_, _ = w.srv.Handle(ctx, &protocol.Request{ID: protocol.IntID(int64(i)),
					Method: protocol.MethodListen, Params: json.RawMessage(fmt.Sprintf(
						`{"notifications":{"taskIds":%s},%s}`, named, declared))}, noteBack{&told})
			})
		}
		synctest.Wait()
		opened := s.count("get") - before
		time.Sleep(10 * time.Second)
		later := s.count("get") - before - opened
		// Each subscription reads each task once, and a reader reads each task; running tasks check
		// for cancellation each second.
		if opened > n*n+n || later > 10*n+10*n+n || told.Load() != n*n+n {
			t.Errorf("%d reads at first, %d in ten seconds, %d notices", opened, later, told.Load())
		}
		time.Sleep(time.Minute)
		before = s.count("get")
		if told.Load() != 2*n*n+n { // an acknowledgement, and each task twice
			t.Errorf("%d notices", told.Load())
		}
		time.Sleep(10 * time.Second)
		if read := s.count("get") - before; read != 0 {
			t.Errorf("%d reads of tasks that are over", read)
		}
		cancel()
		open.Wait()
	})
}

// A principal that reads its small tasks is never refused, whatever unread results are kept; those
// stay for their whole time.
func TestAWeekOfSmallTasks(t *testing.T) {
	if testkit.Race {
		t.Skip("one task after the other, 80 MB of them")
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		result := server.Text(strings.Repeat("x", 100<<10)) // 640 of them make 64 MiB
		server.AddRawTool(w.srv, server.Tool{Name: "small", Task: server.TaskMust},
			inTask(func(context.Context, *server.ToolCall) (outcome, error) {
				return result, nil
			}))
		ask := func(method, params string) *protocol.Response {
			return w.askAs(user("ann"), method, params+","+declared)
		}
		begin := func() string {
			id := w.idOf(ask("tools/call", `"name":"small"`))
			synctest.Wait()
			return id
		}
		get := func(id string) (*protocol.Response, time.Duration) {
			resp := ask("tasks/get", fmt.Sprintf(`"taskId":%q`, id))
			var kept struct{ TTLMs int64 }
			_ = json.Unmarshal(resp.Result, &kept)
			return resp, time.Duration(kept.TTLMs) * time.Millisecond
		}
		unread, lastRead := begin(), ""
		for range 800 {
			id := begin()
			if resp, ttl := get(id); resp.Error != nil || ttl > 24*time.Hour {
				t.Fatalf("%v, kept for %v", resp.Error, ttl)
			}
			lastRead = id
			time.Sleep(7 * 24 * time.Hour / 820)
		}
		if resp, _ := get(lastRead); resp.Error != nil {
			t.Errorf("read a moment ago: %v", resp.Error)
		}
		if resp, _ := get(unread); resp.Error != nil {
			t.Errorf("not read: %v", resp.Error)
		}
		time.Sleep(25 * time.Hour)
		if resp, _ := get(lastRead); resp.Error == nil {
			t.Error("it is kept 25 hours after it was read")
		}
	})
}

func TestLongestResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		result := server.Text(strings.Repeat("x", 1<<20-8<<10))
		w.addTask(func(context.Context, *server.ToolCall) (outcome, error) {
			return result, nil
		})
		id := w.call("work", "")
		synctest.Wait()
		w.want(id, "completed")
	})
}

type bugCount int

func (n *bugCount) Observe(_ context.Context, e event.Event) {
	if _, ok := e.(event.ServerBug); ok {
		*n++
	}
}

func TestTasksAreAddedOnce(t *testing.T) {
	w := newWorld(t, nil)
	if again, err := tasks.New(w.srv, nil); err == nil || again != nil {
		t.Errorf("a second time: %v", err)
	}
	memory := store.NewMemoryTaskStore()
	for _, o := range []tasks.Options{{Store: memory}, {Store: memory,
		Keys: keys.EphemeralKeyring()}, {RunTimeout: -1}, {Runs: -1}, {TasksPerPrincipal: -1},
		{Lease: -1}, {Sweep: -1}, {Inline: -1}} {
		_, err := tasks.New(w.srv, &o)
		if text := fmt.Sprint(err); !strings.Contains(text, "must not be negative") &&
			!strings.Contains(text, "needs keys") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	bugs := bugCount(0)
	srv, err := server.New(&server.Options{Observer: &bugs,
		Info: protocol.Implementation{Name: "x", Version: "1"}})
	noError(t, err)
	defer srv.Close()
	server.AddRawTool(srv, server.Tool{Name: "work", Task: server.TaskMust}, inTask(askForever))
	none := &world{t: t, srv: srv}
	if resp := none.ask("tools/call", `"name":"work",`+declared); resp.Error == nil || bugs != 1 {
		t.Errorf("a tool that must be a task, without tasks: %v, %d bugs", resp.Error, bugs)
	}
}

func TestWakeWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 250
		w := newWorld(t, &tasks.Options{Runs: 1000, TasksPerPrincipal: n})
		var come atomic.Bool
		w.addTask(func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			err := roundtrip.AwaitEvent(ctx, "order 7", func(context.Context) (bool, error) {
				return come.Load(), nil
			})
			return server.Text("come"), err
		})
		var ids []string
		for range n {
			ids = append(ids, w.call("work", ""))
		}
		time.Sleep(10 * time.Minute)
		come.Store(true)
		noError(t, w.tasks.Wake(t.Context(), "order 7"))
		synctest.Wait()
		for _, id := range ids {
			w.want(id, "completed")
		}
	})
}
