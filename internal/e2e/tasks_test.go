package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// taskVar makes of the test binary a server on standard input and output.
const taskVar = "RONDO_E2E_TASKS"

// newTaskServer has the one handler that is played in all ways.
func newTaskServer() (*server.Server, error) {
	srv, err := server.New(nil)
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "migrate", Task: server.TaskCan}, migrate)
	return srv, nil
}

// migrate asks in the foreground, keeps a memo, begins a task, asks twice and commits. Its result
// tells what was committed: the memo has it from the run that computed it.
func migrate(ctx context.Context, call *server.ToolCall, _ struct{}) (
	protocol.CallToolOutcome, error) {
	_ = call.Progress(ctx, 1, 3, "begun")
	where, err := roundtrip.Ask[region](ctx, "region", "Which region?")
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
	sure, err := roundtrip.Ask[confirmation](ctx, "sure", fmt.Sprintf("Move %d rows?", rows))
	if err != nil {
		return nil, err
	}
	again, err := roundtrip.Ask[confirmation](ctx, "again", "Because "+sure.Reason+"?")
	if err != nil {
		return nil, err
	}
	roundtrip.OnCommit(ctx, func(context.Context) {})
	return server.Text(where.Name + ": " + again.Reason), nil
}

// runTaskServer is the main function of the process on standard input and output.
func runTaskServer() int {
	srv, err := newTaskServer()
	if err == nil {
		_, err = tasks.New(srv, nil)
	}
	if err == nil {
		err = srv.ServeStdio(context.Background())
	}
	if err != nil {
		return 1
	}
	return 0
}

// mediaTypes records the types of the responses to calls of tools.
type mediaTypes struct {
	mu   sync.Mutex
	seen []string
}

func (m *mediaTypes) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && r.Header.Get("Mcp-Method") == protocol.MethodCallTool {
		m.mu.Lock()
		m.seen = append(m.seen, resp.Header.Get("Content-Type"))
		m.mu.Unlock()
	}
	return resp, err
}

// TestOneHandlerInAllWays plays the handler as a task over all transports, without tasks, and in a
// session: the questions and the result are the same.
func TestOneHandlerInAllWays(t *testing.T) {
	dialHTTP := func(t *testing.T, types *mediaTypes) protocol.Peer {
		srv, err := newTaskServer()
		if err != nil {
			t.Fatal(err)
		}
		added, err := tasks.New(srv, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = added.Shutdown(context.Background()) })
		web := httptest.NewServer(servertest.NewHandler(t, srv, &serverhttp.Options{}))
		t.Cleanup(web.Close)
		peer, err := clienthttp.New(web.URL,
			&clienthttp.Options{HTTPClient: &http.Client{Transport: types}})
		if err != nil {
			t.Fatal(err)
		}
		return peer
	}
	inSession := client.Options{Era: protocol.Legacy, Tasks: true}
	ways := map[string]struct {
		opts  client.Options
		media string
		task  bool
		dial  func(t *testing.T) protocol.Peer
	}{
		"task over HTTP, JSON":       {client.Options{Tasks: true}, "application/json", true, nil},
		"task over HTTP, SSE":        {client.Options{Tasks: true}, "text/event-stream", true, nil},
		"no extension":               {client.Options{}, "application/json", false, nil},
		"session":                    {inSession, "", false, nil},
		"task over stdio":            {client.Options{Tasks: true}, "", true, dialStdio},
		"session over stdio":         {inSession, "", false, dialStdio},
		"task in process":            {client.Options{Tasks: true}, "", true, dialInProcess},
		"in process, no extension":   {client.Options{}, "", false, dialInProcess},
		"stdio without an extension": {client.Options{}, "", false, dialStdio},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			types := &mediaTypes{}
			dial := way.dial
			if dial == nil {
				dial = func(t *testing.T) protocol.Peer { return dialHTTP(t, types) }
			}
			var asked []string
			opts := way.opts
			opts.ElicitForm = func(_ context.Context, q *client.FormQuestion) (
				*protocol.ElicitResult, error) {
				asked = append(asked, q.Message)
				if len(asked) == 1 {
					return client.Accept(region{Name: "eu"})
				}
				return client.Accept(confirmation{Reason: fmt.Sprintf("reason %d", len(asked))})
			}
			if way.media == "text/event-stream" {
				opts.Progress = func(context.Context, *protocol.Progress) {}
			}
			c, err := client.New(dial(t), &opts)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			result, handle, err := beginMigration(t, c, way.opts.Tasks)
			if err != nil || way.task != (handle != nil) {
				t.Fatalf("handle %v, %v", handle, err)
			}
			if handle != nil {
				if result, err = c.FollowTask(t.Context(), handle, nil); err != nil {
					t.Fatal(err)
				}
			}
			want := []string{"Which region?", "Move 42 rows?", "Because reason 2?"}
			if !slices.Equal(asked, want) || textOf(result.Content) != "eu: reason 3" {
				t.Errorf("asked %q, got %q", asked, textOf(result.Content))
			}
			for _, media := range types.seen {
				if way.media != "" && !strings.HasPrefix(media, way.media) {
					t.Errorf("media types %q, want %s", types.seen, way.media)
				}
			}
		})
	}
}

func beginMigration(t *testing.T, c *client.Client, asTask bool) (
	*protocol.CallToolResult, *client.Task, error) {
	if asTask {
		return c.BeginTask(t.Context(), &protocol.CallToolParams{Name: "migrate",
			Arguments: []byte("{}")})
	}
	result, err := c.CallTool(t.Context(), "migrate", nil)
	return result, nil, err
}

func dialStdio(t *testing.T) protocol.Peer {
	process, err := client.Command(servertest.Self(t, taskVar+"=1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Close() })
	return process
}

func dialInProcess(t *testing.T) protocol.Peer {
	srv, err := newTaskServer()
	if err != nil {
		t.Fatal(err)
	}
	added, err := tasks.New(srv, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = added.Shutdown(context.Background()) })
	return srv
}

// TestOneHandlerInTheTestKit plays it with a process that dies at every step.
func TestOneHandlerInTheTestKit(t *testing.T) {
	kept := &roundtriptest.Tasks{}
	subject := roundtriptest.Server(func() (*server.Server, error) {
		srv, err := newTaskServer()
		if err == nil {
			err = kept.AddTo(srv, nil)
		}
		return srv, err
	})
	subject.Tasks = kept
	reason := func(text string) roundtriptest.Answer {
		return roundtriptest.Accept(confirmation{Reason: text})
	}
	roundtriptest.Run(t, subject, roundtriptest.Flow{Name: "migrate",
		Request: roundtriptest.Tool("migrate", struct{}{}),
		Answers: roundtriptest.Answers{"region": roundtriptest.Accept(region{Name: "eu"}),
			"sure": reason("reason 2"), "again": reason("reason 3")},
		Want: "eu: reason 3"})
}
