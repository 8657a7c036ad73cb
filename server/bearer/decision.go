package bearer

import (
	"context"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const (
	maxCacheTime       = 5 * time.Minute  // limits how long a revoked key is still used
	maxActiveCacheTime = 30 * time.Second // for a token that introspection accepted
	inactiveCacheTime  = 5 * time.Second  // for a token that introspection refused
	maxInactive        = 1024             // number of cached tokens that introspection refused
	verifyTimeout      = 15 * time.Second // includes requests to the issuer
)

type decision struct {
	identity serverhttp.Identity
	err      error     // a *refusedError, or nil if the token is accepted
	until    time.Time // end of the time in the cache; zero: not cached
}

// A verification is an in-flight verification of a token, shared by all requests with the token.
type verification struct {
	decision               // set before done is closed
	done     chan struct{} // closed at the end
	cancel   context.CancelFunc
	waiters  int // reference count of the waiting requests
}

type presented struct {
	token  string
	sum    digest
	source string // see sourceOf
	known  bool   // the token was accepted not long ago
}

func (g *ResourceServer) verifyOnce(ctx context.Context, p *presented) decision {
	sum := p.sum
	g.mu.Lock()
	v := g.inFlight[sum]
	if v == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), verifyTimeout)
		v = &verification{done: make(chan struct{}), cancel: cancel}
		g.inFlight[sum] = v
		go g.runVerification(ctx, v, p)
	}
	v.waiters++
	g.mu.Unlock()
	select {
	case <-v.done:
		return v.decision
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		if v.waiters--; v.waiters == 0 { // none accumulate of senders who do not wait
			g.forgetVerificationLocked(sum, v)
			v.cancel()
		}
		return decision{err: postpone(issuerUnreachable, defaultRetry, ctx.Err())}
	}
}

func (g *ResourceServer) forgetVerificationLocked(sum digest, v *verification) {
	if g.inFlight[sum] == v {
		delete(g.inFlight, sum)
	}
}

// runVerification makes and caches v's decision, and wakes the waiting requests.
func (g *ResourceServer) runVerification(ctx context.Context, v *verification, p *presented) {
	defer v.cancel()
	defer close(v.done)
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.forgetVerificationLocked(p.sum, v)
		g.cacheDecisionLocked(p.sum, v.decision)
	}()
	defer func() {
		if p := recover(); p != nil { // a bug; no token must end the process
			v.decision = decision{err: refuse(wrongSubject, "", fmt.Errorf("panic: %v", p))}
		}
	}()
	v.decision = g.verifyToken(ctx, p)
}

// cacheDecisionLocked caches a decision until its expiry, or without a cache only acceptance.
func (g *ResourceServer) cacheDecisionLocked(sum digest, d decision) {
	off := g.opts.MaxCachedTokens < 0
	switch {
	case d.until.IsZero():
	case d.err != nil:
		g.verified.Delete(sum)
		if !off {
			g.inactive.Put(sum, d)
		}
	case off:
		g.verified.Put(sum, decision{})
	default:
		g.verified.Put(sum, d)
	}
}

// findDecision returns the cached decision about a token. ok means that it exists and has not
// expired. known means that the token was accepted, even if that decision has expired.
func (g *ResourceServer) findDecision(sum digest) (d decision, known, ok bool) {
	now := time.Now()
	g.mu.Lock()
	d, known = g.verified.Get(sum)
	if ok = known && now.Before(d.until); !ok {
		d, ok = g.inactive.Get(sum)
		ok = ok && now.Before(d.until)
	}
	g.mu.Unlock()
	return d, known, ok
}
