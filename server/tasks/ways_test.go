package tasks_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// In a session a tool that must be a task is listed, asks, and runs in the foreground.
func TestMustInSession(t *testing.T) {
	w := newWorld(t, nil)
	server.AddRawTool(w.srv, server.Tool{Name: "work", Task: server.TaskMust}, inTask(askName))
	c, err := client.New(dialHTTP("")(t, w.srv), &client.Options{Era: protocol.Legacy, Tasks: true,
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(name{"Ada"})
		}})
	noError(t, err)
	defer c.Close()
	listed := 0
	for tool, err := range c.Tools(t.Context()) {
		if err != nil || tool.Name != "work" {
			t.Fatalf("%+v, %v", tool, err)
		}
		listed++
	}
	result, handle, err := c.BeginTask(t.Context(), &protocol.CallToolParams{Name: "work"})
	if err != nil || handle != nil || result == nil || listed != 1 {
		t.Fatalf("listed %d times, handle %v, result %v, %v", listed, handle, result, err)
	}
	if text := result.Content[0].(*protocol.TextContent).Text; text != "Ada false" {
		t.Errorf("%q", text)
	}
}

// askName returns the name that it asks for, and whether it runs in a task.
func askName(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	who, err := roundtrip.Ask[name](ctx, "who", "Who?")
	if err != nil {
		return nil, err
	}
	return server.Text(fmt.Sprint(who.Name, " ", roundtrip.InTask(ctx))), nil
}

// A handler asks and returns the same as a task over all transports, without tasks and in sessions.
func TestOneHandlerInAllWays(t *testing.T) {
	type way struct {
		name string
		opts client.Options
		dial func(*testing.T, *server.Server) protocol.Peer
	}
	asTask, inSession := client.Options{Tasks: true}, client.Options{Tasks: true,
		Era: protocol.Legacy}

	inProcess := func(_ *testing.T, srv *server.Server) protocol.Peer { return srv }
	for _, way := range []way{
		{"JSON", asTask, dialHTTP("application/json")},
		{"events", asTask, dialHTTP("text/event-stream")},
		{"JSON, no extension", client.Options{}, dialHTTP("application/json")},
		{"session", inSession, dialHTTP("")},
		{"stream", asTask, dialStream}, {"stream, no extension", client.Options{}, dialStream},
		{"stream, session", inSession, dialStream},
		{"in process", asTask, inProcess}, {"in process, no extension", client.Options{}, inProcess},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel() // its client waits between polls
			w := newWorld(t, nil)
			server.AddRawTool(w.srv, server.Tool{Name: "work", Task: server.TaskCan}, migrate)
			var asked []string
			opts := way.opts
			opts.ElicitForm = func(_ context.Context, q *client.FormQuestion) (
				*protocol.ElicitResult, error) {
				asked = append(asked, q.Message)
				return client.Accept(name{fmt.Sprint("answer ", len(asked))})
			}
			c, err := client.New(way.dial(t, w.srv), &opts)
			noError(t, err)
			defer c.Close()
			var result *protocol.CallToolResult
			var handle *client.Task
			ctx, said := t.Context(), ""
			if way.name == "events" {
				ctx = client.WithProgress(ctx, func(_ context.Context, p *protocol.Progress) {
					said += fmt.Sprint(p.Progress, p.Message, "; ")
				})
			}
			if opts.Tasks {
				result, handle, err = c.BeginTask(ctx, &protocol.CallToolParams{Name: "work"})
			} else {
				result, err = c.CallTool(ctx, "work", nil)
			}
			if handle != nil && err == nil {
				result, err = c.FollowTask(ctx, handle, nil)
			}
			if err != nil || (handle != nil) != (opts.Tasks && opts.Era != protocol.Legacy) {
				t.Fatalf("handle %v, %v", handle, err)
			}
			want := []string{"Who?", "answer 1 moves 42 rows, says who?", "And answer 2?"}
			text := result.Content[0].(*protocol.TextContent).Text
			if !slices.Equal(asked, want) || text != "answer 3" {
				t.Errorf("asked %q, got %q", asked, text)
			}
			if way.name == "events" && said != "1begun; 1begun; " {
				t.Errorf("it said %q", said)
			}
		})
	}
}

// migrate asks in the foreground, begins a task, keeps a memo and asks twice.
func migrate(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	if !roundtrip.InTask(ctx) {
		tasks.StatusMessage(ctx, "begun")
	}
	who, err := roundtrip.Ask[name](ctx, "who", "Who?")
	if err != nil {
		return nil, err
	}
	if err := roundtrip.BeginTask(ctx); err != nil {
		return nil, err
	}
	rows, err := roundtrip.Memo(ctx, "rows", func(context.Context) (int, error) { return 42, nil })
	if err != nil {
		return nil, err
	}
	sure, err := roundtrip.Ask[name](ctx, "sure",
		fmt.Sprintf("%s moves %d rows, says who?", who.Name, rows))
	if err != nil {
		return nil, err
	}
	again, err := roundtrip.Ask[name](ctx, "again", "And "+sure.Name+"?")
	return server.Text(again.Name), err
}

// dialHTTP wants responses to tool calls in a media type; "" means any.
func dialHTTP(media string) func(*testing.T, *server.Server) protocol.Peer {
	return func(t *testing.T, srv *server.Server) protocol.Peer {
		web := httptest.NewServer(servertest.NewHandler(t, srv, nil))
		t.Cleanup(web.Close)
		t.Cleanup(func() { _ = srv.Close() }) // before web, which waits for the session
		peer, err := clienthttp.New(web.URL, &clienthttp.Options{HTTPClient: &http.Client{
			Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
				resp, err := http.DefaultTransport.RoundTrip(r)
				if err == nil && r.Header.Get("Mcp-Method") == protocol.MethodCallTool &&
					!strings.HasPrefix(resp.Header.Get("Content-Type"), media) {
					t.Errorf("got %s, want %s", resp.Header.Get("Content-Type"), media)
				}
				return resp, err
			})}})
		noError(t, err)
		return peer
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func dialStream(t *testing.T, srv *server.Server) protocol.Peer {
	r, w := servertest.ServeLines(t, func(ctx context.Context, in io.Reader, out io.Writer) {
		_ = srv.ServeStream(ctx, in, out, nil)
	})
	return client.NewStream(r, w, nil)
}

func TestBeginTaskInPrompt(t *testing.T) {
	w := newWorld(t, nil)
	server.AddPrompt(w.srv, server.Prompt{Name: "p"}, func(ctx context.Context,
		_ *server.PromptCall) (protocol.GetPromptOutcome, error) {
		if err := roundtrip.BeginTask(ctx); err != nil || roundtrip.InTask(ctx) {
			t.Errorf("in a task %v, %v", roundtrip.InTask(ctx), err)
			return nil, err
		}
		return &protocol.GetPromptResult{Description: "done"}, nil
	})
	resp := w.ask("prompts/get", `"name":"p",`+declared)
	if resp.Error != nil || !strings.Contains(string(resp.Result), `"description":"done"`) {
		t.Errorf("%v %s", resp.Error, resp.Result)
	}
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// The log of tasks that ask, fail and complete has no answers at its lowest level, and digests
// instead of ids, which would give access.
func TestLogTellsNoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &safeBuffer{}
		log := middleware.NewLog(zaplog.New(zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(
			zap.NewProductionEncoderConfig()), zapcore.AddSync(out), zap.DebugLevel))), nil)
		w := newServerWorld(t, server.Options{Observer: log,
			Middleware: []server.Middleware{log.Wrap}}, nil)
		var how string
		w.addTask(func(ctx context.Context, call *server.ToolCall) (outcome, error) {
			memo, err := roundtrip.Memo(ctx, "m", func(context.Context) (string, error) {
				return "memo-marker", nil
			})
			if err != nil {
				return nil, err
			}
			who, err := roundtrip.Ask[name](ctx, "who", "Who? question-marker")
			if err != nil {
				return nil, err
			}
			tasks.StatusMessage(ctx, "status-marker")
			switch how {
			case "fails":
				return nil, fmt.Errorf("no %s for %s", who.Name, call.Arguments)
			case "panics":
				panic(errors.New("no " + who.Name + " in " + string(call.Arguments)))
			}
			return server.Text("result-marker " + memo + who.Name), nil
		})
		for how = range map[string]bool{"completes": true, "fails": true, "panics": true} {
			id := w.call("work", `,"arguments":{"x":"argument-marker"}`)
			synctest.Wait()
			w.update(id, `{"stray":{"action":"accept","content":{"name":"stray-marker"}},`+
				`"who":{"action":"accept","content":{"name":5,"other":"invalid-marker"}}}`)
			synctest.Wait()
			time.Sleep(time.Second)
			w.update(id, `{"who.2":{"action":"accept","content":{"name":"answer-marker"}}}`)
			synctest.Wait()
			if task := w.get(id); !task.IsOver() {
				t.Fatalf("%s: %+v", how, task)
			}
			time.Sleep(time.Second)
			digest := sha256.Sum256([]byte("rondo task id 1\x00" + id))
			if text := out.String(); strings.Contains(text, id) ||
				!strings.Contains(text, `"target":"`+hex.EncodeToString(digest[:4])) {
				t.Errorf("the log names the task %s otherwise: %s", id, text)
			}
		}
		text := out.String()
		for _, line := range strings.Split(text, "\n") {
			if strings.Contains(line, `"tasks/get"`) && !strings.Contains(line, `"level":"debug"`) {
				t.Errorf("a poll is noise: %s", line)
			}
			for _, what := range []string{"argument", "answer", "stray", "invalid", "memo",
				"question", "status", "result"} {
				if strings.Contains(line, what+"-marker") {
					t.Errorf("%s: %s", what, line)
				}
			}
		}
		for _, want := range []string{"tasks/update", "mcp.handler_failed", "mcp.answers_dropped"} {
			if !strings.Contains(text, want) {
				t.Errorf("the log has no %s: %s", want, text)
			}
		}
	})
}

type tenantKey struct{}

// Prepare precedes each run, which gets its values and is retried after its errors and panics;
// without permission there is no task.
func TestHooksOfTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prepared, allowed := 0, true
		w := newWorld(t, &tasks.Options{
			Prepare: func(ctx context.Context, info tasks.RunInfo) (context.Context,
				*server.Access, error) {
				switch prepared++; prepared {
				case 1:
					return nil, nil, errors.New("no token for now")
				case 2:
					panic("no token")
				}
				return context.WithValue(ctx, tenantKey{}, "of "+info.Tool),
					&server.Access{Scopes: []string{"fresh"}}, nil
			},
			Allowed: func(_ context.Context, p protocol.Principal, tool string) bool {
				return allowed && p == protocol.LocalPrincipal() && tool == "work"
			}})
		w.addTask(func(ctx context.Context, call *server.ToolCall) (outcome, error) {
			return server.Text(fmt.Sprint(ctx.Value(tenantKey{}), call.Access.Scopes)), nil
		})
		id := w.call("work", "")
		time.Sleep(time.Minute)
		done, ok := w.get(id).State.(protocol.TaskCompleted)
		if !ok || done.Result.Content[0].(*protocol.TextContent).Text != "of work[fresh]" {
			t.Errorf("%+v after %d", w.get(id).State, prepared)
		}
		allowed = false
		for _, method := range []string{"get", "update", "cancel"} {
			params := `"inputResponses":{},` + declared
			lost := w.ask("tasks/"+method, fmt.Sprintf(`"taskId":%q,%s`, id, params))
			none := w.ask("tasks/"+method, `"taskId":"nope",`+params)
			if lost.Error == nil || lost.Error.Error() != none.Error.Error() {
				t.Errorf("%s: %v, want %v", method, lost.Error, none.Error)
			}
		}
	})
}

// Polls slow down with a slow user, update times grow, a run ends with its task's life, and a
// result is kept for at least ten minutes.
func TestTimesOfATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &tasks.Options{TTL: func(string, protocol.Principal) time.Duration {
			return 20 * time.Minute
		}})
		ended := time.Duration(0)
		began := time.Now()
		w.addTask(func(ctx context.Context, c *server.ToolCall) (outcome, error) {
			if result, err := askForever(ctx, c); err != nil || string(c.Arguments) == "{}" {
				return result, err
			}
			<-ctx.Done()
			ended = time.Since(began)
			return nil, ctx.Err()
		})
		one, other := w.call("work", `,"arguments":{}`), w.call("work", `,"arguments":{"x":1}`)
		synctest.Wait()
		asked := w.get(one)
		time.Sleep(11 * time.Minute)
		slow := w.get(one)
		if asked.PollAfter != 5*time.Second || slow.PollAfter != 15*time.Second {
			t.Errorf("polls after %s, then %s", asked.PollAfter, slow.PollAfter)
		}
		time.Sleep(8 * time.Minute)
		for _, id := range []string{one, other} {
			w.update(id, `{"a":{"action":"accept","content":{"name":"B"}}}`)
		}
		synctest.Wait()
		done := w.get(one)
		if done.State.Status() != "completed" || !done.Updated.After(asked.Updated) ||
			done.Created.Add(done.TTL).Before(time.Now().Add(9*time.Minute)) {
			t.Errorf("%+v", done)
		}
		time.Sleep(9 * time.Minute)
		if kept := w.get(one); kept.State.Status() != "completed" {
			t.Errorf("%+v", kept)
		}
		if failed := w.get(other); failed.State.Status() != "failed" ||
			ended < 20*time.Minute || ended > 21*time.Minute {
			t.Errorf("%+v, the run ended after %s", failed, ended)
		}
	})
}

// A run's messages are cleaned, and stored once a second; its progress becomes a message.
func TestStatusMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaultyStore(store.NewMemoryTaskStore())
		w := newWorld(t, &tasks.Options{Store: s, Keys: testRing(t)})
		w.addTask(func(ctx context.Context, c *server.ToolCall) (outcome, error) {
			for _, say := range []func() error{
				func() error { tasks.StatusMessage(ctx, "a\x00\u0080\u009f\u00a0\x7f"); return nil },
				func() error { tasks.StatusMessage(ctx, strings.Repeat("é", 600)); return nil },
				func() error { return c.Progress(ctx, 1, 3, "one") },
				func() error { return c.Progress(ctx, 2, 3, "") },
				func() error { return c.Progress(ctx, 2.5, 0, "") },
			} {
				if err := say(); err != nil {
					return nil, err
				}
				time.Sleep(time.Second)
			}
			for i := range 100 {
				tasks.StatusMessage(ctx, fmt.Sprint(i))
			}
			time.Sleep(time.Second / 2)
			return server.Text("done"), nil
		})
		id := w.call("work", "")
		for _, want := range []string{"a   \u00a0 ", strings.Repeat("é", 512), "one", "2 of 3",
			"2.5", "0"} {
			synctest.Wait()
			if got := w.get(id); got.Message != want || got.IsOver() {
				t.Errorf("%+v, want %q", got, want)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := s.count("put"); n != 8 { // the key, six messages, and the result
			t.Errorf("%d writes", n)
		}
		w.want(id, "completed")
	})
}

// A cancellation on one replica survives a run on the other that stores all the time, even if
// storing fails for a while and the other lacks the newest key.
func TestCancelOfABusyRun(t *testing.T) {
	for _, ring := range []*keys.Keyring{newRing(t, "a"), newRing(t, "b", "a")} {
		synctest.Test(t, func(t *testing.T) {
			w, s := replicas(t, tasks.Options{}, taskTool, inTask(func(ctx context.Context,
				_ *server.ToolCall) (outcome, error) {
				for i := 0; ctx.Err() == nil && i < 1000; i++ {
					time.Sleep(70 * time.Millisecond)
					if _, err := roundtrip.Memo(ctx, fmt.Sprint(i), func(context.Context) (int,
						error) {
						return i, nil
					}); err != nil {
						return nil, err
					}
				}
				return nil, context.Cause(ctx)
			}))
			id := w[0].call("work", "")
			time.Sleep(5020 * time.Millisecond)
			other := newWorld(t, &tasks.Options{Store: s[1], Keys: ring})
			s[0].breakCalls("get")
			time.AfterFunc(2*time.Second, func() { s[0].breakCalls("") })
			other.ask("tasks/cancel", fmt.Sprintf(`"taskId":%q,%s`, id, declared))
			time.Sleep(5 * time.Second)
			if ring.Primary() != "a" {
				other.get(id)
				time.Sleep(time.Minute)
				other.get(id) // takes over
			}
			other.want(id, "cancelled")
		})
	}
}

// Checks of an event end with it; a question needs no checks.
func TestQuestionAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		w := newWorld(t, nil)
		w.addTask(func(ctx context.Context, c *server.ToolCall) (outcome, error) {
			runs++
			if err := roundtrip.AwaitEvent(ctx, "event", func(context.Context) (bool, error) {
				return runs >= 3, nil
			}); err != nil {
				return nil, err
			}
			return askForever(ctx, c)
		})
		id := w.call("work", "")
		time.Sleep(time.Minute)
		if state := w.get(id).State; state.Status() != "input_required" || runs != 3 {
			t.Errorf("%+v after %d runs", state, runs)
		}
	})
}

// A poll without the capability for questions does not see them.
func TestQuestionsNeedTheirCapability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.addTask(askForever)
		id := w.call("work", "")
		synctest.Wait()
		mute := strings.Replace(declared, `"elicitation":{},`, "", 1)
		resp := w.ask("tasks/get", fmt.Sprintf(`"taskId":%q,%s`, id, mute))
		if resp.Error == nil || resp.Error.Code != protocol.CodeMissingRequiredClientCapability ||
			!bytes.Contains(resp.Error.Data, []byte("elicitation")) {
			t.Errorf("%v %s", resp.Error, resp.Result)
		}
	})
}
