package tasks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// TestMustInSession: where no client can declare the extension, a tool that must be a task is
// listed, asks, and runs in the foreground.
func TestMustInSession(t *testing.T) {
	w := newWorld(t, nil)
	server.AddRawTool(w.srv, server.Tool{Name: "work", Task: server.TaskMust}, inTask(askName))
	handler, err := serverhttp.New(w.srv, nil)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	defer web.Close()
	peer, err := clienthttp.New(web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(peer, &client.Options{Era: protocol.Legacy, Tasks: true,
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(name{"Ada"})
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.srv.Close() }() // before web, which waits for the session
	defer func() { _ = c.Close() }()
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

// askName says who was named, and whether it runs in a task.
func askName(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	who, err := roundtrip.Ask[name](ctx, "who", "Who?")
	if err != nil {
		return nil, err
	}
	return server.Text(fmt.Sprint(who.Name, " ", roundtrip.InTask(ctx))), nil
}

// TestBeginTaskInPrompt: no prompt is a task, whatever its client can handle.
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

// A safeBuffer may be written to and read at once.
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

// TestLogTellsNoAnswers searches the log of tasks that ask, fail and complete, at its lowest level.
func TestLogTellsNoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &safeBuffer{}
		log := middleware.NewLog(zaplog.New(zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(
			zap.NewProductionEncoderConfig()), zapcore.AddSync(out), zap.DebugLevel))), nil)
		w := newServerWorld(t, server.Options{Observer: log,
			Middleware: []server.Middleware{log.Wrap}}, &tasks.Options{Observer: log})
		var how string
		server.AddRawTool(w.srv, taskTool, inTask(func(ctx context.Context,
			call *server.ToolCall) (protocol.CallToolOutcome, error) {
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
		}))
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
		}
		text := out.String()
		for _, line := range strings.Split(text, "\n") {
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
