package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/internal/state/sharedguard"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// A task is a row of rondo_tasks, and a row of rondo_wakes for each thing that it waits for. Column
// due is null for never. Column counted is null until the task is over, then its bytes in
// rondo_usage. Locking order: task, owner's usage, total usage.

const insertTask = `insert into rondo_tasks
	(service, id, flow, owner, number, holder, record, wakes, due, keep, counted)
select cast($1 as text), cast($2 as {bytes}), cast($3 as {bytes}), cast($4 as text), 1,
	cast($5 as text), cast($6 as {bytes}), cast($7 as {bytes}), {now} + cast($8 as bigint),
	{now} + cast($9 as bigint), cast($10 as bigint)
from rondo_schema where version = 1
on conflict do nothing`

const (
	findTask = `select count(*) from rondo_tasks where service = $1 and (id = $2 or flow = $3)`
	readTask = `select id, flow, owner, number, holder, record, wakes, counted,
			case when due <= {now} then 1 else 0 end
		from rondo_tasks where service = $1 and keep > {now} and `
	putTask = `update rondo_tasks set number = number + 1, holder = $1, record = $2,
			due = {now} + cast($3 as bigint), keep = {now} + cast($4 as bigint)
		where service = $5 and id = $6 and number = $7 and keep > {now}
			and (counted is null or cast($8 as integer) = 1)
		returning owner, wakes, counted`
	settleTask = `update rondo_tasks set wakes = $1, counted = $2 where service = $3 and id = $4`
	renewTask  = `update rondo_tasks set due = {now} + cast($1 as bigint)
		where service = $2 and id = $3 and holder = $4 and holder <> '' and counted is null`
	// The time is in a subquery, without which PostgreSQL does not use the index.
	dueTasks = `select id from rondo_tasks where service = $1 and due <= (select {now})
		order by due limit $2`
	wakeTasks = `update rondo_tasks set due = {now} where service = $1 and id in (
			select id from rondo_tasks where service = $2 and holder = '' and counted is null
				and id in (select id from rondo_wakes where service = $3 and digest = $4)
			order by id {lock})
		returning id`
	insertWake = `insert into rondo_wakes (service, digest, id) values ($1, $2, $3)
		on conflict (service, digest, id) do nothing`
	forgetWakes = `delete from rondo_wakes where service = $1 and id = $2`
	sweepWakes  = `delete from rondo_wakes where service = $1 and not exists (select 1
		from rondo_tasks t where t.service = rondo_wakes.service and t.id = rondo_wakes.id)`
)

func ownerText(owner [32]byte) string {
	if owner == [32]byte{} {
		return sharedguard.OwnerOf("")
	}
	return hex.EncodeToString(owner[:])
}

// dueIn returns in how many milliseconds a task is due, or nil for never.
func dueIn(task *store.Task, times store.TaskTimes) any {
	if times.Due < 0 || task.Over {
		return nil
	}
	return times.Due.Milliseconds()
}

func joinWakes(wakes [][32]byte) []byte {
	joined := make([]byte, 0, 32*len(wakes))
	for _, w := range wakes {
		joined = append(joined, w[:]...)
	}
	return joined
}

// inTime runs a method of the store, which ends with ctx, and after five seconds.
func inTime(ctx context.Context, method string, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, sharedguard.Timeout)
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("sqlstore: %s: %w", method, err)
	}
	return nil
}

// CreateTask implements [store.TaskStore]. Like all methods of it, it ends with ctx, and after five
// seconds. There is no room either while finished tasks take [Options].MaxBytes.
func (s *Store) CreateTask(ctx context.Context, task *store.Task, times store.TaskTimes,
	room store.TaskRoom) error {
	return inTime(ctx, "create a task", func(ctx context.Context) error {
		err := s.inTx(ctx, func(tx *sql.Tx) error {
			if err := s.insertTask(ctx, tx, task, times); err != nil {
				return err
			}
			share, all := s.shares.Of(ownerText(task.Owner))
			share.Entries = cmp.Or(int64(room.Owner), math.MaxInt64)
			all.Entries = cmp.Or(int64(room.All), math.MaxInt64)
			u := use{entries: 1}
			if task.Over {
				u = use{bytes: int64(len(task.Record))}
			}
			full, err := s.tasks.takeWithin(ctx, tx, ownerText(task.Owner), u, share, all)
			if full != "" {
				return &store.QuotaError{Resource: s.tasks.resource, Limit: string(full)}
			}
			return err
		})
		if err == nil {
			task.Number = 1
		}
		return err
	})
}

func (s *Store) insertTask(ctx context.Context, tx *sql.Tx, task *store.Task,
	times store.TaskTimes) error {
	var counted any
	if task.Over {
		counted = len(task.Record)
	}
	n, err := s.exec(ctx, tx, insertTask, s.service, task.ID[:], task.Flow[:],
		ownerText(task.Owner), task.Holder, nonNil(task.Record), joinWakes(task.Wakes),
		dueIn(task, times), times.Keep.Milliseconds(), counted)
	if err != nil {
		return err
	}
	if n > 0 {
		return s.insertWakes(ctx, tx, task)
	}
	err = tx.QueryRowContext(ctx, s.dialect.write(findTask), s.service, task.ID[:],
		task.Flow[:]).Scan(&n)
	if err == nil && n == 0 {
		err = errSchema
	}
	return cmp.Or(err, store.ErrTaskExists)
}

// nonNil keeps drivers from writing null.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (s *Store) insertWakes(ctx context.Context, tx *sql.Tx, task *store.Task) error {
	for _, digest := range task.Wakes {
		if _, err := s.exec(ctx, tx, insertWake, s.service, digest[:], task.ID[:]); err != nil {
			return err
		}
	}
	return nil
}

// GetTask implements [store.TaskStore].
func (s *Store) GetTask(ctx context.Context, id [32]byte) (*store.Task, error) {
	return s.readTask(ctx, "id = $2", id)
}

// GetFlow implements [store.TaskStore].
func (s *Store) GetFlow(ctx context.Context, flow [32]byte) (*store.Task, error) {
	return s.readTask(ctx, "flow = $2", flow)
}

func (s *Store) readTask(ctx context.Context, which string, digest [32]byte) (
	task *store.Task, err error) {
	err = inTime(ctx, "get a task", func(ctx context.Context) error {
		t := &store.Task{}
		var id, flow, wakes []byte
		var owner string
		var counted sql.NullInt64
		err := s.db.QueryRowContext(ctx, s.dialect.write(readTask+which), s.service,
			digest[:]).Scan(&id, &flow, &owner, &t.Number, &t.Holder, &t.Record, &wakes, &counted,
			&t.Due)
		if errors.Is(err, sql.ErrNoRows) {
			return store.ErrNoTask
		}
		if err != nil {
			return err
		}
		named, err := hex.DecodeString(owner)
		if err != nil || len(id) != 32 || len(flow) != 32 || len(wakes)%32 != 0 ||
			owner != "" && len(named) != 32 {
			return errDataType
		}
		t.ID, t.Flow, t.Over = [32]byte(id), [32]byte(flow), counted.Valid
		copy(t.Owner[:], named)
		for w := range slices.Chunk(wakes, 32) {
			t.Wakes = append(t.Wakes, [32]byte(w))
		}
		task = t
		return nil
	})
	return task, err
}

// PutTask implements [store.TaskStore].
func (s *Store) PutTask(ctx context.Context, task *store.Task, times store.TaskTimes) error {
	return inTime(ctx, "put a task", func(ctx context.Context) error {
		err := s.inTx(ctx, func(tx *sql.Tx) error { return s.putTask(ctx, tx, task, times) })
		if err == nil {
			task.Number++
		}
		return err
	})
}

func (s *Store) putTask(ctx context.Context, tx *sql.Tx, task *store.Task,
	times store.TaskTimes) error {
	over := 0
	if task.Over {
		over = 1
	}
	var owner string
	var had []byte
	var counted sql.NullInt64
	err := tx.QueryRowContext(ctx, s.dialect.write(putTask), task.Holder, nonNil(task.Record),
		dueIn(task, times), times.Keep.Milliseconds(), s.service, task.ID[:], task.Number,
		over).Scan(&owner, &had, &counted)
	if errors.Is(err, sql.ErrNoRows) {
		var id []byte
		err = tx.QueryRowContext(ctx, s.dialect.write("select id from rondo_tasks "+
			"where service = $1 and id = $2 and keep > {now}"), s.service, task.ID[:]).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return store.ErrNoTask
		}
		return cmp.Or(err, store.ErrTaskChanged)
	}
	if err != nil {
		return err
	}
	wakes, ends := joinWakes(task.Wakes), task.Over && !counted.Valid
	rewake := !bytes.Equal(wakes, had)
	if !rewake && !ends {
		return nil
	}
	if ends {
		counted = sql.NullInt64{Int64: int64(len(task.Record)), Valid: true}
	}
	if _, err = s.exec(ctx, tx, settleTask, wakes, counted, s.service, task.ID[:]); err != nil {
		return err
	}
	if rewake {
		if _, err = s.exec(ctx, tx, forgetWakes, s.service, task.ID[:]); err != nil {
			return err
		}
		if err = s.insertWakes(ctx, tx, task); err != nil {
			return err
		}
	}
	if ends { // results are kept even without room
		u := use{1, -counted.Int64}
		err = cmp.Or(s.tasks.give(ctx, tx, owner, u), s.tasks.give(ctx, tx, everybody, u))
	}
	return err
}

// RenewTask implements [store.TaskStore].
func (s *Store) RenewTask(ctx context.Context, id [32]byte, holder string,
	due time.Duration) error {
	return inTime(ctx, "renew a task", func(ctx context.Context) error {
		n, err := s.exec(ctx, s.db, renewTask, due.Milliseconds(), s.service, id[:], holder)
		if err == nil && n == 0 {
			err = store.ErrTaskChanged
		}
		return err
	})
}

// DueTasks implements [store.TaskStore].
func (s *Store) DueTasks(ctx context.Context, limit int) (ids [][32]byte, err error) {
	err = inTime(ctx, "list tasks", func(ctx context.Context) error {
		rows, err := s.db.QueryContext(ctx, s.dialect.write(dueTasks), s.service, limit)
		if err == nil {
			ids, err = readIDs(rows)
		}
		return err
	})
	return ids, err
}

// WakeTasks implements [store.TaskStore].
func (s *Store) WakeTasks(ctx context.Context, digest [32]byte, limit int) (
	ids [][32]byte, err error) {
	err = inTime(ctx, "wake tasks", func(ctx context.Context) error {
		return s.inTx(ctx, func(tx *sql.Tx) error {
			rows, err := tx.QueryContext(ctx, s.dialect.write(wakeTasks), s.service, s.service,
				s.service, digest[:])
			if err == nil {
				ids, err = readIDs(rows)
			}
			return err
		})
	})
	return ids[:min(limit, len(ids))], err
}

func readIDs(rows *sql.Rows) (ids [][32]byte, err error) {
	defer rows.Close()
	for rows.Next() {
		var id []byte
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		if len(id) != 32 {
			return nil, errDataType
		}
		ids = append(ids, [32]byte(id))
	}
	return ids, rows.Err()
}

const maxDropBatches = 20 // per call of [Store.DropTasks]

// DropTasks implements [store.TaskStore]. It drops at most 10,000 tasks, the oldest, in batches.
func (s *Store) DropTasks(ctx context.Context) error {
	for n := range maxDropBatches {
		dropped := 0
		err := inTime(ctx, "drop tasks", func(ctx context.Context) (err error) {
			if dropped, err = s.tasks.sweep(ctx); err == nil && dropped > 0 && n == 0 {
				_, err = s.exec(ctx, s.db, sweepWakes, s.service)
			}
			return err
		})
		if err != nil || dropped < sweepRows {
			return err
		}
	}
	return nil
}
