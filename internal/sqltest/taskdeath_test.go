package sqltest_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/sqlstore"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

const deathDir = "RONDO_TASK_DEATH_DIR"

// openDeathServer is one process on the database: its tool keeps a memo, asks, and takes its time
// at each step. What a handler was given is written down in a file.
func openDeathServer(t *testing.T, dir string) (*server.Server, *tasks.Tasks) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+dir+"/tasks.db?_pragma=busy_timeout(20000)"+
		"&_pragma=journal_mode(wal)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	createTables(t, db, sqlstore.SQLite)
	kept, err := sqlstore.New(t.Context(), db, &sqlstore.Options{Dialect: sqlstore.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keys.KeyringFromEnv(func(string) (string, bool) {
		return "a:" + strings.Repeat("MDEyMzQ1Njc4OTAx", 3) + "MDEyMzQ1Njc=", true
	}, "KEYS")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(&server.Options{
		Roundtrip: roundtrip.Options{Sealer: ring, Audience: "x", MinHumanTime: -1}})
	if err != nil {
		t.Fatal(err)
	}
	added, err := tasks.New(srv, &tasks.Options{Store: kept, Keys: ring, Lease: time.Second,
		Sweep: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	said, err := os.OpenFile(dir+"/said", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = said.Close() })
	server.AddRawTool(srv, server.Tool{Name: "work", Task: server.TaskMust}, func(
		ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
		if err := roundtrip.BeginTask(ctx); err != nil {
			return nil, err
		}
		key, err := roundtrip.IdempotencyKey(ctx, "effect")
		if err != nil {
			return nil, err
		}
		memo, err := roundtrip.Memo(ctx, "m", func(context.Context) (int, error) {
			return rand.Int(), nil
		})
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(said, "memo %s %d\n", key, memo)
		time.Sleep(100 * time.Millisecond)
		in, err := roundtrip.Ask[struct {
			Name string `json:"name"`
		}](ctx, "a", "Name?")
		if err != nil {
			return nil, err
		}
		time.Sleep(100 * time.Millisecond)
		roundtrip.OnCommit(ctx, func(context.Context) { fmt.Fprintf(said, "commit %s 0\n", key) })
		return server.Text(fmt.Sprintf("%s %s %d", in.Name, key, memo)), nil
	})
	return srv, added
}

// TestTaskProcess is a process that is killed, see [TestTasksOutliveProcesses].
func TestTaskProcess(t *testing.T) {
	dir := os.Getenv(deathDir)
	if dir == "" {
		t.Skip("run by another test")
	}
	openDeathServer(t, dir)
	time.Sleep(time.Hour)
}

// TestTasksOutliveProcesses kills one of two processes that run tasks again and again, while this
// one serves the client and runs nothing.
func TestTasksOutliveProcesses(t *testing.T) {
	dir := t.TempDir()
	srv, front := openDeathServer(t, dir)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	front.Shutdown(ended)
	start := func() *exec.Cmd {
		c := exec.Command(os.Args[0], "-test.run", "^TestTaskProcess$")
		c.Env = append(os.Environ(), deathDir+"="+dir)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	processes := []*exec.Cmd{start(), start()}
	kill := func(i int) {
		processes[i].Process.Kill()
		processes[i].Wait()
	}
	defer func() { kill(0); kill(1); srv.Close() }()
	ask := func(method, params string) json.RawMessage {
		id, _ := protocol.ParseID([]byte("1"))
		resp, err := srv.Handle(server.WithPrincipal(t.Context(), protocol.LocalPrincipal()),
			&protocol.Request{ID: id, Method: method, Params: json.RawMessage("{" + params +
				`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
				`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},` +
				`"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`)}, nil)
		if err != nil || resp.Error != nil {
			t.Fatalf("%s: %v %v", method, err, resp)
		}
		return resp.Result
	}
	open := map[string]bool{}
	for range 20 {
		var handle struct{ TaskID string }
		json.Unmarshal(ask("tools/call", `"name":"work"`), &handle)
		open[handle.TaskID] = false
	}
	kills, results := 0, map[string]bool{}
	for began := time.Now(); len(open) > 0; time.Sleep(700 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("%d of 20 tasks are not over", len(open))
		}
		for id, answered := range open {
			task, err := protocol.DecodeTask(ask("tasks/get", fmt.Sprintf(`"taskId":%q`, id)))
			if err != nil {
				t.Fatal(err)
			}
			switch state := task.State.(type) {
			case protocol.TaskInputRequired:
				if answered {
					t.Fatal("asked again")
				}
				ask("tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{"a":`+
					`{"action":"accept","content":{"name":"B"}}}`, id))
				open[id] = true
			case protocol.TaskCompleted:
				results[state.Result.Content[0].(*protocol.TextContent).Text] = true
				delete(open, id)
			case protocol.TaskFailed, protocol.TaskCancelled:
				t.Fatalf("%+v", state)
			}
		}
		if i := rand.N(2); kills < 12 {
			kill(i)
			processes[i] = start()
			kills++
		}
	}
	said, _ := os.ReadFile(dir + "/said")
	memos, commits := map[string]string{}, map[string]int{}
	for line := range strings.Lines(string(said)) {
		var what, key, value string
		fmt.Sscan(line, &what, &key, &value)
		if old := memos[key]; what == "memo" && old != "" && old != value {
			t.Errorf("memo %s after %s", value, old)
		}
		if what == "memo" {
			memos[key] = value
		} else if commits[key]++; commits[key] > 1 {
			t.Error("committed twice")
		}
	}
	for key, value := range memos {
		if !results["B "+key+" "+value] {
			t.Error("a result is missing")
		}
	}
	t.Logf("%d kills, %d runs, %d results, %d commits", kills,
		strings.Count(string(said), "memo"), len(results), len(commits))
}
