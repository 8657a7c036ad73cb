package natsguard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A Guard is a [roundtrip.Guard] for a fleet: whichever replica claims a state
// first has it, and the others hand out what came of it. It may be used
// concurrently. It starts nothing and needs no closing; the connection stays
// the caller's.
type Guard struct {
	bucket     *bucket
	shares     *shares
	longest    time.Duration
	maxOutcome int

	mu   sync.Mutex
	held *quota.Store[held] // by key
}

var _ roundtrip.Guard = (*Guard)(nil)

// held is a claim of this guard that was neither committed nor released. Its
// revision is the fence: who has been overtaken changes nothing any more.
type held struct {
	owner    string
	entry    entry
	revision uint64
	until    time.Time
}

// New returns a guard that keeps its claims in the bucket that opts names, nil
// for the defaults. It fails when the bucket cannot be reached within
// [Options].Timeout or could forget a claim before its time. ctx ends the
// call, not the guard.
func New(ctx context.Context, js jetstream.JetStream, opts *Options) (*Guard, error) {
	o := opts.withDefaults()
	b, err := openBucket(ctx, js, o)
	if err != nil {
		return nil, fmt.Errorf("natsguard: %w", err)
	}
	return &Guard{
		bucket: b, shares: newShares(b, "guard", o), longest: o.Longest, maxOutcome: o.MaxOutcome,
		held: quota.NewStore(quota.StoreOptions[held]{MaxEntries: MaxHeld, MaxBytes: -1}),
	}, nil
}

// Claim implements [roundtrip.Guard]. It returns within [Options].Timeout,
// whether ctx ends or not: giving up half way would leave a claim that nobody
// knows of. When NATS does not answer in that time the claim may have been
// made all the same; the state is then spent without having been used, because
// the other mistake would be to use it twice. An owner that has used up its share
// of the bucket gets a [roundtrip.QuotaError], as everybody does when the bucket
// is full; what was claimed before is still known to be spent.
func (g *Guard) Claim(ctx context.Context, id, owner string, fingerprint [32]byte, until time.Time) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("natsguard: claim: %w", err)
	}
	if left := time.Until(until); left > g.longest {
		return fmt.Errorf("natsguard: claim: it must be remembered for %v, longer than Options.Longest, %v", left, g.longest)
	}
	ctx, cancel := g.bucket.bound(ctx)
	defer cancel()
	key := keyOf("natsguard claim v1", id)
	mine := newEntry(id, fingerprint)
	if err := g.shares.takeUnits(ctx, owner, claimUnits, until, 1); err != nil {
		return g.refuse(ctx, key, id, fingerprint, err)
	}
	revision, found, err := g.bucket.swap(ctx, key, mine.encode(), 0, until)
	if err != nil {
		return g.refuse(ctx, key, id, fingerprint, g.shares.asQuotaError(err))
	}
	if found != nil {
		g.shares.giveUnits(owner, claimUnits, until)
		return g.spent(id, fingerprint, found)
	}
	g.hold(key, held{owner, mine, revision, until})
	return nil
}

// claimUnits is what a claim counts without its outcome.
const claimUnits = 1

// refuse says why a claim was not made: that there is no room is of no interest
// to who presents a state that is spent.
func (g *Guard) refuse(ctx context.Context, key, id string, fingerprint [32]byte, err error) error {
	if _, full := errors.AsType[*roundtrip.QuotaError](err); full {
		if found, read := g.bucket.get(ctx, key); read == nil && found != nil && !found.gone {
			return g.spent(id, fingerprint, found)
		}
	}
	return fmt.Errorf("natsguard: claim: %w", err)
}

// spent says what is known of a claim that was made before.
func (g *Guard) spent(id string, fingerprint [32]byte, found *item) error {
	e, err := decodeEntry(found.value)
	if err != nil {
		return fmt.Errorf("natsguard: claim: %w", err)
	}
	if e.print != boundPrint(id, fingerprint) || e.kind == kindUnkept {
		return &roundtrip.SpentError{}
	}
	if e.kind == kindClaimed {
		return &roundtrip.SpentError{Running: time.Since(found.stored) < runningFor}
	}
	outcome, err := e.outcome(id)
	if err != nil {
		return fmt.Errorf("natsguard: claim: recorded outcome: %w", err)
	}
	return &roundtrip.SpentError{Outcome: outcome}
}

// runningFor is how long a claim that was neither committed nor released counts as
// one whose leg is running. A replica that has died commits nothing; legs take less,
// those that hold a request for a visit included.
const runningFor = 2 * time.Minute

// Commit implements [roundtrip.Guard]. An outcome that is longer than
// [Options].MaxOutcome is not recorded, nor is one for which there is no room
// beside claims, which is no error: the state stays spent and its replay is
// refused. Like Claim it is bounded by
// [Options].Timeout and not by ctx.
func (g *Guard) Commit(ctx context.Context, id string, outcome []byte) error {
	key := keyOf("natsguard claim v1", id)
	h, ok := g.find(key)
	if !ok {
		return errors.New("natsguard: commit without a claim")
	}
	const sealing = 12 + 16 // nonce and tag
	limit := min(g.maxOutcome, g.bucket.room()-headerSize-sealing)
	ctx, cancel := g.bucket.bound(ctx)
	defer cancel()
	if outcome == nil || len(outcome) <= limit && g.takeForOutcome(ctx, h, len(outcome)) != nil {
		limit = -1
	}
	committed, err := h.entry.commit(id, outcome, limit)
	if err != nil {
		return fmt.Errorf("natsguard: commit: %w", err)
	}
	_, found, err := g.bucket.swap(ctx, key, committed.encode(), h.revision, h.until)
	if _, full := errors.AsType[*roundtrip.QuotaError](g.shares.asQuotaError(err)); full {
		if committed, err = h.entry.commit(id, outcome, -1); err == nil {
			_, found, err = g.bucket.swap(ctx, key, committed.encode(), h.revision, h.until)
		}
	}
	if err != nil {
		return fmt.Errorf("natsguard: commit: %w", err)
	}
	g.forget(key)
	if found != nil {
		return errors.New("natsguard: commit: the claim is not this guard's any more")
	}
	return nil
}

// outcomePart is the part of a share from which on outcomes are not recorded any
// more, so that they do not take the room of claims.
const outcomePart = 2

// takeForOutcome uses room for an outcome. It leaves half of the time to the
// commit itself.
func (g *Guard) takeForOutcome(ctx context.Context, h held, size int) error {
	ctx, cancel := context.WithTimeout(ctx, g.bucket.timeout/2)
	defer cancel()
	return g.shares.takeUnits(ctx, h.owner, unitsOf(size), h.until, outcomePart)
}

// Release implements [roundtrip.Guard]. A claim that was committed, or that is
// not this guard's, stays as it is, which is no error.
func (g *Guard) Release(ctx context.Context, id string) error {
	key := keyOf("natsguard claim v1", id)
	h, ok := g.find(key)
	if !ok {
		return nil
	}
	ctx, cancel := g.bucket.bound(ctx)
	defer cancel()
	if err := g.bucket.connected(ctx); err != nil {
		return fmt.Errorf("natsguard: release: %w", err)
	}
	err := g.bucket.remove(ctx, key, h.revision)
	if err != nil && !conflict(err) {
		return fmt.Errorf("natsguard: release: %w", err)
	}
	if err == nil {
		g.shares.giveUnits(h.owner, claimUnits, h.until)
	}
	g.forget(key)
	return nil
}

func (g *Guard) hold(key string, h held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.held.Get(key); e != nil {
		g.held.Remove(e) // of a claim that the bucket has forgotten
	}
	g.held.Put(key, h.owner, h, 0, h.until)
}

func (g *Guard) find(key string) (h held, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.held.Get(key); e != nil {
		return e.Value, true
	}
	return h, false
}

func (g *Guard) forget(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.held.Get(key); e != nil {
		g.held.Remove(e)
	}
}
