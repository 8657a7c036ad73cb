package sqltest_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/rondo-mcp/rondo/internal/testing/chaos"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/roundtrip/sqlstore"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/roundtrip/store/storetest"
)

// newSQLite returns a database with the tables in a new file, and a function to reopen it.
func newSQLite(t *testing.T) (db *sql.DB, reopen func(t *testing.T, more string) *sql.DB) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "store.db")
	reopen = func(t *testing.T, more string) *sql.DB {
		db, err := sql.Open("sqlite", "file:"+file+
			"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)"+more)
		noError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	db = reopen(t, "")
	createTables(t, db, sqlstore.SQLite)
	return db, reopen
}

func createTables(t *testing.T, db *sql.DB, d sqlstore.Dialect) {
	t.Helper()
	for range 2 { // the second changes nothing
		noError(t, sqlstore.CreateTables(t.Context(), db, d))
	}
}

func mustExec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func newStore(t *testing.T, db *sql.DB, opts sqlstore.Options) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.New(t.Context(), db, &opts)
	noError(t, err)
	return s
}

const taskBytes = 1 << 20

func contract(d sqlstore.Dialect, open func(t *testing.T) (db *sql.DB,
	reopen func(t *testing.T) *sql.DB)) *storetest.Options {
	opts := sqlstore.Options{Dialect: d, MaxEntries: 40}
	return &storetest.Options{Open: func(t *testing.T) *storetest.Store {
		db, reopen := open(t)
		return &storetest.Store{
			Guard:  func(t *testing.T) store.Guard { return newStore(t, reopen(t), opts) },
			States: func(t *testing.T) store.StateStore { return newStore(t, reopen(t), opts) },
			ExpireLeases: func(t *testing.T) {
				mustExec(t, db, "update rondo_claims set lease = 0")
			},
			Tasks: func(t *testing.T) store.TaskStore {
				taskOpts := opts
				taskOpts.MaxBytes = taskBytes
				return newStore(t, reopen(t), taskOpts)
			},
			Entries: 40, Skew: clockSkew, TaskBytes: taskBytes,
		}
	}}
}

func onSQLite() *storetest.Options {
	return contract(sqlstore.SQLite, func(t *testing.T) (*sql.DB, func(*testing.T) *sql.DB) {
		db, reopen := newSQLite(t)
		return db, func(t *testing.T) *sql.DB { return reopen(t, "") }
	})
}

var noError = testkit.NoError

func TestMain(m *testing.M) {
	if chaos.ServeReplica(chaos.Stores{Guard: openGuard, Tasks: openTasks, Links: openLinks}) {
		return
	}
	testkit.Main(m)
}

func TestSQLiteGuard(t *testing.T)      { storetest.TestGuard(t, onSQLite()) }
func TestSQLiteStateStore(t *testing.T) { storetest.TestStateStore(t, onSQLite()) }
func TestSQLiteTaskStore(t *testing.T)  { storetest.TestTaskStore(t, onSQLite()) }

func TestSQLiteTables(t *testing.T) {
	testTables(t, sqlstore.SQLite, func(t *testing.T) *sql.DB { db, _ := newSQLite(t); return db })
}

func TestSQLiteRows(t *testing.T) {
	testRows(t, sqlstore.SQLite, func(t *testing.T) *sql.DB { db, _ := newSQLite(t); return db })
}

// TestSQLiteThatCannotBeTrusted: a database that is read-only or loses data in a crash is refused
// at the start; a full database refuses claims, and returns what it has.
func TestSQLiteThatCannotBeTrusted(t *testing.T) {
	db, reopen := newSQLite(t)
	for name, more := range map[string]string{
		"write":       "&mode=ro",
		"synchronous": "&_pragma=synchronous(off)",
		"not full":    "&_pragma=synchronous(normal)",
	} {
		_, err := sqlstore.New(t.Context(), reopen(t, more),
			&sqlstore.Options{Dialect: sqlstore.SQLite})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", more, err)
		}
	}
	full := reopen(t, "")
	full.SetMaxOpenConns(1)
	s := newStore(t, full, sqlstore.Options{Dialect: sqlstore.SQLite})
	if _, err := s.Claim(t.Context(), "before", "", answers, inAnHour()); err != nil {
		t.Fatal(err)
	}
	mustExec(t, full, "pragma max_page_count = 1")
	refused := 0
	for n := range 1000 {
		id := strings.Repeat("x", n)
		if _, err := s.Claim(t.Context(), id, "", answers, inAnHour()); err != nil {
			if _, spent := errors.AsType[*store.SpentError](err); spent {
				t.Fatalf("a full database calls a free state spent: %v", err)
			}
			refused++
			break
		}
	}
	if refused == 0 {
		t.Error("a full database took 1,000 claims")
	}
	_, err := newStoreOf(t, db).Claim(t.Context(), "before", "", answers, inAnHour())
	if _, spent := errors.AsType[*store.SpentError](err); !spent {
		t.Errorf("a claim in a full database is lost: %v", err)
	}
}

func newStoreOf(t *testing.T, db *sql.DB) *sqlstore.Store {
	return newStore(t, db, sqlstore.Options{Dialect: sqlstore.SQLite})
}
