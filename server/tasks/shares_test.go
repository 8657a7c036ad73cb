package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// A gauge counts runs by principal, and the most of each at once.
type gauge struct {
	mu        sync.Mutex
	now, most map[string]int
	done      int
}

// addTool adds a tool whose runs take as many seconds as its argument says.
func (g *gauge) addTool(w *world) {
	server.AddRawTool(w.srv, server.Tool{Name: "take", Task: server.TaskMust},
		inTask(func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
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

// In any schedule no principal has more runs than its share, a principal below its share waits for
// others only where all slots are taken, and everything is done in the end.
func TestRunsHaveShares(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			runs := 1 + random.IntN(16)
			share := max(runs/4, 1)
			w := newWorld(t, &tasks.Options{Runs: runs})
			g := &gauge{now: map[string]int{}, most: map[string]int{}}
			g.addTool(w)
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
			for who, most := range g.most {
				if who != "" && most > share {
					t.Errorf("seed %d: %d runs of %q at once, its share is %d of %d", seed, most,
						who, share, runs)
				}
			}
			if g.done != begun {
				t.Errorf("seed %d: %d of %d tasks are done", seed, g.done, begun)
			}
			w.tasks.Shutdown(canceled())
		})
	}
}

// Two principals with 45 long tasks each hold up nobody else's, neither where they began them nor
// in a process that takes everything over.
func TestLongTasksHoldUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, ring := store.NewMemoryTaskStore(), testRing(t)
		begin := func() (*world, *gauge, *faultyStore) {
			s := newFaultyStore(memory)
			w := newWorld(t, &tasks.Options{Store: s, Keys: ring, Runs: 4})
			g := &gauge{now: map[string]int{}, most: map[string]int{}}
			g.addTool(w)
			return w, g, s
		}
		w, g, s := begin()
		for range 45 {
			w.take("ann", 3000)
			w.take("bob", 3000)
		}
		w.take("cid", 1)
		time.Sleep(2 * time.Second)
		if g.done != 1 {
			t.Error("the task of the third is not done")
		}
		w.take("cid", 600)
		s.kill(true)
		time.Sleep(41 * time.Second) // the lease, and the renewal that finds it over
		s.kill(false)
		w.tasks.Shutdown(canceled())

		w, g, _ = begin()
		time.Sleep(12 * time.Minute)
		if g.most["cid"] != 1 || g.most["ann"] != 1 || g.most["bob"] != 1 || g.done != 1 {
			t.Errorf("taken over: at most %v at once, done %d", g.most, g.done)
		}
		w.tasks.Shutdown(canceled())
	})
}
