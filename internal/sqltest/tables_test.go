// Package sqltest_test tests package sqlstore on real databases, in its own module, because
// sqlstore's requires no driver. The tests on PostgreSQL have the build tag postgres.
package sqltest_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/sqlstore"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

const clockSkew = 2 * time.Minute // between clocks, in the contract's tests

var answers = [32]byte{1}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }

// testTables refuses tables that differ from CreateTables', at the start.
func testTables(t *testing.T, d sqlstore.Dialect, open func(*testing.T) *sql.DB) {
	drop := map[string][]string{
		"no tables":        {"drop table rondo_schema"},
		"an empty schema":  {"delete from rondo_schema"},
		"a newer version":  {"update rondo_schema set version = 2"},
		"an older version": {"update rondo_schema set version = 0"},
		"claims that are not unique": {"alter table rondo_claims rename to old",
			"create table rondo_claims as select * from old",
			"drop table old", // and its index
			"create index rondo_claims_expires on rondo_claims (service, expires)"},
		"states that are unique in some rows only": {"alter table rondo_states rename to old",
			"create table rondo_states as select * from old", "drop table old",
			"create index rondo_states_expires on rondo_states (service, expires)",
			"create unique index partial_key on rondo_states (service, key) where expires > 0"},
		"use that is not unique": {"alter table rondo_usage rename to old",
			"create table rondo_usage as select * from old"},
		"no index of what expires": {"drop index rondo_claims_expires"},
		"an index by that name on something else": {"drop index rondo_states_expires",
			"create index rondo_states_expires on rondo_states (expires)"},
		"a missing column": {"alter table rondo_claims drop column outcome",
			"alter table rondo_claims drop column holder"},
	}
	for name, statements := range drop {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			s := newStore(t, db, sqlstore.Options{Dialect: d})
			for _, statement := range statements {
				mustExec(t, db, statement)
			}
			if _, err := sqlstore.New(t.Context(), db, &sqlstore.Options{Dialect: d}); err == nil {
				t.Error("the tables are used")
			}
			if strings.Contains(name, "index") {
				return // which only the start checks
			}
			// A store that started before the change refuses claims as well.
			_, err := s.Claim(t.Context(), "id", "", answers, inAnHour())
			if _, spent := errors.AsType[*store.SpentError](err); err == nil || spent {
				if !strings.Contains(name, "states") {
					t.Errorf("a claim: %v", err)
				}
			}
		})
	}
}

// testRows checks the tables' rows against the package's promises.
func testRows(t *testing.T, d sqlstore.Dialect, open func(*testing.T) *sql.DB) {
	t.Run("services", func(t *testing.T) { testServices(t, d, open(t)) })
	t.Run("secrets", func(t *testing.T) { testSecrets(t, d, open(t)) })
	t.Run("expiry", func(t *testing.T) { testExpiry(t, d, open(t)) })
	t.Run("outcomes", func(t *testing.T) { testOutcomeBounds(t, d, open(t)) })
	t.Run("narrower", func(t *testing.T) { testNarrowerRoom(t, d, open(t)) })
	t.Run("forgeries", func(t *testing.T) { testForgeries(t, d, open(t)) })
}

// testNarrowerRoom ends the claims of owners who exceed a reduced limit.
func testNarrowerRoom(t *testing.T, d sqlstore.Dialect, db *sql.DB) {
	s := newStore(t, db, sqlstore.Options{Dialect: d, MaxEntries: 40})
	for _, outcome := range []string{"", "outcome"} {
		c, err := s.Claim(t.Context(), "id"+outcome, "ann", answers, inAnHour())
		noError(t, err)
		mustExec(t, db, "update rondo_usage set entries = 30 where owner <> '*'")
		if err := c.Commit(t.Context(), []byte(outcome)); err != nil {
			t.Errorf("the claim cannot be ended: %v", err)
		}
		_, err = s.Claim(t.Context(), "id"+outcome, "ann", answers, inAnHour())
		spent, ok := errors.AsType[*store.SpentError](err)
		if !ok || spent.Running || string(spent.Outcome) != outcome {
			t.Errorf("what has ended: %+v, %v", spent, err)
		}
		mustExec(t, db, "update rondo_usage set entries = 1 where owner <> '*'")
	}
}

// testServices keeps two services in one database apart.
func testServices(t *testing.T, d sqlstore.Dialect, db *sql.DB) {
	for _, service := range []string{"", "one", "other"} {
		s := newStore(t, db, sqlstore.Options{Dialect: d, Service: service, MaxEntries: 1})
		if _, err := s.Claim(t.Context(), "id", "", answers, inAnHour()); err != nil {
			t.Errorf("service %q: %v", service, err)
		}
		id := strings.Repeat("0", 64)
		if err := s.Put(t.Context(), id, "", []byte("of "+service), inAnHour()); err != nil {
			t.Errorf("service %q: %v", service, err)
		}
		if got, err := s.Get(t.Context(), id); string(got) != "of "+service || err != nil {
			t.Errorf("service %q: got %q, %v", service, got, err)
		}
	}
}

func dump(t *testing.T, db *sql.DB) (all string, rows int) {
	t.Helper()
	found, err := db.QueryContext(t.Context(),
		"select service, key, owner, print, holder, outcome from rondo_claims")
	noError(t, err)
	defer found.Close()
	for ; found.Next(); rows++ {
		var columns [6][]byte
		noError(t, found.Scan(&columns[0], &columns[1], &columns[2], &columns[3], &columns[4],
			&columns[5]))
		all += string(bytes.Join(columns[:], []byte(" ")))
	}
	noError(t, found.Err())
	return all, rows
}

// testSecrets looks for ids, owners, answers and outcomes in the tables.
func testSecrets(t *testing.T, d sqlstore.Dialect, db *sql.DB) {
	const id, owner, secret = "3f1c9a0277d84c0cb4f5a9e2d6071b88", "owner-of-it", "confidential"
	s := newStore(t, db, sqlstore.Options{Dialect: d})
	print := [32]byte(bytes.Repeat([]byte("f"), 32))
	claim, err := s.Claim(t.Context(), id, owner, print, inAnHour())
	noError(t, err)
	noError(t, claim.Commit(t.Context(), []byte("it is "+secret)))
	all, rows := dump(t, db)
	if rows != 1 || len(all) < 200 {
		t.Fatalf("%d rows: %q", rows, all)
	}
	for _, hidden := range []string{id, owner, secret, string(print[:])} {
		if strings.Contains(all, hidden) {
			t.Errorf("%q shows in %q", hidden, all)
		}
	}
}

// testExpiry: only rows ten minutes past their time are deleted, by the database's clock.
func testExpiry(t *testing.T, d sqlstore.Dialect, db *sql.DB) {
	s := newStore(t, db, sqlstore.Options{Dialect: d, MaxEntries: 8, MaxBytes: 1000})
	claim := func(id string, left time.Duration) error {
		c, err := s.Claim(t.Context(), id, "ann", answers, time.Now().Add(left))
		if err != nil {
			return err
		}
		return c.Commit(t.Context(), []byte("outcome"))
	}
	full := func(what string) {
		t.Helper()
		err := claim(what, time.Hour)
		if _, ok := errors.AsType[*store.QuotaError](err); !ok {
			t.Errorf("%s: got %v, want that there is no room", what, err)
		}
	}
	noError(t, errors.Join(claim("first", -9*time.Minute), claim("second", time.Hour)))
	full("nine minutes after its time")
	mustExec(t, db, "update rondo_claims set expires = expires - 120000") // two minutes later
	full("a moment after the last refusal, which looked for what has expired")
	time.Sleep(1100 * time.Millisecond)
	if err := claim("third", time.Hour); err != nil {
		t.Errorf("eleven minutes after its time: %v", err)
	}
	full("two are left")
	if _, rows := dump(t, db); rows != 2 {
		t.Errorf("%d rows are left, want 2", rows)
	}
	mustExec(t, db, "update rondo_claims set expires = 0")
	for n := range 3 { // the counts match the rows
		time.Sleep(1100 * time.Millisecond)
		noError(t, errors.Join(claim(fmt.Sprint("a", n), -time.Hour),
			claim(fmt.Sprint("b", n), -time.Hour)))
		mustExec(t, db, "update rondo_claims set expires = 0")
	}
	id := strings.Repeat("1", 64)
	noError(t, s.Put(t.Context(), id, "ann", []byte("x"), inAnHour()))
	mustExec(t, db, "update rondo_states set expires = 0")
	if _, err := s.Get(t.Context(), id); !errors.Is(err, store.ErrStateGone) {
		t.Errorf("an expired state: %v", err)
	}
}

// testOutcomeBounds records only outcomes that fit into the owner's share.
func testOutcomeBounds(t *testing.T, d sqlstore.Dialect, db *sql.DB) {
	s := newStore(t, db, sqlstore.Options{Dialect: d, MaxBytes: 4000})
	for n, c := range []struct {
		owner string
		size  int
		kept  bool
	}{{"ann", 600, true}, {"ann", 600, false}, {"ann", 100, true}, {"ann", 300 << 10, false},
		{"bob", 900, true}, {"", 1800, true}, {"cid", 900, false}} {
		id := fmt.Sprint("id ", n)
		claim, err := s.Claim(t.Context(), id, c.owner, answers, inAnHour())
		noError(t, err)
		if err := claim.Commit(t.Context(), make([]byte, c.size)); err != nil {
			t.Errorf("outcome %d: %v", n, err)
		}
		_, err = s.Claim(t.Context(), id, c.owner, answers, inAnHour())
		spent, ok := errors.AsType[*store.SpentError](err)
		if !ok || (len(spent.Outcome) == c.size) != c.kept || spent.Unknown == c.kept {
			t.Errorf("outcome %d: replay got %v, want it kept: %v", n, err, c.kept)
		}
	}
}

// testForgeries checks that forgeries never make a state usable again or yield a forged outcome.
func testForgeries(t *testing.T, d sqlstore.Dialect, db *sql.DB) {
	s := newStore(t, db, sqlstore.Options{Dialect: d})
	bytesOf := `'\x01'`
	if d == sqlstore.SQLite {
		bytesOf = `x'01'`
	}
	for _, forged := range []string{"outcome = outcome || " + bytesOf, "outcome = " + bytesOf,
		"outcome = null", "kind = 7", "holder = " + bytesOf, "print = " + bytesOf} {
		t.Run(forged, func(t *testing.T) {
			claim, err := s.Claim(t.Context(), forged, "", answers, inAnHour())
			noError(t, err)
			noError(t, claim.Commit(t.Context(), []byte("outcome")))
			mustExec(t, db, "update rondo_claims set "+forged)
			_, err = s.Claim(t.Context(), forged, "", answers, inAnHour())
			if _, spent := errors.AsType[*store.SpentError](err); err == nil || spent {
				t.Errorf("got %v, want an error that says neither free nor spent", err)
			}
			mustExec(t, db, "delete from rondo_claims")
		})
	}
}

func TestOptions(t *testing.T) {
	db, _ := newSQLite(t)
	for name, opts := range map[string]*sqlstore.Options{
		"entries": {Dialect: sqlstore.SQLite, MaxEntries: -1},
		"bytes":   {Dialect: sqlstore.SQLite, MaxBytes: -1},
		"dialect": {Dialect: 9},
		"service": {Dialect: sqlstore.SQLite, Service: strings.Repeat("x", 101)},
	} {
		if _, err := sqlstore.New(t.Context(), db, opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := sqlstore.New(context.Background(), nil, nil); err == nil {
		t.Error("no database: no error")
	}
}
