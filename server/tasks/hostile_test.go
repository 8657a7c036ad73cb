package tasks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/tasks"
)

type outcome = protocol.CallToolOutcome

type toolFunc = func(context.Context, *server.ToolCall) (outcome, error)

// inTask returns a handler that begins a task and continues with f.
func inTask(f toolFunc) toolFunc {
	return func(ctx context.Context, call *server.ToolCall) (outcome, error) {
		if err := roundtrip.BeginTask(ctx); err != nil {
			return nil, err
		}
		return f(ctx, call)
	}
}

func (w *world) addTask(f toolFunc) { server.AddRawTool(w.srv, taskTool, inTask(f)) }

func askThenTask(ctx context.Context, c *server.ToolCall) (outcome, error) {
	if _, err := roundtrip.Ask[name](ctx, "who", "Who?"); err != nil {
		return nil, err
	}
	return inTask(askForever)(ctx, c)
}

var taskTool = server.Tool{Name: "work", Task: server.TaskCan}

// A misbehaving handler's task ends as listed, and its run keeps no resources.
func TestHandlersThatMisbehave(t *testing.T) {
	var spent error
	cases := map[string]struct {
		run  toolFunc
		want string // the status, and a part of its result or error
	}{
		"panics": {func(context.Context, *server.ToolCall) (outcome, error) {
			panic("secret")
		}, "failed nternal error"},
		"fails": {func(context.Context, *server.ToolCall) (outcome, error) {
			return nil, errors.New("no disk")
		}, "completed no disk"},
		"returns nothing": {func(context.Context, *server.ToolCall) (outcome, error) {
			return nil, nil
		}, "failed nternal error"},
		"returns 5 MiB": {func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			return server.Text(strings.Repeat("x", 5<<20)), nil
		}, "failed too large"},
		"commits 5 MiB": {func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			return server.Text(strings.Repeat("x", 5<<20)), roundtrip.OnCommit(ctx,
				func(context.Context) { t.Error("committed what cannot be kept") })
		}, "failed too large"},
		"keeps 5 MiB": {func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			_, spent = roundtrip.Memo(ctx, "m", func(context.Context) (string, error) {
				return strings.Repeat("x", 5<<20), nil
			})
			return server.Text("done"), nil
		}, "failed too large"},
		"asks 300 questions": {func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			var items []roundtrip.Item
			for i := range 300 {
				items = append(items, roundtrip.Elicit[name](fmt.Sprint(i), "?"))
			}
			return roundtrip.InputRequired(items...), nil
		}, "failed gave up"},
		"asks twice under one key": {func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() { roundtrip.Ask[name](ctx, "a", "?") })
			}
			wg.Wait()
			return server.Text("done"), nil
		}, "failed nternal error"},
		"begins again": {func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			return server.Text(fmt.Sprint(roundtrip.BeginTask(ctx))), nil
		}, "completed <nil>"},
		"returns a handle": {func(context.Context, *server.ToolCall) (outcome, error) {
			return &protocol.CreateTaskResult{Task: protocol.Task{ID: "x"}}, nil
		}, "failed nternal error"},
		"only keeps state": {func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			n, _ := roundtrip.State[int](ctx)
			if n == 3 {
				return server.Text("three"), nil
			}
			return roundtrip.InputRequired(roundtrip.WithState(n + 1)), nil
		}, "completed three"},
		"takes too long": {func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, "failed exceeded its time limit"},
		"ignores its context": {func(context.Context, *server.ToolCall) (outcome, error) {
			time.Sleep(90 * time.Minute)
			return server.Text("late"), nil
		}, "failed exceeded its time limit"},
		"leaves a goroutine": {func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			go func() {
				time.Sleep(10 * time.Second)
				tasks.StatusMessage(ctx, "still here")
			}()
			return server.Text("done"), nil
		}, "completed done"},
	}
	for label, c := range cases {
		t.Run(label, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.addTask(c.run)
				id := w.call("work", "")
				time.Sleep(time.Hour + time.Minute)
				for range 2 {
					raw := w.ask("tasks/get", fmt.Sprintf(`"taskId":%q,%s`, id, declared)).Result
					task, err := protocol.DecodeTask(raw)
					noError(t, err)
					status, words, _ := strings.Cut(c.want, " ")
					if task.State.Status() != status || !strings.Contains(string(raw), words) {
						t.Errorf("%s", raw)
					}
					if strings.Contains(string(raw), "secret") {
						t.Errorf("tells: %s", raw)
					}
					time.Sleep(time.Hour)
				}
			})
		})
	}
	if spent == nil {
		t.Error("a memo that could not be kept was given out")
	}
}

// A goroutine of a run reports after the run has asked: the task still asks, and the answer counts.
func TestStrayStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.addTask(func(ctx context.Context, c *server.ToolCall) (outcome, error) {
			go func() {
				time.Sleep(2 * time.Second)
				tasks.StatusMessage(ctx, "still here")
			}()
			return askForever(ctx, c)
		})
		id := w.call("work", "")
		time.Sleep(5 * time.Second)
		w.update(id, `{"a":{"action":"accept","content":{"name":"B"}}}`)
		synctest.Wait()
		w.want(id, "completed")
		time.Sleep(5 * time.Second) // the goroutine of the last run
	})
}

// Repeated keys stay unique, even beside the author's "a.2" and under another version of the flow.
func TestWireKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		version, asked := "1", map[string]int{}
		w := newWorld(t, nil)
		w.addTask(func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			if err := roundtrip.FlowVersion(ctx, version); err != nil {
				return nil, err
			}
			text := version
			for _, key := range []string{"a", "a.2", "b"} {
				in, err := roundtrip.Ask[name](ctx, key, key+"?")
				if err != nil {
					return nil, err
				}
				text += in.Name
			}
			return server.Text(text), nil
		})
		id := w.call("work", "")
		for range 20 {
			synctest.Wait()
			task := w.get(id)
			asks, ok := task.State.(protocol.TaskInputRequired)
			if !ok {
				break
			}
			key := asks.Requests[0].Key
			if asked[key]++; asked[key] > 1 {
				t.Fatalf("%s comes again", key)
			}
			answer := `"content":{"name":"x"}`
			switch len(asked) {
			case 1:
				answer = `"content":{"name":7}` // does not fit
			case 4:
				version = "2"
			}
			w.update(id, fmt.Sprintf(`{%q:{"action":"accept",%s}}`, key, answer))
			time.Sleep(time.Second)
		}
		done, ok := w.get(id).State.(protocol.TaskCompleted)
		if !ok || done.Result.Content[0].(*protocol.TextContent).Text != "2xxx" || len(asked) < 5 {
			t.Errorf("%+v, asked %v", w.get(id).State, asked)
		}
	})
}

// An answer to one question does not affect the other.
func TestQuestionsThatWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		w := newWorld(t, nil)
		w.addTask(func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			runs++
			a, isA := roundtrip.AcceptedContent[name](ctx, "a")
			b, isB := roundtrip.AcceptedContent[name](ctx, "b")
			if !isA || !isB {
				return roundtrip.InputRequired(roundtrip.Elicit[name]("a", "?"),
					roundtrip.Elicit[name]("b", "?")), nil
			}
			return server.Text(a.Name + b.Name), nil
		})
		id := w.call("work", "")
		synctest.Wait()
		w.update(id, `{"a":{"action":"accept","content":{"name":"x"}}}`)
		synctest.Wait()
		w.answerKey(id, "b")
		if w.want(id, "completed"); runs != 2 {
			t.Errorf("%d runs", runs)
		}
	})
}

// Clients without the extension are refused before the store is read, for any id and parameters.
func TestUndeclaredComesFirst(t *testing.T) {
	old := strings.Replace(undeclared, `"elicitation":{}`, `"elicitation":{},"tasks":{}`, 1)
	synctest.Test(t, func(t *testing.T) {
		w, s := replicas(t, tasks.Options{}, server.Tool{Name: "work", Task: server.TaskMust},
			inTask(askForever))
		id := w[0].call("work", "")
		time.Sleep(3 * time.Second)
		before := s[1].count("get")
		for _, meta := range []string{undeclared, old} {
			for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel",
				"tools/call", protocol.MethodListen} {
				for _, id := range []string{id, "nope"} {
					resp := w[1].ask(method, fmt.Sprintf(`"name":"work","taskId":%q,`+
						`"inputResponses":{},"notifications":{"taskIds":[%[1]q]},%s`, id, meta))
					if resp.Error == nil ||
						resp.Error.Code != protocol.CodeMissingRequiredClientCapability ||
						!bytes.Contains(resp.Error.Data, []byte(protocol.ExtensionTasks)) {
						t.Errorf("%s: %v", method, resp.Error)
					}
				}
			}
		}
		if n := s[1].count("get") - before; n != 0 {
			t.Errorf("%d reads", n)
		}
	})
}

func TestWrongParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.addTask(askForever)
		id := w.call("work", "")
		synctest.Wait()
		var many []string
		for i := range 10_000 {
			many = append(many, fmt.Sprintf(`"k%d":{"action":"cancel"}`, i))
		}
		for _, params := range []string{`"taskId":"","inputResponses":{}`,
			`"taskId":7,"inputResponses":{}`, `"inputResponses":{}`, `"taskId":"ID"`,
			`"taskId":"ID","inputResponses":null`, `"taskId":"ID","inputResponses":[]`,
			`"taskId":"ID","inputresponses":{"a":{"action":"cancel"}}`} {
			resp := w.ask("tasks/update", strings.ReplaceAll(params, "ID", id)+","+declared)
			if resp.Error == nil || resp.Error.Code != protocol.CodeInvalidParams {
				t.Errorf("%s: %v %s", params, resp.Error, resp.Result)
			}
		}
		w.want(id, "input_required")
		w.ask("tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{%s},%s`, id,
			strings.Join(many, ","), declared))
		w.update(id, `{"a":[]}`) // no answer: asked again
		time.Sleep(time.Second)
		w.update(id, `{"z":{"action":"cancel"},"a.2":{"action":"accept","content":{"name":"x"}}}`)
		synctest.Wait()
		w.want(id, "completed")
	})
}

// A task expires while its handler runs on: once a client saw that, it is final on every replica.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := replicas(t, tasks.Options{TTL: func(string, protocol.Principal) time.Duration {
			return time.Minute
		}}, taskTool, inTask(func(context.Context, *server.ToolCall) (outcome, error) {
			time.Sleep(61 * time.Second)
			return server.Text("late"), nil
		}))
		id := w[0].call("work", "")
		time.Sleep(time.Minute)
		for i := range 10 {
			failed, ok := w[i%2].get(id).State.(protocol.TaskFailed)
			if !ok || failed.Error.Code != protocol.CodeInternalError ||
				!strings.Contains(failed.Error.Message, "expired") {
				t.Fatalf("%d: %+v", i, failed)
			}
			time.Sleep(time.Second)
		}
	})
}

// A call above the limit is refused before anything exists, and succeeds later, even with a guard.
func TestNoRoom(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ring := testRing(t)
			s := newFaultyStore(store.NewMemoryTaskStore())
			so := server.Options{}
			so.Roundtrip.Sealer = ring
			if guarded {
				so.Roundtrip.Guard = store.NewMemoryGuard(100)
			}
			w := newServerWorld(t, so, &tasks.Options{Store: s, Keys: ring, TasksPerPrincipal: 1})
			server.AddRawTool(w.srv, taskTool, askThenTask)
			first, second := w.round(), w.round()
			id := w.call("work", first)
			resp := w.ask("tools/call", `"name":"work"`+second+","+declared)
			if resp.Error == nil || resp.Error.Code != protocol.CodeBusy ||
				!bytes.Contains(resp.Error.Data, []byte(`"retryAfterMs":30000`)) {
				t.Fatalf("%v %s", resp.Error, resp.Result)
			}
			if again := w.call("work", first); again != id {
				t.Error("another handle for the same round")
			}
			w.ask("tasks/cancel", fmt.Sprintf(`"taskId":%q,%s`, id, declared))
			synctest.Wait()
			w.want(id, "cancelled")
			if next := w.call("work", second); next == id {
				t.Error("the same task")
			}
		})
	}
}

// A dyingGuard belongs to a process that dies before it finishes its claims.
type dyingGuard struct{ store.Guard }

type dyingClaim struct{ store.Claim }

func (g dyingGuard) Claim(ctx context.Context, id, owner string, fingerprint [32]byte,
	until time.Time) (store.Claim, error) {
	claim, err := g.Guard.Claim(ctx, id, owner, fingerprint, until)
	return dyingClaim{claim}, err
}

func (dyingClaim) Renew(context.Context) error          { return nil }
func (dyingClaim) Commit(context.Context, []byte) error { return nil }

// A process dies between the record of a task and its guard's entry: the retried round gets the
// handle, but not for a client without tasks.
func TestDeathAfterTheTaskBegan(t *testing.T) {
	for _, begins := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ring := testRing(t)
			so := server.Options{}
			so.Roundtrip.Sealer, so.Roundtrip.Guard = ring, dyingGuard{store.NewMemoryGuard(100)}
			w := newServerWorld(t, so, &tasks.Options{Store: store.NewMemoryTaskStore(),
				Keys: ring})
			server.AddRawTool(w.srv, taskTool,
				func(ctx context.Context, c *server.ToolCall) (outcome, error) {
					if _, err := roundtrip.Ask[name](ctx, "who", "Who?"); err != nil {
						return nil, err
					}
					if !begins {
						return server.Text("done"), nil
					}
					return inTask(askForever)(ctx, c)
				})
			round := w.round()
			first := w.ask("tools/call", `"name":"work"`+round+","+declared)
			again := w.ask("tools/call", `"name":"work"`+round+","+declared)
			if again.Error == nil || again.Error.Code != protocol.CodeBusy {
				t.Errorf("within the lease: %v %s", again.Error, again.Result)
			}
			time.Sleep(store.Lease + time.Second)
			again = w.ask("tools/call", `"name":"work"`+round+","+declared)
			if begins && !strings.Contains(string(again.Result), w.idOf(first)) ||
				!begins && !strings.Contains(string(again.Result), "outcome is not known") {
				t.Errorf("begins %v: %v %s", begins, again.Error, again.Result)
			}
		})
	}
}

// A round whose task is gone is refused, unlike one whose store failed.
func TestRoundOfATaskThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &tasks.Options{Sweep: 100 * time.Hour,
			TTL: func(string, protocol.Principal) time.Duration { return time.Second }})
		server.AddRawTool(w.srv, taskTool, askThenTask)
		round := w.round()
		w.call("work", round)
		time.Sleep(11 * time.Minute)
		resp := w.ask("tools/call", `"name":"work"`+round+","+declared)
		if resp.Error == nil || resp.Error.Code != protocol.CodeInvalidParams {
			t.Errorf("%v %s", resp.Error, resp.Result)
		}
	})
}

func TestPollsInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := replicas(t, tasks.Options{}, taskTool, inTask(askForever))
		id := w[0].call("work", "")
		synctest.Wait()
		before := s[1].count("get")
		refused := 0
		other := protocol.Principal{Issuer: "i", Subject: "s"}
		for _, p := range []protocol.Principal{other, protocol.LocalPrincipal()} {
			for range 100 {
				for _, method := range []string{"tasks/get", "tasks/update"} {
					resp := w[1].askAs(p, method,
						fmt.Sprintf(`"taskId":%q,"inputResponses":{},%s`, id, declared))
					if resp.Error != nil && resp.Error.Code == protocol.CodeBusy {
						refused++
					}
				}
			}
		}
		if n := s[1].count("get") - before; refused != 360 || n != 40 {
			t.Errorf("%d refused, %d reads", refused, n)
		}
	})
}

// AwaitEvent waits without a question, checks rarely, and at once when woken on another replica.
func TestAwaitEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, come := 0, false
		w, _ := replicas(t, tasks.Options{}, taskTool, inTask(func(ctx context.Context,
			_ *server.ToolCall) (outcome, error) {
			err := roundtrip.AwaitEvent(ctx, "order 7", func(context.Context) (bool, error) {
				looks++
				return come, nil
			})
			if err != nil {
				return nil, err
			}
			return server.Text("come"), nil
		}))
		id := w[0].call("work", "")
		time.Sleep(10 * time.Minute)
		if state := w[0].get(id).State; state.Status() != "working" || looks < 10 || looks > 20 {
			t.Errorf("%+v after %d looks", state, looks)
		}
		come = true
		noError(t, w[1].tasks.Wake(context.Background(), "order 7"))
		synctest.Wait()
		w[0].want(id, "completed")
	})
}

// A short task returns its result, others the handle.
func TestInline(t *testing.T) {
	for _, takes := range []time.Duration{time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			commits := 0
			// The request's limits do not apply to the run.
			w := newServerWorld(t, server.Options{Middleware: []server.Middleware{
				middleware.Limit(&middleware.Options{Calls: 1}),
				middleware.Timeout(time.Second / 2)}}, &tasks.Options{Inline: 5 * time.Second})
			work := inTask(func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
				time.Sleep(takes)
				roundtrip.OnCommit(ctx, func(context.Context) { commits++ })
				return server.Text("done"), nil
			})
			server.AddRawTool(w.srv, taskTool, work)
			server.AddRawTool(w.srv, server.Tool{Name: "must", Task: server.TaskMust}, work)
			w.call("must", "") // becomes a task, however soon it is over
			time.Sleep(2 * time.Minute)
			resp := w.ask("tools/call", `"name":"work",`+declared)
			if inline := bytes.Contains(resp.Result, []byte("done")); inline !=
				(takes == time.Second) {
				t.Errorf("%s", resp.Result)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if commits != 2 {
				t.Errorf("%d commits", commits)
			}
		})
	}
}

// A handle from middleware is refused for a client without tasks.
func TestForgedHandle(t *testing.T) {
	now := time.Now()
	forge := func(next server.Handler) server.Handler {
		return func(ctx context.Context, r *server.Request) (protocol.Result, error) {
			return &protocol.CreateTaskResult{Task: protocol.Task{ID: "x", Created: now,
				Updated: now, State: protocol.TaskWorking{}}}, nil
		}
	}
	w := newServerWorld(t, server.Options{Middleware: []server.Middleware{forge}}, nil)
	w.addTask(askForever)
	resp := w.ask("tools/call", `"name":"work",`+undeclared)
	if resp.Error == nil || resp.Error.Code != protocol.CodeInternalError {
		t.Errorf("%v %s", resp.Error, resp.Result)
	}
}

// The table in the package's documentation is true.
func TestMiddlewareOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type seen struct {
			inTask    bool
			principal protocol.Principal
			scoped    bool
		}
		var mu sync.Mutex
		var sees []seen
		note := func(next server.Handler) server.Handler {
			return func(ctx context.Context, r *server.Request) (protocol.Result, error) {
				if mu.Lock(); r.Message.Method == "tools/call" {
					sees = append(sees, seen{r.InTask(), r.Principal, r.Access.Unlimited()})
				}
				mu.Unlock()
				return next(ctx, r)
			}
		}
		w := newServerWorld(t, server.Options{Middleware: []server.Middleware{
			middleware.Recover(nil), note, middleware.Limit(&middleware.Options{Calls: 2}),
			middleware.Timeout(time.Second)}}, nil)
		w.addTask(func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			if deadline, ok := ctx.Deadline(); ok {
				return nil, fmt.Errorf("deadline %s", deadline)
			}
			time.Sleep(10 * time.Second)
			return server.Text("done"), nil
		})
		var ids []string
		for range 2 { // the second may have to wait for a slot
			ids = append(ids, w.call("work", ""))
			if len(ids) == 1 {
				synctest.Wait()
			}
		}
		time.Sleep(time.Minute)
		for _, id := range ids {
			if done, ok := w.get(id).State.(protocol.TaskCompleted); !ok || done.Result.IsError {
				t.Errorf("%+v", w.get(id).State)
			}
		}
		runs := 0
		for _, s := range sees {
			if s.principal != protocol.LocalPrincipal() {
				t.Errorf("%+v", s)
			}
			if s.inTask {
				runs++
			}
		}
		if runs < 2 {
			t.Errorf("%d runs in %+v", runs, sees)
		}
	})
}
