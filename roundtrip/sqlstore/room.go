package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/state/sharedguard"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// A room counts each owner's use of a table, in rows of rondo_usage per owner and for all. Counting
// in the transaction that inserts or deletes rows is exact over all replicas.
type room struct {
	store    *Store
	resource string // in QuotaError and as the rows' kind in rondo_usage
	expired  string // statement to delete expired rows

	// Next sweeps, in nanoseconds since 1970: regular, and when the room is full.
	sweepAt, sweepFullAt *atomic.Int64
}

// The constant everybody owns the row of the total. No digest has this spelling.
const everybody = "*"

// newRoom returns the room of a table, given its columns of name, expiry, entries and bytes.
func newRoom(s *Store, resource, table, name, ends, takes string) room {
	return room{store: s, resource: resource,
		expired: s.dialect.write(fmt.Sprintf(sweepExpired, table, name, ends, takes)),
		sweepAt: new(atomic.Int64), sweepFullAt: new(atomic.Int64)}
}

const takeRoom = `insert into rondo_usage (service, kind, owner, entries, bytes)
values ($1, $2, $3, $4, $5)
on conflict (service, kind, owner) do update
set entries = rondo_usage.entries + excluded.entries, bytes = rondo_usage.bytes + excluded.bytes
where (excluded.entries = 0 or rondo_usage.entries + excluded.entries <= $6)
	and rondo_usage.bytes + excluded.bytes <= $7`

// take counts an owner's use. On a [*store.QuotaError] the transaction must be rolled back.
func (r *room) take(ctx context.Context, tx *sql.Tx, owner string, entries, size int64) error {
	share, all := r.store.shares.Of(owner)
	full, err := r.takeWithin(ctx, tx, owner, use{entries, size}, share, all)
	if full != "" {
		return r.store.shares.Refuse(r.resource, owner, full)
	}
	return err
}

// takeWithin counts an owner's use, and returns the bound that it would exceed.
func (r *room) takeWithin(ctx context.Context, tx *sql.Tx, owner string, u use,
	share, all sharedguard.Room) (full quota.Limit, err error) {
	for _, account := range []struct {
		owner string
		limit quota.Limit
		room  sharedguard.Room
	}{{owner, quota.Share, share}, {everybody, quota.Total, all}} {
		n := int64(0)
		if u.entries <= account.room.Entries && u.bytes <= account.room.Bytes {
			if n, err = r.store.exec(ctx, tx, takeRoom, r.store.service, r.resource, account.owner,
				u.entries, u.bytes, account.room.Entries, account.room.Bytes); err != nil {
				return "", err
			}
		}
		if n == 0 {
			return account.limit, nil
		}
	}
	return "", nil
}

const (
	sweepEvery     = time.Minute
	sweepFullEvery = time.Second // so that refusals stay cheap
	sweepRows      = 500
)

// withRoom calls the function do, which stores an entry. If there is no room it deletes expired
// rows, at most once a second, and calls do again. It also deletes expired rows about once a
// minute, in place of a goroutine.
func (r *room) withRoom(ctx context.Context, do func() error) error {
	err := do()
	_, full := errors.AsType[*store.QuotaError](err)
	at, every := r.sweepAt, sweepEvery
	if full {
		at, every = r.sweepFullAt, sweepFullEvery
	}
	now, due := time.Now(), at.Load()
	if err != nil && !full || now.UnixNano() < due ||
		!at.CompareAndSwap(due, now.Add(every).UnixNano()) {
		return err
	}
	deleted, sweepErr := r.sweep(ctx)
	if sweepErr != nil {
		return err // the result of do counts; the next sweep may succeed
	}
	if deleted == sweepRows { // there may be more
		at.Store(0)
	}
	if full && deleted > 0 {
		return do()
	}
	return err
}

// sweepExpired has the time in a subquery, without which PostgreSQL does not use the index.
const sweepExpired = `delete from %[1]s where service = $1 and %[2]s in (
	select %[2]s from %[1]s where service = $2 and %[3]s < (select {now})
	order by %[3]s limit 500 {skip locked})
returning owner, %[4]s`

const (
	giveRoom = `update rondo_usage set entries = entries - $1, bytes = bytes - $2
		where service = $3 and kind = $4 and owner = $5`
	forgetOwner = `delete from rondo_usage
		where service = $1 and kind = $2 and owner = $3 and entries <= 0
			and bytes <= 0`
)

type use struct{ entries, bytes int64 }

func (r *room) sweep(ctx context.Context) (deleted int, err error) {
	s := r.store
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		freed, rows, err := r.deleteExpired(ctx, tx)
		if deleted = rows; err != nil || rows == 0 {
			return err
		}
		var all use
		for _, owner := range slices.Sorted(maps.Keys(freed)) { // the common locking order
			u := freed[owner]
			all.entries, all.bytes = all.entries+u.entries, all.bytes+u.bytes
			if err := r.give(ctx, tx, owner, u); err != nil {
				return err
			}
			_, err := s.exec(ctx, tx, forgetOwner, s.service, r.resource, owner)
			if err != nil {
				return err
			}
		}
		return r.give(ctx, tx, everybody, all)
	})
	return deleted, err
}

func (r *room) give(ctx context.Context, tx *sql.Tx, owner string, u use) error {
	s := r.store
	_, err := s.exec(ctx, tx, giveRoom, u.entries, u.bytes, s.service, r.resource, owner)
	return err
}

func (r *room) deleteExpired(ctx context.Context, tx *sql.Tx) (
	freed map[string]use, deleted int, err error) {
	rows, err := tx.QueryContext(ctx, r.expired, r.store.service, r.store.service)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	freed = map[string]use{}
	for ; rows.Next(); deleted++ {
		var owner string
		var u use
		if err := rows.Scan(&owner, &u.entries, &u.bytes); err != nil {
			return nil, 0, err
		}
		f := freed[owner]
		freed[owner] = use{f.entries + u.entries, f.bytes + u.bytes}
	}
	return freed, deleted, rows.Err()
}
