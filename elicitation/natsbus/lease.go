package natsbus

import (
	"context"
	"fmt"
	"time"
)

// renewals is how often a lease is renewed before it would end, so that one
// lost message does not end it.
const renewals = 3

// renew writes the lease again and returns its revision.
func (b *Bus) renew(ctx context.Context) (revision uint64, err error) {
	ctx, cancel := b.bound(ctx)
	defer cancel()
	err = b.bucket.keep(ctx, func() (err error) {
		revision, err = b.bucket.put(ctx, leaseKey(b.id), nil, b.opts.Lease)
		return err
	})
	return revision, err
}

// live keeps the lease until the bus closes. After an outage that was longer
// than the lease, the directory may have lost claims along with it.
func (b *Bus) live() {
	tick := time.NewTicker(b.opts.Lease / renewals)
	defer tick.Stop()
	renewed, due := time.Now(), false
	for {
		select {
		case <-b.life.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		if _, err := b.renew(b.life); err != nil {
			if b.life.Err() == nil {
				b.failed(fmt.Errorf("natsbus: lease: %w", err))
				// Should the whole bucket be gone, one replica makes it anew.
				_, _ = openBucket(b.life, b.bucket.js, b.opts)
			}
			continue
		}
		if due = due || began.Sub(renewed) > b.opts.Lease; due {
			due = !b.restore()
		}
		renewed = began
		b.expire(began)
	}
}

// restore claims again what is not in the directory any more. What somebody
// else has taken over stays theirs. It reports whether that is settled for all
// claims.
func (b *Bus) restore() (done bool) {
	b.mu.Lock()
	mine := make(map[string]held, len(b.held))
	for key, h := range b.held {
		mine[key] = h
	}
	b.mu.Unlock()
	done = true
	for key, h := range mine {
		if err := b.restoreOne(key, h); err != nil && b.life.Err() == nil {
			b.failed(fmt.Errorf("natsbus: lease: restoring a claim: %w", err))
			done = false
		}
	}
	return done
}

func (b *Bus) restoreOne(key string, h held) error {
	ctx, cancel := b.bound(b.life)
	defer cancel()
	found, err := b.bucket.get(ctx, claimKey(key))
	if err != nil || time.Until(h.until) <= 0 {
		return err
	}
	revision := found.revision
	switch id, _ := ownerOf(found.value); {
	case found.gone:
		revision, err = b.bucket.swap(ctx, claimKey(key), newClaim(b.id), found.revision, time.Until(h.until))
	case id != b.id:
		return nil
	} // else it is there, restored perhaps by an attempt whose acknowledgement got lost
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if now, ok := b.held[key]; ok && now == h {
		b.held[key] = held{revision, h.until}
	} else { // released meanwhile
		select {
		case b.releases <- release{claimKey(key), revision}:
		default:
		}
	}
	return nil
}

// expire forgets claims whose time is over: the directory has done so, too.
func (b *Bus) expire(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, h := range b.held {
		if now.After(h.until) {
			delete(b.held, key)
		}
	}
}
