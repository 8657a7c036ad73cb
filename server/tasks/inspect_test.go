package tasks_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/inspection"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

func TestAnOperatorSeesWhichTasksWereTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end, come := make(chan bool), atomic.Bool{}
		w, s := replicas(t, tasks.Options{}, taskTool,
			inTask(func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
				select {
				case <-end:
					err := roundtrip.AwaitEvent(ctx, "e", func(context.Context) (bool, error) {
						return come.Load(), nil
					})
					return server.Text("done"), err
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}))
		want := func(replica int, cells ...string) {
			t.Helper()
			report := &inspection.Report{}
			w[replica].tasks.Inspect(inspection.With(t.Context(), report))
			rows := report.Tables[0].Rows
			if len(rows) != 1 || !strings.Contains(strings.Join(rows[0], "|"),
				strings.Join(cells, "|")) {
				t.Errorf("replica %d: got %q, want %q", replica, rows, cells)
			}
		}
		id := w[0].call("work", "")
		synctest.Wait()
		want(0, "the local caller", "runs", "", "0")
		s[0].kill(true)
		time.Sleep(41 * time.Second)
		w[1].get(id)
		synctest.Wait()
		want(1, "runs", "from a process that ended", "1")
		close(end)
		synctest.Wait()
		want(1, "waits", "from a process that ended", "1")
		come.Store(true)
		time.Sleep(time.Minute)
		want(1, "completed", "from a process that ended", "1")
		s[0].kill(false)
	})
}

func TestAnOperatorSeesWhichTasksWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &tasks.Options{Runs: 1})
		newGauge(w)
		w.take("ann", 10)
		synctest.Wait()
		w.take("bob", 10)
		for _, want := range []string{"queued, runs", "completed, runs",
			"completed, completed"} {
			synctest.Wait()
			report, seen := &inspection.Report{}, []string{}
			w.tasks.Inspect(inspection.With(t.Context(), report))
			for _, row := range report.Tables[0].Rows {
				seen = append(seen, row[4])
			}
			slices.Sort(seen)
			if got := strings.Join(seen, ", "); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			time.Sleep(10*time.Second + time.Millisecond)
		}
	})
}
