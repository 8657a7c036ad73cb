package natsbus

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go"
)

// renewals is how often a lease is renewed before it would end, so that one
// lost message does not end it.
const renewals = 3

// renewLease writes the lease again and returns its revision. It retries until
// [Options].Timeout has passed.
func (b *Bus) renewLease(ctx context.Context) (revision uint64, err error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	err = b.bucket.Retry(ctx, func() (err error) {
		revision, err = b.bucket.Put(ctx, leaseKey(b.id), nil, b.opts.Lease)
		return err
	})
	return revision, err
}

// keepLease is a goroutine. It renews the lease until the bus closes. If that
// failed for longer than the lease lasts, or the directory is a new one, the claims may be
// lost, too, and they are restored.
func (b *Bus) keepLease() {
	tick := time.NewTicker(b.opts.Lease / renewals)
	defer tick.Stop()
	reconnected := b.nc.StatusChanged(nats.CONNECTED)
	defer b.nc.RemoveStatusListener(reconnected)
	renewed, restore := time.Now(), false
	for {
		select {
		case <-b.life.Done():
			return
		case <-tick.C:
		case <-reconnected: // to another server, perhaps
		}
		began := time.Now()
		if _, err := b.renewLease(b.life); err != nil {
			if b.life.Err() == nil {
				b.doubts.add(theDirectory)
				b.reportFailure(fmt.Errorf("natsbus: lease: %w", err))
				// If the whole bucket is gone this creates it again. Only the
				// bucket on the server matters: b.bucket goes on using it.
				if _, err := openBucket(b.life, b.js, b.opts); err != nil && b.life.Err() == nil {
					b.reportFailure(fmt.Errorf("natsbus: lease: %w", err))
				}
			}
			continue
		}
		isNew := b.observeServers(b.life)
		if restore = restore || isNew || began.Sub(renewed) > b.opts.Lease; restore {
			restore = !b.restoreClaims()
		}
		renewed = began
		if err := b.writeHome(b.life); err != nil && b.life.Err() == nil {
			b.reportFailure(fmt.Errorf("natsbus: lease: %w", err))
		}
		b.dropExpired(began)
	}
}

// restoreClaims stores the claims again that are no longer in the directory. It
// leaves those to other replicas that they have taken over. It reports whether it
// has dealt with all claims.
func (b *Bus) restoreClaims() (done bool) {
	b.mu.Lock()
	held := maps.Clone(b.held)
	b.mu.Unlock()
	done = true
	for key, h := range held {
		if err := b.restoreClaim(key, h); err != nil && b.life.Err() == nil {
			b.reportFailure(fmt.Errorf("natsbus: lease: restoring a claim: %w", err))
			done = false
		}
	}
	return done
}

func (b *Bus) restoreClaim(key string, h heldClaim) error {
	ctx, cancel := b.withTimeout(b.life)
	defer cancel()
	name := claimKey(key)
	found, err := b.bucket.Get(ctx, name)
	ttl := time.Until(h.until)
	if err != nil || ttl <= 0 {
		return err
	}
	revision := found.Revision
	if found.Gone {
		revision, err = b.bucket.PutAfter(ctx, name, newClaim(b.id), found.Revision, ttl)
		if err != nil {
			return err
		}
	} else if id, _ := ownerOf(found.Value); id != b.id {
		return nil
	} // else it was not lost, or an attempt before has restored it
	b.mu.Lock()
	defer b.mu.Unlock()
	if now, ok := b.held[key]; ok && now == h {
		b.held[key] = heldClaim{revision, h.until}
	} else { // it was released meanwhile
		b.queueRelease(name, revision)
	}
	return nil
}

// dropExpired forgets claims whose time to live has ended in the directory, too.
func (b *Bus) dropExpired(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, h := range b.held {
		if now.After(h.until) {
			delete(b.held, key)
		}
	}
}
