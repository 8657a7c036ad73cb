//go:build postgres

package sqltest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/sqlstore"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/roundtrip/store/storetest"
)

func (c *cluster) withTables(t *testing.T) (db *sql.DB, name string) {
	t.Helper()
	name = c.create(t)
	db = c.connect(t, name)
	createTables(t, db, sqlstore.PostgreSQL)
	return db, name
}

func TestPostgres(t *testing.T) {
	c := startPostgres(t)
	fresh := func(t *testing.T) *sql.DB { db, _ := c.withTables(t); return db }
	opts := contract(sqlstore.PostgreSQL, func(t *testing.T) (*sql.DB, func(*testing.T) *sql.DB) {
		db, name := c.withTables(t)
		return db, func(t *testing.T) *sql.DB { return c.connect(t, name) }
	})
	t.Run("guard", func(t *testing.T) { storetest.TestGuard(t, opts) })
	t.Run("states", func(t *testing.T) { storetest.TestStateStore(t, opts) })
	t.Run("tasks", func(t *testing.T) { storetest.TestTaskStore(t, opts) })
	t.Run("a task that goes on", func(t *testing.T) {
		db, name := c.withTables(t)
		testTaskGoesOn(t, newStore(t, db, sqlstore.Options{}),
			newStore(t, c.connect(t, name), sqlstore.Options{}), nil)
	})
	t.Run("visit", func(t *testing.T) {
		db, name := c.withTables(t)
		testVisit(t, newStore(t, db, sqlstore.Options{}),
			newStore(t, c.connect(t, name), sqlstore.Options{}), func(t *testing.T) (rows string) {
				noError(t, db.QueryRowContext(t.Context(), "select string_agg("+
					"key || owner || encode(state, 'escape'), ' ') from rondo_states").Scan(
					&rows))
				return rows
			})
	})
	t.Run("tables", func(t *testing.T) { testTables(t, sqlstore.PostgreSQL, fresh) })
	t.Run("rows", func(t *testing.T) { testRows(t, sqlstore.PostgreSQL, fresh) })
	t.Run("settings", func(t *testing.T) { testSettings(t, c) })
	t.Run("read-only", func(t *testing.T) { testReadOnly(t, fresh(t)) })
	t.Run("isolation", func(t *testing.T) { testIsolation(t, c) })
	t.Run("tables made by many", func(t *testing.T) { testCreateOverlapping(t, c) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, c) })
	t.Run("kill", func(t *testing.T) { testKill(t, c) })
}

// testRefusals checks that neither refusals nor acceptances read other owners' rows.
func testRefusals(t *testing.T, c *cluster) {
	const rows, calls = 300_000, 20
	db, name := c.withTables(t)
	mustExec(t, db, fmt.Sprintf(`insert into rondo_claims
		select 'rondo', 'k' || n, 'somebody', 2, '', '', 0, 9e15, null
		from generate_series(1, %d) n`, rows))
	mustExec(t, db, fmt.Sprintf("insert into rondo_usage values "+
		"('rondo', 'guard', '*', %d, 0)", rows))
	mustExec(t, db, "vacuum analyze rondo_claims")
	var rowsBefore, writesBefore int
	read := func(room int64, wantRefused bool) int {
		t.Helper()
		own := open(t, c.url(name))
		s := newStore(t, own, sqlstore.Options{MaxEntries: room})
		for n := range calls {
			_, err := s.Claim(t.Context(), fmt.Sprint(room, n), "ann", answers, inAnHour())
			_, refused := errors.AsType[*store.QuotaError](err)
			if refused != wantRefused || !refused && err != nil {
				t.Fatalf("got %v, want a refusal: %v", err, wantRefused)
			}
		}
		_ = own.Close() // then its connections report their statistics
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			var all, writes int
			noError(t, db.QueryRowContext(t.Context(), `select c.seq_tup_read + c.idx_tup_fetch,
				u.n_tup_ins + u.n_tup_upd from pg_stat_user_tables c, pg_stat_user_tables u
				where c.relname = 'rondo_claims' and u.relname = 'rondo_usage'`).Scan(
				&all, &writes))
			if writes > writesBefore {
				n := all - rowsBefore
				rowsBefore, writesBefore = all, writes
				return n
			}
		}
		t.Fatal("the database reports nothing")
		return 0
	}
	_ = read(2*rows, false) // earlier statistics
	acceptances, refusals := read(2*rows+calls, false), read(rows, true)
	t.Logf("rows read by %d acceptances: %d, by as many refusals: %d", calls, acceptances, refusals)
	if max(acceptances, refusals) > 10*calls {
		t.Error("they read rows of others")
	}
}

// testSettings refuses, at the start, settings that lose confirmed writes in a crash.
func testSettings(t *testing.T, c *cluster) {
	for want, statement := range map[string]string{
		"synchronous_commit": "alter database %s set synchronous_commit = off",
		"unlogged":           "alter table rondo_claims set unlogged",
		"unique":             "alter table rondo_claims drop constraint rondo_claims_pkey",
		"write":              "alter database %s set default_transaction_read_only = on",
	} {
		t.Run(want, func(t *testing.T) {
			db, name := c.withTables(t)
			if strings.Contains(statement, "%s") {
				statement = fmt.Sprintf(statement, name)
			}
			mustExec(t, db, statement)
			_, err := sqlstore.New(t.Context(), c.connect(t, name), nil)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error about %s", err, want)
			}
		})
	}
}

// testReadOnly: a read-only database refuses at once, and no state counts as free.
func testReadOnly(t *testing.T, db *sql.DB) {
	db.SetMaxOpenConns(1)
	s := newStore(t, db, sqlstore.Options{})
	claim, err := s.Claim(t.Context(), "before", "", answers, inAnHour())
	noError(t, err)
	mustExec(t, db, "set default_transaction_read_only = on")
	began := time.Now()
	for _, id := range []string{"before", "free"} {
		_, err := s.Claim(t.Context(), id, "", answers, inAnHour())
		if _, spent := errors.AsType[*store.SpentError](err); err == nil || spent {
			t.Errorf("%s: got %v, want a refusal", id, err)
		}
	}
	if err := claim.Commit(t.Context(), []byte("outcome")); err == nil {
		t.Error("a commit is acknowledged")
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("three refusals took %v", took)
	}
	mustExec(t, db, "set default_transaction_read_only = off")
	if _, err := s.Claim(t.Context(), "free", "", answers, inAnHour()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// testIsolation: the operator's default isolation level has no effect.
func testIsolation(t *testing.T, c *cluster) {
	db, name := c.withTables(t)
	mustExec(t, db, fmt.Sprintf("alter database %s set default_transaction_isolation = serializable",
		name))
	opts := contract(sqlstore.PostgreSQL, func(t *testing.T) (*sql.DB, func(*testing.T) *sql.DB) {
		mustExec(t, db, "truncate rondo_claims, rondo_usage")
		return db, func(t *testing.T) *sql.DB { return c.connect(t, name) }
	})
	storetest.TestGuard(t, opts)
}

// testCreateOverlapping has replicas that start together create the tables.
func testCreateOverlapping(t *testing.T, c *cluster) {
	name := c.create(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := sqlstore.CreateTables(t.Context(), c.connect(t, name),
				sqlstore.PostgreSQL); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	newStore(t, c.connect(t, name), sqlstore.Options{})
}

// testKill kills the loaded server. Acknowledged claims survive; retries get unacknowledged ones.
func testKill(t *testing.T, c *cluster) {
	db, name := c.withTables(t)
	s := newStore(t, db, sqlstore.Options{})
	var mu sync.Mutex
	var claimed, unsure []string
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprint("state ", worker, i)
				_, err := s.Claim(t.Context(), id, "", answers, inAnHour())
				mu.Lock()
				if err == nil {
					claimed = append(claimed, id)
				} else {
					unsure = append(unsure, id)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	for {
		mu.Lock()
		n := len(claimed)
		mu.Unlock()
		if n > 200 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	c.kill()
	wg.Wait()
	close(stop)
	c.start()
	other := newStore(t, c.connect(t, name), sqlstore.Options{})
	for _, id := range claimed {
		_, err := other.Claim(context.Background(), id, "", answers, inAnHour())
		if _, spent := errors.AsType[*store.SpentError](err); !spent {
			t.Errorf("%s was claimed before the crash: %v", id, err)
		}
	}
	for _, id := range unsure {
		if _, err := s.Claim(t.Context(), id, "", answers, inAnHour()); err != nil {
			t.Errorf("%s cannot be claimed by who may have claimed it: %v", id, err)
		}
	}
	t.Logf("%d claims before the crash, %d unsure", len(claimed), len(unsure))
}
