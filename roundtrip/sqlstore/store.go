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

// Options configure a [Store]. The zero value is for PostgreSQL. Negative numbers are errors.
type Options struct {
	Dialect Dialect // of the database
	// Service names the server, at most 100 bytes: the same for its replicas, different for servers
	// that share a database. Empty means "rondo".
	Service string
	// MaxEntries limits claims, and states, of all principals; one principal may have a quarter. A
	// claim takes about 400 bytes. 0 means 500,000.
	MaxEntries int64
	// MaxBytes likewise limits, separately, outcomes, states, and records of finished tasks. An
	// outcome over the limit is not recorded: its replay's error says that it is unknown. A
	// finished task is still kept, and no task begins until others are dropped. 0 means 256 MiB.
	MaxBytes int64
}

const maxService = 100

// A Store is a [store.Guard], [store.StateStore] and [store.TaskStore] for a fleet. It may be used
// concurrently. It starts no goroutines and needs no closing; the caller closes the database.
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

// New returns a store in the tables of [CreateTables]. It refuses tables of another version or
// without required keys, a read-only database, and settings with which a crash loses writes. ctx
// ends the call, not the store.
func New(ctx context.Context, db *sql.DB, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	switch {
	case db == nil:
		return nil, errors.New("sqlstore: the database is nil")
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

// Claim implements [store.Guard]. It returns within five seconds and, once begun, ignores the end
// of ctx. If the database does not answer in time, the claim may be stored nevertheless. No handler
// runs then, and a retry with the same answers at this store gets the claim. At other replicas the
// state is spent, because it could be used twice otherwise.
func (s *Store) Claim(ctx context.Context, id, owner string, fingerprint [32]byte,
	until time.Time) (store.Claim, error) {
	return s.guard.Claim(ctx, id, owner, fingerprint, until)
}

// ReserveForAuthenticated reserves a quarter of the room for authenticated callers. The funnel
// calls it if callers can authenticate; otherwise the first such caller has this effect.
func (s *Store) ReserveForAuthenticated() { s.shares.ReserveForAuthenticated() }

// Put implements [store.StateStore]. It returns when ctx ends, or after five seconds.
func (s *Store) Put(
	ctx context.Context, id, owner string, state []byte, until time.Time,
) error {
	key, owner := sharedguard.KeyOf("state", id), sharedguard.OwnerOf(owner)
	return inTime(ctx, "put", func(ctx context.Context) error {
		return s.states.withRoom(ctx, func() error {
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
	})
}

// The constant expires is the time when a row may be deleted: ten minutes after the caller's time,
// by both its clock and the database's. Parameters: a row's lifetime and end, in milliseconds.
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

type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (s *Store) exec(
	ctx context.Context, on executor, statement string, args ...any,
) (int64, error) {
	result, err := on.ExecContext(ctx, s.dialect.write(statement), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// checkWrites writes a claim, a state and a task as usual, and rolls back.
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
