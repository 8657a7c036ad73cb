package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rondo-mcp/rondo/internal/state/sharedguard"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// Options configure a [Store]. The zero value is good for PostgreSQL. A negative number is an
// error.
type Options struct {
	// Dialect is that of the database.
	Dialect Dialect
	// Service names the server, at most 100 bytes: replicas of one server have the same, and
	// servers that share a database different ones. Empty: "rondo".
	Service string
	// MaxEntries bounds the claims, and the states, of all principals together. One principal
	// may have a quarter. Each claim takes about 400 bytes. 0: 500,000.
	MaxEntries int64
	// MaxBytes bounds what recorded outcomes take, what states take, and what the records of
	// tasks take that are over, in the same way. An outcome that has no room is not recorded: its
	// replay learns that the outcome is not known. A task that is over is kept all the same, and
	// none begins until others are dropped. 0: 256 MiB.
	MaxBytes int64
}

const maxService = 100

// A Store is a [store.Guard], a [store.StateStore] and a [store.TaskStore] for a fleet. It may be
// used concurrently. It starts no goroutines and needs no closing; the database stays the caller's.
type Store struct {
	db      *sql.DB
	dialect Dialect
	service string
	guard   *sharedguard.Guard
	shares  *sharedguard.Shares
	claims  room
	states  room
	tasks   room
}

var (
	_ store.Guard      = (*Store)(nil)
	_ store.StateStore = (*Store)(nil)
	_ store.TaskStore  = (*Store)(nil)
)

// New returns a store in the tables that [CreateTables] has made. It refuses tables of another
// version, or without the keys that they need, a database that cannot be written to, and settings
// with which a crash forgets what was stored. ctx ends the call, not the store.
func New(ctx context.Context, db *sql.DB, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	switch {
	case db == nil:
		return nil, errors.New("sqlstore: there is no database")
	case o.Dialect != PostgreSQL && o.Dialect != SQLite:
		return nil, fmt.Errorf("sqlstore: options: unknown Dialect %d", o.Dialect)
	case min(o.MaxEntries, o.MaxBytes) < 0:
		return nil, errors.New("sqlstore: options: MaxEntries and MaxBytes must not be negative")
	case len(o.Service) > maxService:
		return nil, fmt.Errorf("sqlstore: options: Service is longer than %d bytes", maxService)
	}
	s := &Store{db: db, dialect: o.Dialect, service: cmp.Or(o.Service, "rondo")}
	s.shares = sharedguard.NewShares(sharedguard.Room{
		Entries: cmp.Or(o.MaxEntries, 500_000), Bytes: cmp.Or(o.MaxBytes, 256<<20)})
	s.claims = newRoom(s, "guard", "rondo_claims", "key", "expires",
		"1, coalesce(length(outcome), 0)")
	s.states = newRoom(s, "store", "rondo_states", "key", "expires", "1, length(state)")
	s.tasks = newRoom(s, "tasks", "rondo_tasks", "id", "keep",
		"case when counted is null then 1 else 0 end, coalesce(counted, 0)")
	s.guard = sharedguard.New("sqlstore", (*claims)(s))
	ctx, cancel := context.WithTimeout(ctx, sharedguard.Timeout)
	defer cancel()
	if err := s.checkTables(ctx); err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	if err := s.checkWrites(ctx); err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	return s, nil
}

// Claim implements [store.Guard]. It returns within five seconds and ignores the end of ctx once it
// has begun. If the database does not answer in time, the claim may have been stored nevertheless.
// No handler runs then, and a retry with the same answers at this store gets the claim. At other
// replicas the state is spent, because it could be used twice otherwise.
func (s *Store) Claim(ctx context.Context, id, owner string, fingerprint [32]byte,
	until time.Time) (store.Claim, error) {
	return s.guard.Claim(ctx, id, owner, fingerprint, until)
}

// ReserveForAuthenticated leaves a quarter of the room to callers who authenticate, from now on.
// The funnel calls it where callers can; the store learns it from the first one otherwise.
func (s *Store) ReserveForAuthenticated() { s.shares.ReserveForAuthenticated() }

// Put implements [store.StateStore]. It ends with ctx, and after five seconds.
func (s *Store) Put(
	ctx context.Context, id, owner string, state []byte, until time.Time,
) error {
	ctx, cancel := context.WithTimeout(ctx, sharedguard.Timeout)
	defer cancel()
	key, owner := sharedguard.KeyOf("state", id), sharedguard.OwnerOf(owner)
	err := s.states.withRoom(ctx, func() error {
		return s.inTx(ctx, func(tx *sql.Tx) error {
			n, err := s.exec(ctx, tx, insertState, s.service, key, owner, state,
				time.Until(until).Milliseconds(), until.UnixMilli())
			if err != nil {
				return err
			}
			if n == 0 {
				return errors.New("the id is taken, or the tables are of another version")
			}
			return s.states.take(ctx, tx, owner, 1, int64(len(state)))
		})
	})
	if err != nil {
		return fmt.Errorf("sqlstore: put: %w", err)
	}
	return nil
}

// expires is when a row may be deleted: not before the time that the caller gave, by its own
// clock and by that of the database, and ten minutes more. The parameters are how long the row
// must be kept, and until when, in milliseconds.
const expires = `{max}({now} + cast($5 as bigint), cast($6 as bigint)) + 600000`

const insertState = `insert into rondo_states (service, key, owner, state, expires)
select cast($1 as text), cast($2 as text), cast($3 as text), cast($4 as {bytes}), ` + expires + `
from rondo_schema where version = 1
on conflict (service, key) do nothing`

// Get implements [store.StateStore]. It ends with ctx, and after five seconds.
func (s *Store) Get(ctx context.Context, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, sharedguard.Timeout)
	defer cancel()
	var state []byte
	err := s.db.QueryRowContext(ctx, s.dialect.write(
		"select state from rondo_states where service = $1 and key = $2 and expires > {now}"),
		s.service, sharedguard.KeyOf("state", id)).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, store.ErrStateGone
	}
	if err != nil {
		return nil, fmt.Errorf("sqlstore: get: %w", err)
	}
	return state, nil
}

func (s *Store) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	return inTx(ctx, s.db, s.dialect, do)
}

// inTx runs do in a transaction, which it commits unless do fails.
func inTx(ctx context.Context, db *sql.DB, d Dialect, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, d.isolation())
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// An executor is a database or a transaction.
type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// exec executes a statement and returns how many rows it has changed.
func (s *Store) exec(
	ctx context.Context, on executor, statement string, args ...any,
) (int64, error) {
	result, err := on.ExecContext(ctx, s.dialect.write(statement), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// checkWrites writes a claim, a state and a task as their methods do, and takes them back.
func (s *Store) checkWrites(ctx context.Context) error {
	err := s.inTx(ctx, func(tx *sql.Tx) error {
		c := sharedguard.Claim{Key: "check"}
		if _, err := s.insertClaim(ctx, tx, &c); err != nil {
			return err
		}
		if _, err := s.exec(ctx, tx, insertState, s.service, "check", "", []byte{}, 0,
			0); err != nil {
			return err
		}
		if err := s.insertTask(ctx, tx, &store.Task{Wakes: make([][32]byte, 1)},
			store.TaskTimes{}); err != nil && !errors.Is(err, store.ErrTaskExists) {
			return err
		}
		if _, err := s.exec(ctx, tx, takeRoom, s.service, s.claims.resource, everybody, 0, 0,
			int64(math.MaxInt64), int64(math.MaxInt64)); err != nil {
			return err
		}
		return errCheck
	})
	if errors.Is(err, errCheck) {
		return nil
	}
	return fmt.Errorf("write: %w", err)
}

var errCheck = errors.New("only a check")
