package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/state/sharedguard"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// The type claims is a [Store] as its guard's backend. Inserting a row with a unique key claims a
// state. Rows are always locked in the order claim, owner's usage, total usage, to avoid deadlocks.
type claims Store

// errDataType reports a row that this package cannot have written.
var errDataType = errors.New("malformed row")

const insertClaim = `insert into rondo_claims
	(service, key, owner, print, expires, holder, kind, lease)
select cast($1 as text), cast($2 as text), cast($3 as text), cast($4 as {bytes}), ` + expires + `,
	cast($7 as {bytes}), 1, {now} + 120000
from rondo_schema where version = 1
on conflict (service, key) do nothing`

func (s *Store) insertClaim(
	ctx context.Context, tx *sql.Tx, c *sharedguard.Claim,
) (inserted bool, err error) {
	n, err := s.exec(ctx, tx, insertClaim, s.service, c.Key, c.Owner, c.Print[:],
		c.Keep.Milliseconds(), c.Until.UnixMilli(), c.Holder[:])
	return n > 0, err
}

const (
	takeReleased = `update rondo_claims set kind = 1, holder = $1, lease = {now} + 120000
		where service = $2 and key = $3 and print = $4 and kind = 4`
	findClaim = `select kind, print, holder, case when lease > {now} then 1 else 0 end, outcome
		from rondo_claims where service = $1 and key = $2`
	renewClaim = `update rondo_claims set lease = {now} + 120000
		where service = $1 and key = $2 and holder = $3 and kind = 1`
	commitClaim = `update rondo_claims set kind = $1, outcome = $2
		where service = $3 and key = $4 and holder = $5 and kind = 1`
	releaseClaim = `update rondo_claims set kind = 4
		where service = $1 and key = $2 and holder = $3 and kind = 1`
)

// Claim implements [sharedguard.Backend].
func (b *claims) Claim(
	ctx context.Context, c *sharedguard.Claim,
) (found *sharedguard.Found, err error) {
	s := (*Store)(b)
	err = s.claims.withRoom(ctx, func() error {
		found = nil
		return s.inTx(ctx, func(tx *sql.Tx) error {
			inserted, err := s.insertClaim(ctx, tx, c)
			if err != nil {
				return err
			}
			if inserted {
				return s.claims.take(ctx, tx, c.Owner, 1, 0)
			}
			n, err := s.exec(ctx, tx, takeReleased, c.Holder[:], s.service, c.Key, c.Print[:])
			if err != nil || n > 0 {
				return err
			}
			found, err = s.findClaim(ctx, tx, c)
			return err
		})
	})
	return found, err
}

// findClaim returns the claim that blocked an insert. If none did, the tables' version is wrong.
func (s *Store) findClaim(
	ctx context.Context, tx *sql.Tx, c *sharedguard.Claim,
) (*sharedguard.Found, error) {
	var f sharedguard.Found
	err := tx.QueryRowContext(ctx, s.dialect.write(findClaim), s.service, c.Key).Scan(
		&f.Kind, &f.Print, &f.Holder, &f.Running, &f.Sealed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, errSchema
	case err != nil:
		return nil, err
	case len(f.Print) != len(c.Print) || len(f.Holder) != len(c.Holder):
		return nil, errDataType
	}
	return &f, nil
}

// Renew implements [sharedguard.Backend].
func (b *claims) Renew(ctx context.Context, c *sharedguard.Claim) (held bool, err error) {
	s := (*Store)(b)
	n, err := s.exec(ctx, s.db, renewClaim, s.service, c.Key, c.Holder[:])
	return n > 0, err
}

// Commit implements [sharedguard.Backend].
func (b *claims) Commit(
	ctx context.Context, c *sharedguard.Claim, sealed []byte,
) (held bool, err error) {
	s := (*Store)(b)
	if sealed != nil {
		held, err = s.commit(ctx, c, sharedguard.Committed, sealed)
		if _, full := errors.AsType[*store.QuotaError](err); !full {
			return held, err
		}
	}
	return s.commit(ctx, c, sharedguard.Unrecorded, nil)
}

func (s *Store) commit(
	ctx context.Context, c *sharedguard.Claim, kind int, sealed []byte,
) (held bool, err error) {
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		n, err := s.exec(ctx, tx, commitClaim, kind, sealed, s.service, c.Key, c.Holder[:])
		if err != nil {
			return err
		}
		if n > 0 {
			if held = true; sealed == nil {
				return nil // ending a claim needs no room
			}
			return s.claims.take(ctx, tx, c.Owner, 0, int64(len(sealed)))
		}
		found, err := s.findClaim(ctx, tx, c)
		if err != nil && !errors.Is(err, errSchema) {
			return err
		}
		held = found != nil && string(found.Holder) == string(c.Holder[:]) &&
			(found.Kind == sharedguard.Committed || found.Kind == sharedguard.Unrecorded)
		return nil
	})
	return held, err
}

// Release implements [sharedguard.Backend].
func (b *claims) Release(ctx context.Context, c *sharedguard.Claim) error {
	s := (*Store)(b)
	_, err := s.exec(ctx, s.db, releaseClaim, s.service, c.Key, c.Holder[:])
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// IsFinal implements [sharedguard.Backend].
func (b *claims) IsFinal(err error) bool { return b.dialect.isFinal(err) }
