package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// A toldStore reports when a run has given up its task.
type toldStore struct {
	store.TaskStore
	given chan struct{}
	bytes int
}

func (s *toldStore) PutTask(ctx context.Context, task *store.Task, times store.TaskTimes) error {
	given, size := task.Holder == "", len(task.Record)
	err := s.TaskStore.PutTask(ctx, task, times)
	if given && err == nil && s.given != nil && task.Flow != task.ID {
		s.bytes += size
		s.given <- struct{}{}
	}
	return err
}

func benchServer(b *testing.B, s *toldStore, f toolFunc) (*server.Server,
	*tasks.Tasks) {
	b.Helper()
	srv, err := server.New(&server.Options{Roundtrip: roundtrip.Options{MinHumanTime: -1}})
	noError(b, err)
	added, err := tasks.New(srv, tasks.WithTasks(&tasks.Options{Store: s, Keys: testRing(b),
		TasksPerPrincipal: 1 << 20}, 1<<20))
	noError(b, err)
	server.AddRawTool(srv, taskTool, f)
	b.Cleanup(func() {
		added.Shutdown(canceled())
		srv.Close()
	})
	s.given = make(chan struct{}, 1<<20)
	return srv, added
}

func benchAsk(b *testing.B, srv *server.Server, method, params string) json.RawMessage {
	id, _ := protocol.ParseID([]byte("1"))
	resp, err := srv.Handle(server.WithPrincipal(context.Background(), protocol.LocalPrincipal()),
		&protocol.Request{ID: id, Method: method,
			Params: json.RawMessage("{" + params + "," + declared + "}")}, deafBack{})
	if err != nil || resp.Error != nil {
		b.Fatal(err, resp)
	}
	return resp.Result
}

func benchBegin(b *testing.B, srv *server.Server) string {
	var handle struct{ TaskID string }
	json.Unmarshal(benchAsk(b, srv, "tools/call", `"name":"work"`), &handle)
	return handle.TaskID
}

// BenchmarkReplay is one run of a task with that many answers in its journal, including its I/O.
func BenchmarkReplay(b *testing.B) {
	for _, answers := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("answers=%d", answers), func(b *testing.B) {
			s := &toldStore{TaskStore: store.NewMemoryTaskStore()}
			srv, added := benchServer(b, s, inTask(func(ctx context.Context,
				_ *server.ToolCall) (outcome, error) {
				for i := range answers {
					if _, err := roundtrip.Ask[name](ctx, fmt.Sprint(i), "Name?"); err != nil {
						return nil, err
					}
				}
				return nil, roundtrip.AwaitEvent(ctx, "never", func(context.Context) (bool, error) {
					return false, nil
				})
			}))
			id := benchBegin(b, srv)
			<-s.given
			for i := range answers {
				benchAsk(b, srv, "tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{"%d":`+
					`{"action":"accept","content":{"name":"B"}}}`, id, i))
				<-s.given
				if i%9 == 8 {
					time.Sleep(1100 * time.Millisecond) // the rate of updates is limited
				}
			}
			b.ResetTimer()
			for range b.N {
				noError(b, added.Wake(context.Background(), "never"))
				<-s.given
			}
		})
	}
}

func heapAndStacks() int {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

const waiting = 10_000

// BenchmarkWaitingTasks has 10,000 tasks wait for an answer.
func BenchmarkWaitingTasks(b *testing.B) {
	for range b.N {
		s := &toldStore{TaskStore: store.NewMemoryTaskStore()}
		srv, _ := benchServer(b, s, inTask(func(ctx context.Context,
			_ *server.ToolCall) (outcome, error) {
			for _, key := range []string{"a", "b"} {
				if _, err := roundtrip.Ask[name](ctx, key, "Name?"); err != nil {
					return nil, err
				}
			}
			return server.Text("done"), nil
		}))
		before := heapAndStacks()
		ids := make([]string, waiting)
		for i := range ids {
			ids[i] = benchBegin(b, srv)
			<-s.given
		}
		stored := s.bytes
		polls := time.Now()
		for _, id := range ids {
			benchAsk(b, srv, "tasks/get", fmt.Sprintf(`"taskId":%q`, id))
		}
		b.ReportMetric(waiting/time.Since(polls).Seconds(), "polls/s")
		took := make([]time.Duration, len(ids)/10)
		for i := range took {
			began := time.Now()
			benchAsk(b, srv, "tasks/update", fmt.Sprintf(
				`"taskId":%q,"inputResponses":{"a":{"action":"accept","content":{"name":"B"}}}`,
				ids[i]))
			<-s.given
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		all := heapAndStacks()
		s.TaskStore = store.NewMemoryTaskStore()
		b.ReportMetric(float64(heapAndStacks()-before)/waiting, "process-B/task")
		b.ReportMetric(float64(all-before)/waiting, "with-store-B/task")
		b.ReportMetric(float64(stored)/waiting, "record-B/task")
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), "next-p50-µs")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "next-p99-µs")
		runtime.KeepAlive(ids)
	}
}

// BenchmarkWaitingGoroutines is the same with handlers that wait in goroutines.
func BenchmarkWaitingGoroutines(b *testing.B) {
	for range b.N {
		answers, next := make(chan int), make(chan struct{})
		s := &toldStore{TaskStore: store.NewMemoryTaskStore()}
		srv, _ := benchServer(b, s, func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			<-answers
			next <- struct{}{}
			<-answers
			return server.Text("done"), nil
		})
		id, _ := protocol.ParseID([]byte("1"))
		before := heapAndStacks()
		for range waiting {
			go srv.Handle(context.Background(), &protocol.Request{ID: id, Method: "tools/call",
				Params: json.RawMessage(`{"name":"work",` + declared + "}")}, deafBack{})
		}
		time.Sleep(500 * time.Millisecond)
		b.ReportMetric(float64(heapAndStacks()-before)/waiting, "process-B/task")
		took := make([]time.Duration, waiting/10)
		for i := range took {
			began := time.Now()
			answers <- i
			<-next
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "next-p50-µs")
		b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "next-p99-µs")
		go func() {
			for range next {
			}
		}()
		close(answers)
		time.Sleep(500 * time.Millisecond)
		close(next)
	}
}
