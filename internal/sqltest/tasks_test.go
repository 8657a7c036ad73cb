package sqltest_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/sqlstore"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// A recorder notes all that is passed to a task store.
type recorder struct {
	store.TaskStore
	mu   sync.Mutex
	text strings.Builder
	last []byte // the last accepted record
}

func (r *recorder) note(task *store.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.text, "%s %s %s %s %s %s\n", task.ID[:], task.Flow[:], task.Owner[:], task.Wakes,
		task.Holder, task.Record)
}

func (r *recorder) noteKept(task *store.Task, err error) error {
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.last = append([]byte(nil), task.Record...)
	}
	return err
}

func (r *recorder) CreateTask(ctx context.Context, task *store.Task, times store.TaskTimes,
	room store.TaskRoom) error {
	r.note(task)
	return r.noteKept(task, r.TaskStore.CreateTask(ctx, task, times, room))
}

func (r *recorder) PutTask(ctx context.Context, task *store.Task, times store.TaskTimes) error {
	r.note(task)
	return r.noteKept(task, r.TaskStore.PutTask(ctx, task, times))
}

func (r *recorder) read() (all, lastRecord string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String(), string(r.last)
}

// A taskServer is one process of a server with tasks, and its client.
type taskServer struct {
	t     *testing.T
	srv   *server.Server
	tasks *tasks.Tasks
}

func startTaskServer(t *testing.T, s store.TaskStore, ring *keys.Keyring) *taskServer {
	t.Helper()
	srv, err := server.New(&server.Options{Info: protocol.Implementation{Name: "x", Version: "1"},
		Roundtrip: roundtrip.Options{MinHumanTime: -1}})
	noError(t, err)
	server.AddRawTool(srv, server.Tool{Name: "work", Task: server.TaskMust},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			if err := roundtrip.BeginTask(ctx); err != nil {
				return nil, err
			}
			memo, err := roundtrip.Memo(ctx, "m", func(context.Context) (string, error) {
				return "memo-marker", nil
			})
			if err != nil {
				return nil, err
			}
			answer, err := roundtrip.Ask[struct {
				Name string `json:"name"`
			}](ctx, "who", "Who? question-marker")
			if err != nil {
				return nil, err
			}
			if answer.Name == "" || !strings.Contains(string(call.Arguments), "argument-marker") {
				return server.Text("lost"), nil
			}
			return server.Text("result-marker " + memo), nil
		})
	added, err := tasks.New(srv, &tasks.Options{Store: s, Keys: ring})
	noError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = added.Shutdown(ctx)
		_ = srv.Close()
	})
	return &taskServer{t, srv, added}
}

func (s *taskServer) ask(method, params string) (result struct {
	TaskID, Status string
	InputRequests  map[string]any
	Result         struct{ Content []struct{ Text string } }
}) {
	s.t.Helper()
	id, _ := protocol.ParseID([]byte("1"))
	p := protocol.Principal{Issuer: "issuer-marker", Subject: "subject-marker"}
	resp, err := s.srv.Handle(server.WithPrincipal(s.t.Context(), p), &protocol.Request{ID: id,
		Method: method, Params: json.RawMessage(`{` + params + `,"_meta":{` +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},` +
			`"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`)}, nil)
	if err == nil && resp.Error != nil {
		err = resp.Error
	}
	if err == nil {
		err = json.Unmarshal(resp.Result, &result)
	}
	if err != nil {
		s.t.Fatalf("%s: %v", method, err)
	}
	return result
}

func (s *taskServer) await(id, status string) (text string) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		got := s.ask("tasks/get", fmt.Sprintf(`"taskId":%q`, id))
		if got.Status == status {
			for _, block := range got.Result.Content {
				text += block.Text
			}
			return text
		}
		if time.Now().After(end) {
			s.t.Fatalf("the task is %q, want %q", got.Status, status)
		}
	}
}

// testTaskGoesOn begins a task in one process and ends it in another with the same store and keys.
// All personal data in the store is sealed, throughout. The function at reads the stored data.
func testTaskGoesOn(t *testing.T, a, b store.TaskStore, at func(t *testing.T) string) {
	key, err := keys.NewKey("k", []byte(strings.Repeat("secret k", 8)))
	noError(t, err)
	ring, err := keys.NewKeyring(key)
	noError(t, err)
	ra, rb := &recorder{TaskStore: a}, &recorder{TaskStore: b}
	check := func(r *recorder) {
		t.Helper()
		all, last := r.read()
		if at != nil {
			rest := at(t)
			if len(last) < 100 || !strings.Contains(rest, last[:40]) {
				t.Errorf("the last record, of %d bytes, is not in %d bytes", len(last), len(rest))
			}
			all += rest
		}
		for _, marker := range []string{"argument-", "answer-", "memo-", "question-", "result-",
			"issuer-", "subject-"} {
			if strings.Contains(all, marker+"marker") {
				t.Errorf("%smarker is in the clear", marker)
			}
		}
	}
	first := startTaskServer(t, ra, ring)
	id := first.ask("tools/call", `"name":"work","arguments":{"x":"argument-marker"}`).TaskID
	first.await(id, "input_required")
	check(ra)
	if err := first.srv.Close(); err != nil { // without Shutdown of the tasks
		t.Fatal(err)
	}
	second := startTaskServer(t, rb, ring)
	second.ask("tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{"who":`+
		`{"action":"accept","content":{"name":"answer-marker"}}}`, id))
	check(rb)
	if got := second.await(id, "completed"); got != "result-marker memo-marker" {
		t.Errorf("the result is %q", got)
	}
	check(rb)
}

func TestTaskGoesOnInMemory(t *testing.T) {
	s := store.NewMemoryTaskStore()
	testTaskGoesOn(t, s, s, nil)
}

func TestTaskGoesOnInSQLite(t *testing.T) {
	db, reopen := newSQLite(t)
	opts := sqlstore.Options{Dialect: sqlstore.SQLite}
	testTaskGoesOn(t, newStore(t, db, opts), newStore(t, reopen(t, ""), opts),
		func(t *testing.T) string { return readFiles(t, db) })
}

// readFiles returns the bytes of an SQLite database and its journal.
func readFiles(t *testing.T, db *sql.DB) (all string) {
	t.Helper()
	var file string
	err := db.QueryRowContext(t.Context(),
		"select file from pragma_database_list where name = 'main'").Scan(&file)
	noError(t, err)
	for _, name := range []string{file, file + "-wal"} {
		text, err := os.ReadFile(name)
		noError(t, err)
		all += string(text)
	}
	return all
}
