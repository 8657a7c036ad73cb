package natsguard

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natskv"
	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// What each owner uses of a bucket is counted in units. Each owner has a ledger, a
// key of the bucket, that says how many units are reserved until when. Before a
// replica stores anything it reserves units in the ledger by a conditional write,
// so that all replicas together never store more than is reserved. It reserves more
// than it needs and keeps the rest in memory. So an owner who stores much costs few
// writes to the ledger, and one who stores little costs none.
const (
	// unitBytes is the size of a unit. A claim with its subject and headers takes
	// about 300 bytes.
	unitBytes = 512
	// slot is the unit of time: a reservation ends with the slot in which its
	// claims expire.
	slot = 5 * time.Minute
	// freeUnits is how many units a replica lets an owner use in each slot without
	// reserving them: what one person needs.
	freeUnits = 16
	// blockPart bounds how much is reserved ahead, as a part of the share.
	blockPart = 512
	// clockSlack is how far the clocks of two replicas may differ.
	clockSlack = 2 * time.Minute
)

// shares bounds what each owner has in a bucket, over all replicas.
type shares struct {
	bucket   *bucket
	resource string // the resource that a QuotaError names
	total    int64  // of the bucket, in units
	share    int64  // of one owner; negative: no bound and no ledgers

	authenticates atomic.Bool // an owner that is not anonymous was seen

	mu       sync.Mutex
	reserved *quota.Store[*reservation] // by owner
}

// A reservation is the units that are reserved for an owner until the end of one
// slot and that this replica has not used.
type reservation struct {
	end  int64         // the slot
	turn chan struct{} // holds one token; its taker alone writes to the ledger
	next int64         // how many units to reserve next; owned by the taker of turn
	left int64         // guarded by shares.mu
}

func newShares(b *bucket, resource string, opts Options) *shares {
	size := b.Config().MaxBytes
	if size <= 0 {
		size = DefaultMaxBytes
	}
	total := size / unitBytes
	s := &shares{bucket: b, resource: resource, total: total, share: quota.ShareOf(total)}
	if opts.Share != 0 {
		s.share = opts.Share / unitBytes
	}
	if opts.Share < 0 {
		s.share = -1
	}
	s.reserved = quota.NewStore[*reservation](quota.StoreOptions{MaxEntries: -1, MaxBytes: -1})
	return s
}

// unitsOf returns how many units a value takes.
func unitsOf(size int) int64 { return int64(size+unitBytes-1) / unitBytes }

// limitOf returns how many units an owner may use. Anonymous callers are one owner,
// which must leave a quarter to authenticated callers once there was one.
func (s *shares) limitOf(owner string) int64 {
	switch {
	case owner != "":
		return s.share
	case s.authenticates.Load():
		return s.total - quota.ShareOf(s.total)
	}
	return s.total
}

// takeUnits takes units from the share of an owner until the time given. Of the
// share, one part in divisor may be used. Beyond that it returns a
// [*store.QuotaError].
func (s *shares) takeUnits(
	ctx context.Context, owner string, units int64, until time.Time, divisor int64,
) error {
	if s.share < 0 {
		return nil
	}
	if owner != "" {
		s.authenticates.Store(true)
	}
	r := s.reservationOf(owner, slotAfter(until))
	if _, ok := s.takeReserved(r, units); ok {
		return nil
	}
	select {
	case <-r.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { r.turn <- struct{}{} }()
	for {
		missing, ok := s.takeReserved(r, units)
		if ok {
			return nil
		}
		got, err := s.reserveUnits(ctx, owner, missing, r.next, r.end, s.limitOf(owner)/divisor)
		if err != nil {
			return err
		}
		r.next = min(2*r.next, max(1, s.share/blockPart))
		s.giveReserved(r, got)
	}
}

// giveUnits returns units that were taken for something that was not stored.
func (s *shares) giveUnits(owner string, units int64, until time.Time) {
	if s.share >= 0 {
		s.giveReserved(s.reservationOf(owner, slotAfter(until)), units)
	}
}

// takeReserved takes units from a reservation, or returns how many are missing.
func (s *shares) takeReserved(r *reservation, units int64) (missing int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.left < units {
		return units - r.left, false
	}
	r.left -= units
	return 0, true
}

func (s *shares) giveReserved(r *reservation, units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.left += units
}

// reservationOf returns the reservation of an owner for a slot, a new one with the
// free units if there is none.
func (s *shares) reservationOf(owner string, end int64) *reservation {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprint(owner, " ", end)
	if e := s.reserved.Get(id); e != nil {
		return e.Value
	}
	r := &reservation{
		turn: make(chan struct{}, 1), end: end, next: 1,
		left: min(freeUnits, s.share/blockPart),
	}
	r.turn <- struct{}{}
	// Claims that expire in one slot are usually made within the time of one slot.
	// A later one costs another reservation and gets the free units again, which
	// is cheaper than to keep every reservation until its claims expire.
	s.reserved.Put(id, owner, r, 0, time.Now().Add(2*slot))
	return r
}

// reserveUnits enters units into the ledger of an owner: need of them, and up to
// want if there is room. It returns how many.
func (s *shares) reserveUnits(
	ctx context.Context, owner string, need, want, end, limit int64,
) (int64, error) {
	key := keyOf("natsguard owner v1", owner)
	var read natskv.Entry
	err := s.bucket.Retry(ctx, func() (err error) {
		read, err = s.bucket.Get(ctx, key)
		return err
	})
	for found := &read; ; {
		if err != nil {
			return 0, fmt.Errorf("share: %w", s.asQuotaError(err))
		}
		l, revision := ledger{}, uint64(0)
		if !found.Gone {
			if l, err = decodeLedger(found.Value); err != nil {
				return 0, fmt.Errorf("share: %w", err)
			}
			revision = found.Revision
		}
		l.removeEnded(time.Now())
		free := limit - l.countUnits()
		if free < need {
			return 0, &store.QuotaError{
				Resource: s.resource, Limit: string(quota.Share),
				RetryAfter: l.nextRoom(time.Now()),
			}
		}
		got := min(max(need, want), free)
		l[end] += got
		_, found, err = s.bucket.storeEntry(ctx, key, l.encode(), revision, l.lastEnd())
		if err == nil && found == nil {
			return got, nil
		} // else another replica was faster: found is the ledger that it has stored
	}
}

// A ledger maps a slot to how many units are reserved until the end of the slot.
type ledger map[int64]int64

// ledgerFormat is the first byte of an encoded ledger. Random bytes follow, so that
// no two are alike, and then slots and units in turn.
const ledgerFormat = 1

// slotAfter returns the slot in which t lies. A slot is named by the number of
// slots from the Unix epoch to its end.
func slotAfter(t time.Time) int64 { return t.Unix()/int64(slot/time.Second) + 1 }

// endOf returns when a slot ends.
func endOf(end int64) time.Time { return time.Unix(end*int64(slot/time.Second), 0) }

func (l ledger) countUnits() (sum int64) {
	for _, units := range l {
		sum += units
	}
	return sum
}

// removeEnded removes the slots that have ended by the clock of every replica.
func (l ledger) removeEnded(now time.Time) {
	for end := range l {
		if now.After(endOf(end).Add(clockSlack)) {
			delete(l, end)
		}
	}
}

// lastEnd returns when all slots have ended.
func (l ledger) lastEnd() (last time.Time) {
	for end := range l {
		if t := endOf(end).Add(clockSlack); t.After(last) {
			last = t
		}
	}
	return last
}

// nextRoom returns how long it takes until a slot ends, at most a minute.
func (l ledger) nextRoom(now time.Time) time.Duration {
	next := time.Minute
	for end := range l {
		next = min(next, max(endOf(end).Add(clockSlack).Sub(now), time.Second))
	}
	return next
}

func (l ledger) encode() []byte {
	b := make([]byte, 1+nonceSize, 1+nonceSize+8*len(l))
	b[0] = ledgerFormat
	_, _ = rand.Read(b[1:]) // never fails
	for end, units := range l {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(end)), uint64(units))
	}
	return b
}

func decodeLedger(b []byte) (ledger, error) {
	if len(b) < 1+nonceSize || b[0] != ledgerFormat {
		return nil, errEntry
	}
	l := ledger{}
	for b = b[1+nonceSize:]; len(b) > 0; {
		end, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errEntry
		}
		units, m := binary.Uvarint(b[n:])
		if m <= 0 || end > 1<<40 || units > 1<<40 {
			return nil, errEntry
		}
		l[int64(end)] += int64(units)
		b = b[n+m:]
	}
	return l, nil
}

// Error codes with which a server refuses a write for want of room.
const (
	accountExceeded jetstream.ErrorCode = 10002
	noResources     jetstream.ErrorCode = 10023
	storageExceeded jetstream.ErrorCode = 10047
	storeFailed     jetstream.ErrorCode = 10077 // if its description names a maximum
)

// isFull reports whether err says that there was no room, so that nothing was stored.
func isFull(err error) bool {
	_, full := errors.AsType[*store.QuotaError](err)
	return full
}

// asQuotaError turns the refusal of a server for want of room into a
// [*store.QuotaError], and returns other errors as they are.
func (s *shares) asQuotaError(err error) error {
	e, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return err
	}
	switch e.ErrorCode {
	case storeFailed:
		if !strings.Contains(e.Description, "maximum") {
			return err
		}
	case accountExceeded, noResources, storageExceeded:
	default:
		return err
	}
	return &store.QuotaError{
		Resource: s.resource, Limit: string(quota.Total), RetryAfter: time.Minute,
	}
}
