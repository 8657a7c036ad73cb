package roundtriptest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// newReindexing returns a server whose tool asks in the foreground, keeps a memo, begins a task,
// asks twice and commits. Each run repeats its reports, which are no progress.
func newReindexing(mode server.TaskMode, effects *roundtriptest.Effects) (*server.Server, error) {
	srv, err := server.New(nil)
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "reindex", Task: mode},
		func(ctx context.Context, _ *server.ToolCall, in Deploy) (protocol.CallToolOutcome, error) {
			region, err := roundtrip.Ask[Region](ctx, "region", "Which region?")
			if err != nil {
				return nil, err
			}
			if err := roundtrip.BeginTask(ctx); err != nil {
				return nil, err
			}
			tasks.StatusMessage(ctx, "begun")
			n, err := roundtrip.Memo(ctx, "count", func(context.Context) (int, error) {
				effects.Mark("count")
				return 42, nil
			})
			if err != nil {
				return nil, err
			}
			sure, err := roundtrip.Ask[Confirmation](ctx, "sure", "Reindex "+strconv.Itoa(n)+"?")
			if err != nil {
				return nil, err
			}
			when, err := roundtrip.Ask[Confirmation](ctx, "when", sure.Reason+": when?")
			if err != nil {
				return nil, err
			}
			roundtrip.OnCommit(ctx, func(context.Context) { effects.Mark("commit") })
			return server.Text(in.Env + " in " + region.Name + " " + when.Reason), nil
		})
	return srv, nil
}

func reindexing() roundtriptest.Flow {
	return roundtriptest.Flow{Name: "reindex",
		Request: roundtriptest.Tool("reindex", Deploy{"prod"}),
		Answers: roundtriptest.Answers{"region": roundtriptest.Accept(Region{"eu"}),
			"sure": because("tested"), "when": because("tonight")},
		Want: "prod in eu tonight"}
}

// TestRunPlaysTasks kills the process between any two steps.
func TestRunPlaysTasks(t *testing.T) {
	for _, mode := range []server.TaskMode{server.TaskCan, server.TaskMust} {
		for _, lines := range []bool{true, false} {
			t.Run(fmt.Sprintf("must %v, lines %v", mode == server.TaskMust, lines),
				func(t *testing.T) {
					t.Parallel() // its client waits between polls
					checkTasks(t, mode, lines)
				})
		}
	}
}

func checkTasks(t *testing.T, mode server.TaskMode, lines bool) {
	kept, effects := &roundtriptest.Tasks{}, &roundtriptest.Effects{}
	processes := atomic.Int64{}
	newServer := func() (*server.Server, error) {
		processes.Add(1)
		srv, err := newReindexing(mode, effects)
		if err == nil {
			err = kept.AddTo(srv, nil)
		}
		return srv, err
	}
	subject := roundtriptest.Server(newServer)
	if !lines {
		subject = roundtriptest.Handler(func() (http.Handler, error) {
			srv, err := newServer()
			if err != nil {
				return nil, err
			}
			return serverhttp.New(srv, nil)
		})
	}
	subject.Effects, subject.Tasks = effects, kept
	declined := reindexing()
	declined.Name, declined.Want, declined.Fails = "declined", "", "sure"
	declined.Never = []string{"commit"}
	declined.Answers = roundtriptest.Answers{
		"region": roundtriptest.Accept(Region{"eu"}), "sure": roundtriptest.Decline()}
	roundtriptest.Run(t, subject, reindexing(), declined)
	t.Logf("%d processes", processes.Load())
	if n := processes.Load(); n < 20 {
		t.Errorf("%d processes: they were not killed", n)
	}
}

// TestWhatRunFindsInTasks runs handlers that work in the foreground, but not as tasks.
func TestWhatRunFindsInTasks(t *testing.T) {
	handlers := map[string]func(ctx context.Context, effects *roundtriptest.Effects) error{
		"once in the foreground": func(ctx context.Context, effects *roundtriptest.Effects) error {
			effects.Mark("charge")
			_, err := roundtrip.Memo(ctx, "m", func(context.Context) (int, error) { return 1, nil })
			return err
		},
		"not answered as": func(ctx context.Context, _ *roundtriptest.Effects) error {
			if roundtrip.InTask(ctx) {
				return errors.New("no")
			}
			return nil
		},
		"asks what a call": func(ctx context.Context, _ *roundtriptest.Effects) error {
			if !roundtrip.InTask(ctx) {
				return nil
			}
			_, err := roundtrip.Ask[Confirmation](ctx, "more", "Once more?")
			return err
		},
	}
	want := map[string]string{"once in the foreground": `"charge" happened 2 times`,
		"not answered as": "error: no", "asks what a call": `"more" has no answer`}
	for name, handler := range handlers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept, effects := &roundtriptest.Tasks{}, &roundtriptest.Effects{}
			subject := roundtriptest.Server(func() (*server.Server, error) {
				srv, err := server.New(nil)
				if err != nil {
					return nil, err
				}
				server.AddRawTool(srv, server.Tool{Name: "x", Task: server.TaskCan}, func(
					ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
					if err := roundtrip.BeginTask(ctx); err != nil {
						return nil, err
					}
					_, err := roundtrip.Ask[Confirmation](ctx, "sure", "Sure?")
					if err != nil {
						return nil, err
					}
					if err := handler(ctx, effects); err != nil {
						return nil, err
					}
					return server.Text("done"), nil
				})
				return srv, kept.AddTo(srv, nil)
			})
			subject.Effects, subject.Tasks = effects, kept
			problems := errors.Join(roundtriptest.FindTaskProblems(t, subject, roundtriptest.Flow{
				Request: roundtriptest.Tool("x", nil), Want: "done",
				Answers: roundtriptest.Answers{"sure": because("tested")}})...)
			if problems == nil || !strings.Contains(problems.Error(), want[name]) {
				t.Errorf("found %v, want %s", problems, want[name])
			}
		})
	}
}
