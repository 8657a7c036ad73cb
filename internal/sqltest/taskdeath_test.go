package sqltest_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/chaos"
	"github.com/rondo-mcp/rondo/roundtrip/sqlstore"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

func openGuard(ctx context.Context, url string) (store.Guard, error) {
	return openShared(ctx, url)
}

func openTasks(ctx context.Context, address string) (store.TaskStore, error) {
	return openShared(ctx, address)
}

func openLinks(ctx context.Context, address string) (chaos.LinkStore, error) {
	return openShared(ctx, address)
}

func openShared(ctx context.Context, address string) (*sqlstore.Store, error) {
	driver, opts := "sqlite", &sqlstore.Options{Dialect: sqlstore.SQLite}
	if strings.HasPrefix(address, "postgres:") {
		driver, opts = "pgx", nil
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(20) // for three replicas, of PostgreSQL's 100
	s, err := sqlstore.New(ctx, db, opts)
	if err != nil {
		_ = db.Close()
	}
	return s, err
}

// newTaskFile returns the address of an SQLite file with the tables, for several processes.
func newTaskFile(t *testing.T) (address string) {
	t.Helper()
	address = "file:" + filepath.Join(t.TempDir(), "tasks.db") +
		"?_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)&_txlock=immediate"
	db, err := sql.Open("sqlite", address)
	noError(t, err)
	defer db.Close()
	createTables(t, db, sqlstore.SQLite)
	return address
}

// TestTasksOutliveReplicas kills the processes that run tasks on one SQLite file.
func TestTasksOutliveReplicas(t *testing.T) {
	chaos.RunTasks(t, chaos.Plan{Flows: 20, Questions: 2, Store: newTaskFile(t),
		Every: 700 * time.Millisecond, Length: 12 * time.Second})
}

// TestATaskThatAlwaysDiesIsStopped stops a task whose process dies, whatever it reports before.
func TestATaskThatAlwaysDiesIsStopped(t *testing.T) {
	for _, talks := range []bool{false, true} {
		t.Run(fmt.Sprintf("talks %t", talks), func(t *testing.T) {
			t.Parallel() // it waits for leases
			chaos.RunDeaths(t, newTaskFile(t), talks)
		})
	}
}
