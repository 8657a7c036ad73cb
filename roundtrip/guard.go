package roundtrip

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// claimState claims the state with the guard, if any, after all checks and before its answers are
// used: a refused request never spends a state. c was decoded from plaintext.
//
// commitClaim records the outcome, questions included: an exact replay, with the same state and
// answers, gets that outcome without a run of the handler. If nothing that must not be repeated has
// happened, endClaim releases the claim to the same answers; otherwise the state is spent, and an
// exact replay learns that the outcome is unknown. While the claim is open, a copy of the request
// is refused as busy, and other requests with the state as replayed.
func (r responder) claimState(ctx context.Context, c *claims.Claims, plaintext []byte) (
	protocol.Result, error) {
	guard := r.funnel.opts.Guard
	if guard == nil {
		return nil, nil
	}
	r.reserveRoom(guard)
	// Derived from the claims, not the token: a Sealer may accept two spellings of one token.
	sum := sha256.Sum256(plaintext)
	id := string(hex.AppendEncode(make([]byte, 0, 32), sum[:16]))
	claim, err := guard.Claim(ctx, id, quota.OwnerDigest(r.call.Principal),
		claims.Fingerprint(r.responses), c.Expires.Add(clockSkew)) // for late clocks
	if err == nil {
		r.holdClaim(ctx, claim)
		return nil, nil
	}
	spent, ok := errors.AsType[*store.SpentError](err)
	if !ok {
		return nil, r.reportUnserved(ctx, &storeError{resourceGuard, "claim", err}) // fail closed
	}
	if spent.Outcome != nil {
		if result, err := protocol.DecodeResult(protocol.Latest, r.call.Method,
			spent.Outcome); err == nil {
			r.observe(ctx,
				event.FlowEnded{Where: r.where, Legs: c.Round + 1, How: words.EndReplayed})
			return result, nil
		}
	}
	if spent.Running {
		r.observe(ctx, event.LegRunning{Where: r.where})
		return nil, refuseCopy()
	}
	if spent.Unknown {
		if task := r.call.Task; task != nil && task.Find != nil {
			if begun, err := task.Find(ctx, c.Flow); err != nil {
				return nil, r.reportUnserved(ctx, &storeError{resourceTasks, "find", err})
			} else if begun != nil {
				return begun, nil
			}
		}
		r.observe(ctx, event.FlowEnded{Where: r.where, Legs: c.Round + 1, How: words.EndReplayed})
		return r.refuseFlow(protocol.CodeFlowEnded, outcomeUnknownText)
	}
	return nil, r.reportRejection(ctx, &rejection{reason: words.ReasonReplayed})
}

// A reserver is a guard or a store with quotas for its users.
type reserver interface{ ReserveForAuthenticated() }

// reserveRoom reserves capacity for authenticated callers, if the host has any.
func (e *exchange) reserveRoom(pool any) {
	if pool, ok := pool.(reserver); ok && e.call.Authenticates {
		pool.ReserveForAuthenticated()
	}
}

const copyRetryAfter = time.Second // the default; most rounds take less

// refuseCopy is the error for a verified copy of a request still being served.
func refuseCopy() *protocol.Error {
	return quota.Refuse(quota.None, copyRetryAfter,
		"this request is being served already; send it again in %s to get its outcome",
		copyRetryAfter)
}

// commitClaim records the outcome of a claimed state. Errors are not recorded, as their effects are
// unknown. A missing scope releases the claim for a retry with a larger grant.
func (r responder) commitClaim(ctx context.Context, result protocol.Result, err error) {
	if wire, ok := protocol.AsError(err); ok && wire.Code == protocol.CodeInsufficientScope {
		r.retriable = true
		r.putBackUnlessActed(ctx)
	}
	if r.held == nil || r.unrecorded || err != nil {
		return
	}
	data, err := protocol.EncodeResult(protocol.Latest, r.call.Method, result) // any outcome
	if err != nil {
		r.observe(ctx, event.ServerBug{Where: r.where, Err: err})
		return
	}
	r.endClaim(ctx, data)
}

// endClaim ends the claim once, with an outcome, or nil to release it if nothing that must not be
// repeated has happened. Its context outlives the call's, so the state is spent in any case.
func (e *exchange) endClaim(ctx context.Context, outcome []byte) {
	claim := e.dropClaim()
	if claim == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if outcome == nil && (!e.started || e.retriable) {
		e.observeStore(ctx, claim.Release(ctx), resourceGuard, "release")
		return
	}
	e.observeStore(ctx, claim.Commit(ctx, outcome), resourceGuard, "commit")
}

const (
	resourceGuard = "guard"
	resourceStore = "store"
	resourceTasks = "tasks"
)

// A storeError means that a guard or a store failed.
type storeError struct {
	resource, operation string
	error
}

func (e *storeError) Unwrap() error { return e.error }

func (e *exchange) observeStore(ctx context.Context, err error, resource, operation string) {
	if err != nil && ctx.Err() == nil {
		e.observe(ctx, event.StoreFailed{Where: e.where, Resource: resource,
			Operation: operation, Err: err})
	}
}

// outcomeUnknownText is for repeated requests without a recorded outcome.
const outcomeUnknownText = "the outcome is not known: the request ended before it had a result " +
	"that was recorded; find out what it did before you start the call again"

// giveClaimUp releases the claim to the same answers if no code ran that must not run twice, and
// reports whether the request can be retried. The handler has returned. In guard style the code
// behind an answer has run, so only a suspended run of flow style qualifies.
func (r responder) giveClaimUp() bool {
	r.mu.Lock()
	f := r.flow
	suspended := f != nil && (f.asksClient() || f.end != nil && f.end.cut)
	acted := r.acted || waiting.PageOf(&r.ctx).Acted
	r.retriable = !acted && (r.held == nil || suspended)
	r.mu.Unlock()
	if suspended {
		r.putBackUnlessActed(&r.ctx)
	}
	return r.retriable
}

// answerCutOff answers a request that ended before its run had a result, and copies of it.
func (r responder) answerCutOff(ctx context.Context, retriable bool) (protocol.Result, error) {
	r.observe(ctx, event.CutOff{Where: r.where, Retriable: retriable})
	if retriable {
		return nil, quota.Refuse(quota.None, copyRetryAfter, "the request ended while it waited; "+
			"send it again in %s", copyRetryAfter)
	}
	r.unrecorded = true
	r.reportFlowEnd(ctx, words.EndFailed)
	return r.refuseFlow(protocol.CodeFlowEnded, outcomeUnknownText)
}

// failedByCutOff reports whether the request's end explains the failure of a claimed run.
func (r responder) failedByCutOff(ctx context.Context, result protocol.Result, err error) bool {
	if r.held == nil || ctx.Err() == nil {
		return false
	}
	text := ""
	if failed, ok := result.(*protocol.CallToolResult); err != nil {
		text = err.Error()
	} else if ok && failed != nil && failed.IsError {
		for _, block := range failed.Content {
			if block, ok := block.(*protocol.TextContent); ok {
				text += block.Text
			}
		}
	}
	_, own := protocol.AsError(err)
	return !own && (strings.Contains(text, context.Canceled.Error()) ||
		strings.Contains(text, context.DeadlineExceeded.Error()) ||
		strings.Contains(text, context.Cause(ctx).Error()))
}
