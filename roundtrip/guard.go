package roundtrip

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/internal/claims"
	"github.com/rondo-mcp/rondo/internal/owner"
	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// claimState claims the state with the guard, if there is one. It is called after everything
// about the state has been verified and before its answers are used, so a refused request
// never spends a state.
//
// A claim has one of three ends. commitClaim records the result of the run, questions
// included: an exact replay, with the same state and the same answers, gets that result again
// without a run of the handler. releaseClaim gives the claim up if the handler never started,
// and otherwise leaves the state spent without a result. While the claim is open, a copy of
// the request is refused as busy, to come back soon; any other request with the state is
// refused as replayed. c was decoded from plaintext.
func (r *run) claimState(ctx context.Context, c *claims.Claims, plaintext []byte) (
	protocol.Result, error) {
	guard := r.funnel.opts.Guard
	if guard == nil {
		return nil, nil
	}
	if pool, ok := guard.(reserver); ok && r.call.Authenticates {
		pool.ReserveForAuthenticated()
	}
	// Of what the state says and not of its text: a Sealer that accepts two
	// spellings of a token must not make two states of one.
	sum := sha256.Sum256(plaintext)
	id := string(hex.AppendEncode(make([]byte, 0, 32), sum[:16]))
	// A replica whose clock is behind accepts the state for a little longer.
	err := guard.Claim(ctx, id, owner.Digest(r.call.Principal), claims.Fingerprint(r.responses),
		c.Expires.Add(clockSkew))
	if err == nil {
		r.claimID = id
		return nil, nil
	}
	spent, ok := errors.AsType[*store.SpentError](err)
	if !ok {
		// A guard that cannot answer lets nothing through.
		return nil, r.reportUnserved(ctx, err)
	}
	if spent.Outcome != nil {
		if result, err := protocol.DecodeResult(protocol.Latest, r.call.Method,
			spent.Outcome); err == nil {
			r.observe(ctx,
				event.FlowEnded{Where: r.where, Legs: c.Round + 1, How: event.EndReplayed})
			return result, nil
		}
	}
	if spent.Running {
		r.observe(ctx, event.LegRunning{Where: r.where})
		return nil, refuseCopy()
	}
	return nil, r.reportRejection(ctx, &rejection{reason: event.ReasonReplayed})
}

// A reserver is a guard or a store that shares its room among those who use it.
type reserver interface{ ReserveForAuthenticated() }

// copyRetryAfter is when to send such a copy again: most rounds take less.
const copyRetryAfter = time.Second

// refuseCopy is the error for a copy of a request that is still being served. Everything about
// the copy has been verified.
func refuseCopy() *protocol.Error {
	return quota.Refuse(quota.None, copyRetryAfter,
		"this request is being served already; send it again in %s to get its outcome",
		copyRetryAfter)
}

// commitClaim records the outcome of a claimed state. Only results are recorded: an
// error says that nothing is known to have happened. A handler that found scopes lacking says that
// nothing has: the client comes back with the same state and a larger grant.
func (e *exchange) commitClaim(ctx context.Context, result protocol.Result, err error) {
	if e.claimID == "" {
		return
	}
	if err != nil {
		if wire, ok := protocol.AsError(err); ok && wire.Code == protocol.CodeInsufficientScope {
			e.endClaim(ctx, func(ctx context.Context, guard store.Guard, id string) error {
				return guard.Release(ctx, id)
			})
		}
		return
	}
	// The newest revision can encode every outcome, questions included.
	data, err := protocol.EncodeResult(protocol.Latest, e.call.Method, result)
	if err != nil {
		e.observe(ctx, event.ServerBug{Where: e.where, Err: err})
		return
	}
	e.endClaim(ctx, func(ctx context.Context, guard store.Guard,
		id string) error {
		return guard.Commit(ctx, id, data)
	})
}

// releaseClaim ends a claim without an outcome. If the handler never started the claim is
// given up, and the state can be used again.
func (e *exchange) releaseClaim(ctx context.Context) {
	e.endClaim(ctx, func(ctx context.Context, guard store.Guard, id string) error {
		if !e.started {
			return guard.Release(ctx, id)
		}
		return guard.Commit(ctx, id, nil)
	})
}

// endClaim ends the claim, once. The client may have gone, so the context is not cancelled
// with the call's: the guard must learn that the state is spent.
func (e *exchange) endClaim(ctx context.Context,
	end func(ctx context.Context, guard store.Guard, id string) error) {
	id := e.claimID
	if e.claimID = ""; id == "" {
		return
	}
	if err := end(context.WithoutCancel(ctx), e.funnel.opts.Guard, id); err != nil {
		e.observe(ctx, event.ServerBug{Where: e.where, Err: err})
	}
}
