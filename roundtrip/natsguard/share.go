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

	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// How much of a bucket each owner uses is counted in units, in a ledger of the
// owner's own: a key of the bucket that holds how many units are reserved until
// when. A replica reserves units there by a conditional write before it stores
// anything, so that all replicas together never store more than is reserved. It
// reserves some more than it needs and counts those by itself, so that an owner
// who does much costs few writes, and one who does little costs none.
const (
	// unitBytes is what is counted as one: a claim with its subject and headers
	// takes about 300 bytes.
	unitBytes = 512
	// slot is how exactly the time is known until which units are reserved.
	slot = 5 * time.Minute
	// freeUnits is what a replica lets an owner use in each slot without
	// reserving it, for as long as it knows the reservation: what one person does.
	freeUnits = 16
	// blockPart bounds how much is reserved ahead, as a part of the share.
	blockPart = 512
	// clockSlack is how far the clocks of two replicas may differ.
	clockSlack = 2 * time.Minute
)

// shares bounds what each owner has in a bucket, over all replicas.
type shares struct {
	bucket   *bucket
	resource string // what there is no room in, for logs
	total    int64  // of the bucket, in units
	share    int64  // of one owner; negative: no bound and no ledgers

	authenticates atomic.Bool // an owner that is not anonymous was seen

	mu       sync.Mutex
	reserved *quota.Store[*reservation] // by owner
}

// A reservation is what this replica may use on behalf of an owner without
// asking, of what is reserved until the end of one slot.
type reservation struct {
	end  int64         // the slot
	turn chan struct{} // holds one token: who has it may reserve more
	next int64         // how much to reserve when nothing is left, of who has the turn
	left int64         // guarded by shares.mu
}

func newShares(b *bucket, resource string, opts Options) *shares {
	size := b.config.MaxBytes
	if size <= 0 {
		size = DefaultMaxBytes
	}
	s := &shares{bucket: b, resource: resource, total: size / unitBytes, share: quota.ShareOf(size / unitBytes)}
	if opts.Share != 0 {
		s.share = opts.Share / unitBytes
	}
	if opts.Share < 0 {
		s.share = -1
	}
	s.reserved = quota.NewStore(quota.StoreOptions[*reservation]{MaxEntries: -1, MaxBytes: -1})
	return s
}

// unitsOf is how many units a value takes.
func unitsOf(size int) int64 { return int64(size+unitBytes-1) / unitBytes }

// limitOf is how many units an owner may use. Anonymous callers are one owner
// that must leave a quarter to those who authenticate, if there are any.
func (s *shares) limitOf(owner string) int64 {
	switch {
	case owner != "":
		return s.share
	case s.authenticates.Load():
		return s.total - quota.ShareOf(s.total)
	}
	return s.total
}

// takeUnits uses units on behalf of an owner until the time given, of no more than
// part of its share. It returns a [*roundtrip.QuotaError] when they are used up.
func (s *shares) takeUnits(ctx context.Context, owner string, units int64, until time.Time, part int64) error {
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
		got, err := s.reserve(ctx, owner, missing, r.next, r.end, s.limitOf(owner)/part)
		if err != nil {
			return err
		}
		r.next = min(2*r.next, max(1, s.share/blockPart))
		s.giveReserved(r, got)
	}
}

// giveUnits gives units back that were not used after all.
func (s *shares) giveUnits(owner string, units int64, until time.Time) {
	if s.share >= 0 {
		s.giveReserved(s.reservationOf(owner, slotAfter(until)), units)
	}
}

// takeReserved takes units out of a reservation, or returns how many are missing.
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

// reservationOf returns what this replica may use for an owner until the end of
// a slot.
func (s *shares) reservationOf(owner string, end int64) *reservation {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprint(owner, " ", end)
	if e := s.reserved.Get(id); e != nil {
		return e.Value
	}
	r := &reservation{turn: make(chan struct{}, 1), end: end, left: min(freeUnits, s.share/blockPart), next: 1}
	r.turn <- struct{}{}
	// It is used for claims that end in this slot, which are made in the time of
	// one slot, as a rule. Who comes later costs one more reservation, and has the
	// free units once more; keeping all for an hour would cost more.
	s.reserved.Put(id, owner, r, 0, time.Now().Add(2*slot))
	return r
}

// reserve enters units into the ledger of an owner: need of them, and up to want
// if there is room.
func (s *shares) reserve(ctx context.Context, owner string, need, want, end, limit int64) (int64, error) {
	key := keyOf("natsguard owner v1", owner)
	var found *item
	err := s.bucket.keep(ctx, func() (err error) {
		found, err = s.bucket.get(ctx, key)
		return err
	})
	for {
		if err != nil {
			return 0, fmt.Errorf("share: %w", s.asQuotaError(err))
		}
		l, revision := ledger{}, uint64(0)
		if found != nil && !found.gone {
			if l, err = decodeLedger(found.value); err != nil {
				return 0, fmt.Errorf("share: %w", err)
			}
			revision = found.revision
		}
		l.removeEnded(time.Now())
		free := limit - l.units()
		if free < need {
			return 0, &roundtrip.QuotaError{Resource: s.resource, Limit: string(quota.Share), RetryAfter: l.nextRoom(time.Now())}
		}
		got := min(max(need, want), free)
		l = l.add(end, got)
		_, found, err = s.bucket.swap(ctx, key, l.encode(), revision, l.until())
		if err == nil && found == nil {
			return got, nil
		}
	}
}

// A ledger is how many units are reserved until the end of which slot.
type ledger map[int64]int64

// ledgerFormat begins a ledger. Random bytes follow, so that no two are alike,
// and then slot and units in turn.
const ledgerFormat = 1

func slotAfter(t time.Time) int64 { return t.Unix()/int64(slot/time.Second) + 1 }

func endOf(end int64) time.Time { return time.Unix(end*int64(slot/time.Second), 0) }

func (l ledger) add(end, units int64) ledger {
	l[end] += units
	return l
}

func (l ledger) units() (sum int64) {
	for _, units := range l {
		sum += units
	}
	return sum
}

func (l ledger) removeEnded(now time.Time) {
	for end := range l {
		if now.After(endOf(end).Add(clockSlack)) {
			delete(l, end)
		}
	}
}

// until is when all of it has ended.
func (l ledger) until() (last time.Time) {
	for end := range l {
		if t := endOf(end).Add(clockSlack); t.After(last) {
			last = t
		}
	}
	return last
}

// nextRoom is when some of it ends, but at most a minute.
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

// Errors of the server that say that there is no room.
const (
	accountExceeded jetstream.ErrorCode = 10002
	noResources     jetstream.ErrorCode = 10023
	storageExceeded jetstream.ErrorCode = 10047
	storeFailed     jetstream.ErrorCode = 10077 // because of a limit of the stream, if it says so
)

// asQuotaError makes of the server's refusal for want of room what a caller can
// do something about. Other errors it leaves as they are.
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
	return &roundtrip.QuotaError{Resource: s.resource, Limit: string(quota.Total), RetryAfter: time.Minute}
}
