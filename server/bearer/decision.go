package bearer

import (
	"context"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const (
	// maxCacheTime is how long a verified JSON Web Token is cached at most. A key that its issuer
	// revokes still counts for that long.
	maxCacheTime = 5 * time.Minute
	// maxActiveCacheTime is how long a token is cached at most that introspection accepted.
	maxActiveCacheTime = 30 * time.Second
	// inactiveCacheTime is how long a token is cached that introspection refused.
	inactiveCacheTime = 5 * time.Second
	// maxInactive is how many tokens are cached that introspection refused.
	maxInactive = 1024
	// verifyTimeout bounds the verification of a token, including the requests to its issuer.
	verifyTimeout = 15 * time.Second
)

// A decision is the outcome of the verification of a token.
type decision struct {
	identity serverhttp.Identity
	err      error     // why the token is refused, or cannot be verified now; nil: it is accepted
	until    time.Time // how long it may be cached; zero: not at all
}

// A verification is a decision that may still be pending.
type verification struct {
	decision
	done    chan struct{} // closed when the decision is made
	cancel  context.CancelFunc
	waiters int // how many requests wait for it
}

// verifyOnce verifies a token once for all requests that bring it meanwhile. A request that is
// cancelled does not end the verification for the others.
func (g *Guard) verifyOnce(ctx context.Context, sum digest, token string) (
	serverhttp.Identity, error) {
	g.mu.Lock()
	v := g.pending[sum]
	if v == nil {
		v = g.startVerificationLocked(ctx, sum, token)
	}
	v.waiters++
	g.mu.Unlock()
	select {
	case <-v.done:
		return v.identity, v.err
	case <-ctx.Done():
		g.leaveVerification(sum, v)
		return serverhttp.Identity{}, &unavailableError{issuerUnreachable, defaultRetry, ctx.Err()}
	}
}

// startVerificationLocked starts the verification of a token, in a goroutine and with a time limit
// of its own.
func (g *Guard) startVerificationLocked(ctx context.Context, sum digest,
	token string) *verification {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), verifyTimeout)
	v := &verification{done: make(chan struct{}), cancel: cancel}
	g.pending[sum] = v
	go g.runVerification(ctx, v, sum, token)
	return v
}

// leaveVerification is called for a request that does not wait any more. The last one cancels the
// verification, so that senders who do not wait for the response cannot pile verifications up. A
// later request with the token starts another.
func (g *Guard) leaveVerification(sum digest, v *verification) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v.waiters--; v.waiters == 0 {
		g.forgetVerificationLocked(sum, v)
		v.cancel()
	}
}

// forgetVerificationLocked removes a verification from those that requests may join.
func (g *Guard) forgetVerificationLocked(sum digest, v *verification) {
	if g.pending[sum] == v {
		delete(g.pending, sum)
	}
}

// runVerification makes the decision of v, caches it, and wakes the requests that wait for it.
func (g *Guard) runVerification(ctx context.Context, v *verification, sum digest, token string) {
	defer v.cancel()
	defer close(v.done)
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.forgetVerificationLocked(sum, v)
		g.cacheDecisionLocked(sum, v.decision)
	}()
	defer func() {
		if p := recover(); p != nil { // of Options.Subject
			v.decision = decision{err: refuse(wrongSubject, fmt.Errorf("panic: %v", p))}
		}
	}()
	v.decision = g.verifyToken(ctx, token)
}

// cacheDecisionLocked caches a decision that has a time until which it counts.
func (g *Guard) cacheDecisionLocked(sum digest, d decision) {
	switch {
	case g.verified == nil || d.until.IsZero():
	case d.err != nil:
		g.verified.Delete(sum)
		g.inactive.Put(sum, d)
	default:
		g.verified.Put(sum, d)
	}
}

// findDecision returns the cached decision about a token. ok is false where there is none that
// still counts.
func (g *Guard) findDecision(sum digest) (d decision, ok bool) {
	now := time.Now()
	g.mu.Lock()
	d, ok = g.verified.Get(sum)
	if !ok || !now.Before(d.until) {
		d, ok = g.inactive.Get(sum)
	}
	g.mu.Unlock()
	return d, ok && now.Before(d.until)
}
