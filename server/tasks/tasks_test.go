package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

var noError = testkit.NoError

// A world is a server with tasks and its only client, in process.
type world struct {
	t     *testing.T
	srv   *server.Server
	tasks *tasks.Tasks
}

func newWorld(t *testing.T, opts *tasks.Options) *world {
	t.Helper()
	return newServerWorld(t, server.Options{}, opts)
}

func newServerWorld(t *testing.T, o server.Options, opts *tasks.Options) *world {
	t.Helper()
	o.Info = protocol.Implementation{Name: "x", Version: "1"}
	o.Roundtrip.MinHumanTime = -1
	srv, err := server.New(&o)
	noError(t, err)
	added, err := tasks.New(srv, opts)
	noError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		added.Shutdown(ctx)
		srv.Close()
	})
	return &world{t, srv, added}
}

const declared = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},` +
	`"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

const undeclared = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`

// ask sends a request, whose parameters are a JSON object without its braces.
func (w *world) ask(method, params string) *protocol.Response {
	w.t.Helper()
	return w.askAs(protocol.LocalPrincipal(), method, params)
}

func (w *world) askAs(p protocol.Principal, method, params string) *protocol.Response {
	w.t.Helper()
	id, _ := protocol.ParseID([]byte("1"))
	resp, err := w.srv.Handle(server.WithPrincipal(context.Background(), p), &protocol.Request{
		ID: id, Method: method, Params: json.RawMessage("{" + params + "}")}, deafBack{})
	noError(w.t, err)
	return resp
}

func (w *world) call(tool, more string) string {
	w.t.Helper()
	return w.idOf(w.ask("tools/call", fmt.Sprintf(`"name":%q%s,%s`, tool, more, declared)))
}

// round answers the first question of "work", and returns the members of its second request.
func (w *world) round() string {
	w.t.Helper()
	var asks struct{ RequestState string }
	resp := w.ask("tools/call", `"name":"work",`+declared)
	if err := json.Unmarshal(resp.Result, &asks); err != nil || asks.RequestState == "" {
		w.t.Fatalf("%v %s", err, resp.Result)
	}
	return fmt.Sprintf(`,"requestState":%q,"inputResponses":{"who":{"action":"accept",`+
		`"content":{"name":"A"}}}`, asks.RequestState)
}

func (w *world) idOf(resp *protocol.Response) string {
	w.t.Helper()
	if resp.Error != nil {
		w.t.Fatal(resp.Error)
	}
	result, err := protocol.DecodeResult(protocol.Latest, "tools/call", resp.Result)
	noError(w.t, err)
	handle, ok := result.(*protocol.CreateTaskResult)
	if !ok {
		w.t.Fatalf("no task: %s", resp.Result)
	}
	return handle.Task.ID
}

func (w *world) get(id string) *protocol.Task {
	w.t.Helper()
	resp := w.ask("tasks/get", fmt.Sprintf(`"taskId":%q,%s`, id, declared))
	if resp.Error != nil {
		w.t.Fatal(resp.Error)
	}
	result, err := protocol.DecodeResult(protocol.Latest, "tasks/get", resp.Result)
	if err != nil {
		w.t.Fatalf("%v: %s", err, resp.Result)
	}
	return &result.(*protocol.GetTaskResult).Task
}

func (w *world) want(id, status string) {
	w.t.Helper()
	if state := w.get(id).State; state.Status() != status {
		w.t.Errorf("%+v, want %s", state, status)
	}
}

func (w *world) update(id, responses string) {
	w.t.Helper()
	resp := w.ask("tasks/update",
		fmt.Sprintf(`"taskId":%q,"inputResponses":%s,%s`, id, responses, declared))
	if resp.Error != nil {
		w.t.Fatal(resp.Error)
	}
}

type deafBack struct{}

func (deafBack) Notify(context.Context, *protocol.Notification) error { return nil }

type name struct {
	Name string `json:"name"`
}

// The handler has a foreground question, a memo, a task, two questions and a commit.
func TestOneHandlerAsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		memos, commits := 0, 0
		server.AddRawTool(w.srv, server.Tool{Name: "work", Task: server.TaskCan},
			func(ctx context.Context, call *server.ToolCall) (outcome, error) {
				first, err := roundtrip.Ask[name](ctx, "who", "Who?")
				if err != nil {
					return nil, err
				}
				if err := roundtrip.BeginTask(ctx); err != nil {
					return nil, err
				}
				tasks.StatusMessage(ctx, "begun")
				memo, err := roundtrip.Memo(ctx, "m", func(context.Context) (int, error) {
					memos++
					return memos, nil
				})
				if err != nil {
					return nil, err
				}
				second, err := roundtrip.Ask[name](ctx, "a", "First?")
				if err != nil {
					return nil, err
				}
				third, err := roundtrip.Ask[name](ctx, "b", "Second, "+second.Name+"?")
				if err != nil {
					return nil, err
				}
				roundtrip.OnCommit(ctx, func(context.Context) { commits++ })
				return server.Text(fmt.Sprint(first.Name, second.Name, third.Name, memo)), nil
			})
		retry := w.round()
		id := w.call("work", retry)
		if again := w.call("work", retry); again != id {
			t.Errorf("the handle that was lost: %s, want %s", again, id)
		}
		synctest.Wait()
		for _, key := range []string{"a", "b"} {
			task := w.get(id)
			state, ok := task.State.(protocol.TaskInputRequired)
			if !ok || len(state.Requests) != 1 || state.Requests[0].Key != key {
				t.Fatalf("%+v", task)
			}
			if task.Message != "" {
				t.Errorf("it asks, and says %q as before", task.Message)
			}
			w.update(id, fmt.Sprintf(`{%q:{"action":"accept","content":{"name":%q}}}`, key,
				strings.ToUpper(key)))
			synctest.Wait()
			time.Sleep(time.Second)
		}
		task := w.get(id)
		done, ok := task.State.(protocol.TaskCompleted)
		if !ok {
			t.Fatalf("%+v", task.State)
		}
		if text := done.Result.Content[0].(*protocol.TextContent).Text; text != "AAB1" {
			t.Errorf("text %q", text)
		}
		if memos != 1 || commits != 1 {
			t.Errorf("%d memos, %d commits", memos, commits)
		}
		foreign := w.askAs(protocol.Principal{Issuer: "i", Subject: "s"}, "tasks/get",
			fmt.Sprintf(`"taskId":%q,%s`, id, declared))
		unknown := w.ask("tasks/get", `"taskId":"nope",`+declared)
		if foreign.Error == nil || unknown.Error == nil ||
			foreign.Error.Error() != unknown.Error.Error() {
			t.Errorf("%v, %v", foreign.Error, unknown.Error)
		}
		bare := w.ask("tasks/get", `"taskId":"nope",`+undeclared)
		if bare.Error == nil || bare.Error.Code != protocol.CodeMissingRequiredClientCapability {
			t.Errorf("%v", bare.Error)
		}
	})
}
