package natsguard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natskv"
	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// A Guard is a [store.Guard] for a fleet: whichever replica claims a state
// first has it, and the others return the outcome that it records. It may be used
// concurrently. It starts no goroutines and needs no closing; the connection
// stays the caller's.
type Guard struct {
	bucket     *bucket
	shares     *shares
	longest    time.Duration
	maxOutcome int

	mu       sync.Mutex
	held     *quota.Store[heldClaim] // by key
	claiming map[string]struct{}     // the keys for which Claim runs
	unsure   *quota.Store[entry]     // claims that may have been stored, by unsureKey
}

var _ store.Guard = (*Guard)(nil)

// A heldClaim is a claim of this guard that was neither committed nor released.
// Commit and Release expect its revision, so that they change nothing if another
// replica has overtaken this one.
type heldClaim struct {
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
	o, err := opts.withDefaults(DefaultBucket)
	if err != nil {
		return nil, fmt.Errorf("natsguard: %w", err)
	}
	b, err := openBucket(ctx, js, o)
	if err != nil {
		return nil, fmt.Errorf("natsguard: %w", err)
	}
	return &Guard{
		bucket: b, shares: newShares(b, "guard", o), longest: o.Longest, maxOutcome: o.MaxOutcome,
		held:     quota.NewStore[heldClaim](quota.StoreOptions{MaxEntries: MaxHeld, MaxBytes: -1}),
		claiming: make(map[string]struct{}),
		unsure:   quota.NewStore[entry](quota.StoreOptions{MaxEntries: maxUnsure, MaxBytes: -1}),
	}, nil
}

// claimUnits is how many units a claim takes without its outcome.
const claimUnits = 1

// claimKey returns the key at which the claim of a state is stored.
func claimKey(id string) string { return keyOf("natsguard claim v1", id) }

// Claim implements [store.Guard]. It returns within [Options].Timeout and
// ignores the end of ctx meanwhile, because giving up half way could leave a
// claim that nobody knows of. When NATS does not answer in time the claim may
// have been stored all the same. No handler runs then, and a retry with the same answers
// that arrives at this guard adopts the claim. At another guard the state is spent: the
// other mistake would be to use it twice. An owner that has used up its
// share of the bucket gets a [store.QuotaError], and so does everybody when
// the bucket is full. States that were claimed before are reported as spent even
// then.
func (g *Guard) Claim(
	ctx context.Context, id, owner string, fingerprint [32]byte, until time.Time,
) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("natsguard: claim: %w", err)
	}
	if left := time.Until(until); left > g.longest {
		return fmt.Errorf("natsguard: claim: it must be remembered for %v, "+
			"longer than Options.Longest, %v", left, g.longest)
	}
	ctx, cancel := g.bucket.withTimeout(ctx)
	defer cancel()
	key := claimKey(id)
	if !g.beginClaim(key) {
		return &store.SpentError{Running: true}
	}
	defer g.endClaim(key)
	mine, again := g.takeUnsure(key, bindFingerprint(id, fingerprint))
	if !again {
		mine = newEntry(id, fingerprint)
		if err := g.shares.takeUnits(ctx, owner, claimUnits, until, 1); err != nil {
			return g.refuseClaim(ctx, key, id, fingerprint, err)
		}
	}
	revision, found, err := g.bucket.storeEntry(ctx, key, mine.encode(), 0, until)
	if found != nil && isReleased(found, mine.print) {
		if !again { // the units that the first claim took stay with the key
			g.shares.giveUnits(owner, claimUnits, until)
		}
		revision, found, err = g.bucket.storeEntry(ctx, key, mine.encode(), found.Revision, until)
		again = true
	}
	if err != nil {
		err = g.shares.asQuotaError(err)
		if isFull(err) && !again {
			g.shares.giveUnits(owner, claimUnits, until)
		} else {
			g.addUnsure(key, owner, mine, until)
		}
		return g.refuseClaim(ctx, key, id, fingerprint, err)
	}
	if found != nil {
		if !again {
			g.shares.giveUnits(owner, claimUnits, until)
		}
		return spentError(id, fingerprint, found)
	}
	g.addHeld(key, heldClaim{owner, mine, revision, until})
	return nil
}

// refuseClaim returns the error for a claim that was not stored because of err.
// If the state is spent that is the answer, whether there is room or not.
func (g *Guard) refuseClaim(
	ctx context.Context, key, id string, fingerprint [32]byte, err error,
) error {
	if isFull(err) {
		if found, readErr := g.bucket.Get(ctx, key); readErr == nil && !found.Gone {
			return spentError(id, fingerprint, &found)
		}
	}
	return fmt.Errorf("natsguard: claim: %w", err)
}

// spentError returns the error for a state that was claimed before, with the
// outcome if one is recorded for the same answers.
func spentError(id string, fingerprint [32]byte, found *natskv.Entry) error {
	e, err := decodeEntry(found.Value)
	if err != nil {
		return fmt.Errorf("natsguard: claim: %w", err)
	}
	switch {
	case e.print != bindFingerprint(id, fingerprint):
		return &store.SpentError{}
	case e.kind == kindClaimed:
		running := time.Since(found.Stored) < runningFor
		return &store.SpentError{Running: running, Unknown: !running}
	case e.kind == kindUnrecorded:
		return &store.SpentError{Unknown: true}
	case e.kind == kindReleased: // by another guard, since this one looked
		return &store.SpentError{Running: true}
	}
	outcome, err := e.openOutcome(id)
	if err != nil {
		return fmt.Errorf("natsguard: claim: recorded outcome: %w", err)
	}
	return &store.SpentError{Outcome: outcome}
}

// isReleased reports whether what is stored may be claimed again by the answers of print.
func isReleased(found *natskv.Entry, print [32]byte) bool {
	e, err := decodeEntry(found.Value)
	return err == nil && !found.Gone && e.kind == kindReleased && e.print == print
}

// runningFor is how long the handler of a claim that was neither committed nor
// released counts as running. A replica that has died never commits. Legs take
// less, those included that hold a request until a URL was visited.
const runningFor = 2 * time.Minute

// Commit implements [store.Guard]. An outcome is not recorded if it is longer
// than [Options].MaxOutcome or would take the room of claims. That is no error:
// the state stays spent and its replay is refused. Like Claim it is bounded by
// [Options].Timeout and not by ctx.
func (g *Guard) Commit(ctx context.Context, id string, outcome []byte) error {
	key := claimKey(id)
	h, ok := g.findHeld(key)
	if !ok {
		return errors.New("natsguard: commit without a claim")
	}
	ctx, cancel := g.bucket.withTimeout(ctx)
	defer cancel()
	recorded := g.reserveOutcome(ctx, h, outcome)
	found, err := g.storeCommit(ctx, key, id, h, outcome, recorded)
	if isFull(g.shares.asQuotaError(err)) {
		if recorded {
			g.shares.giveUnits(h.owner, unitsOf(len(outcome)), h.until)
		}
		found, err = g.storeCommit(ctx, key, id, h, outcome, false)
	}
	if err != nil {
		return fmt.Errorf("natsguard: commit: %w", err)
	}
	g.removeHeld(key, h)
	if found != nil {
		return errors.New("natsguard: commit: the claim is not this guard's any more")
	}
	return nil
}

// storeCommit replaces a claim by its committed form, with the outcome if it is
// to be recorded. It returns what it found if the claim is gone or another's.
func (g *Guard) storeCommit(
	ctx context.Context, key, id string, h heldClaim, outcome []byte, recorded bool,
) (found *natskv.Entry, err error) {
	committed := h.entry
	if err := committed.commitOutcome(id, outcome, recorded); err != nil {
		return nil, err
	}
	_, found, err = g.bucket.storeEntry(ctx, key, committed.encode(), h.revision, h.until)
	return found, err
}

// outcomePart is the part of a share, one in outcomePart, that outcomes may use.
// The rest is for claims alone.
const outcomePart = 2

// reserveOutcome reports whether an outcome can be recorded, and takes units for
// it from the share of its owner. It leaves half of the time to the commit.
func (g *Guard) reserveOutcome(ctx context.Context, h heldClaim, outcome []byte) bool {
	const sealing = 12 + 16 // nonce and tag
	limit := min(g.maxOutcome, g.bucket.maxValueSize()-headerSize-sealing)
	if outcome == nil || len(outcome) > limit {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, g.bucket.timeout/2)
	defer cancel()
	err := g.shares.takeUnits(ctx, h.owner, unitsOf(len(outcome)), h.until, outcomePart)
	return err == nil
}

// Release implements [store.Guard]. A claim that was committed, or that is
// not this guard's, stays as it is, which is no error.
func (g *Guard) Release(ctx context.Context, id string) error {
	key := claimKey(id)
	h, ok := g.findHeld(key)
	if !ok {
		return nil
	}
	ctx, cancel := g.bucket.withTimeout(ctx)
	defer cancel()
	if err := g.bucket.WaitConnected(ctx); err != nil {
		return fmt.Errorf("natsguard: release: %w", err)
	}
	released := h.entry
	released.kind = kindReleased
	_, _, err := g.bucket.storeEntry(ctx, key, released.encode(), h.revision, h.until)
	if err != nil {
		return fmt.Errorf("natsguard: release: %w", err)
	}
	g.removeHeld(key, h)
	return nil
}

func (g *Guard) addHeld(key string, h heldClaim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.held.Get(key); e != nil {
		g.held.Remove(e) // of a claim that the bucket has forgotten
	}
	g.held.Put(key, h.owner, h, 0, h.until)
}

func (g *Guard) findHeld(key string) (h heldClaim, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.held.Get(key); e != nil {
		return e.Value, true
	}
	return h, false
}

// removeHeld forgets h. It leaves a claim that was made since h was released.
func (g *Guard) removeHeld(key string, h heldClaim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.held.Get(key); e != nil && e.Value.revision == h.revision {
		g.held.Remove(e)
	}
}
