package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
	"github.com/rondo-mcp/rondo/server/tasks"
)

type taskName struct {
	Name string `json:"name"`
}

// serveTask serves a tool that asks, becomes a task, asks twice and greets.
func serveTask(t *testing.T) *pipehttp.Server {
	t.Helper()
	srv, err := server.New(&server.Options{Roundtrip: roundtrip.Options{MinHumanTime: -1}})
	noError(t, err)
	added, err := tasks.New(srv, nil)
	noError(t, err)
	server.AddRawTool(srv, server.Tool{Name: "greet", Task: server.TaskCan},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			names := ""
			for _, key := range []string{"one", "two", "three"} {
				in, err := roundtrip.Ask[taskName](ctx, key, "Name "+key+"?")
				if err != nil {
					return nil, err
				}
				names += in.Name
				if key == "one" {
					if err := roundtrip.BeginTask(ctx); err != nil {
						return nil, err
					}
				}
			}
			return server.Text(names), nil
		})
	handler, err := serverhttp.New(srv, nil)
	noError(t, err)
	s := pipehttp.Serve(t, handler)
	t.Cleanup(func() {
		s.Close()
		_ = handler.Shutdown(context.Background())
		_ = added.Shutdown(context.Background())
		srv.Close()
	})
	return s
}

func dialTask(t *testing.T, s *pipehttp.Server, path string, tasks bool,
	asked *[]string) *client.Client {
	t.Helper()
	peer, err := clienthttp.New(pipehttp.URL+path, &clienthttp.Options{HTTPClient: s.Client()})
	noError(t, err)
	c, err := client.New(peer, &client.Options{Tasks: tasks,
		ElicitForm: func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			*asked = append(*asked, q.Key)
			return client.Accept(taskName{q.Key[:1]})
		}})
	noError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func textOf(t *testing.T, r *protocol.CallToolResult, err error) string {
	t.Helper()
	noError(t, err)
	return r.Content[0].(*protocol.TextContent).Text
}

func TestCallToolFollowsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveTask(t)
		for _, declares := range []bool{true, false} {
			var asked []string
			c := dialTask(t, s, "", declares, &asked)
			result, err := c.CallTool(t.Context(), "greet", nil)
			if text := textOf(t, result, err); text != "ott" || len(asked) != 3 {
				t.Errorf("declares %t: %q after %v", declares, text, asked)
			}
		}
	})
}

func TestTaskIsFollowedInAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveTask(t)
		var asked []string
		first := dialTask(t, s, "", true, &asked)
		done, task, err := first.BeginTask(t.Context(), &protocol.CallToolParams{Name: "greet"})
		if err != nil || done != nil {
			t.Fatal(done, err)
		}
		enough := errors.New("enough")
		var stored []byte
		_, err = first.FollowTask(t.Context(), task, func(task *client.Task) error {
			stored, err = json.Marshal(task)
			noError(t, err)
			return enough
		})
		if !errors.Is(err, enough) {
			t.Fatal(err)
		}
		first.Close()
		second := dialTask(t, s, "", true, &asked)
		var read client.Task
		noError(t, json.Unmarshal(stored, &read))
		result, err := second.FollowTask(t.Context(), &read, nil)
		if text := textOf(t, result, err); text != "ott" || len(asked) != 3 {
			t.Errorf("%q after %v", text, asked)
		}
		other := dialTask(t, s, "elsewhere", true, &asked)
		if _, err := other.FollowTask(t.Context(), &read, nil); err == nil {
			t.Error("a task of another server was followed")
		}
	})
}
