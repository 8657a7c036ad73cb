package roundtrip

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/internal/seal"
	"github.com/rondo-mcp/rondo/protocol"
)

// openState verifies the state that came with the call, binds it to the call and
// claims it. It returns a result only for an exact replay of a claimed state.
// A refusal is the frozen error: the reason stays with the observer.
func (p *exchange) openState(ctx context.Context) (protocol.Result, error) {
	if p.run == nil {
		p.run = &p.first
	} else { // a further leg of a call on a legacy connection
		p.run = &run{}
	}
	p.run.number, p.run.exchange = 1, p
	p.where.Round = 1
	text, present := p.call.State.Text()
	if !present && p.localState == nil {
		return nil, nil
	}
	if p.funnel.opts.Plain {
		if len(text) > p.funnel.opts.MaxStateBytes {
			return nil, p.reportRejection(ctx, &rejection{reason: ReasonTooLong})
		}
		p.run.plain = p.call.State
		return nil, nil
	}
	c, err := p.readState(ctx, text)
	if _, refused := errors.AsType[*rejection](err); err != nil && !refused {
		return nil, p.reportUnserved(ctx, err) // nothing is known about the state
	}
	if err != nil {
		return nil, p.reportRejection(ctx, err)
	}
	if c == nil { // expired, and allowed to start over
		return nil, nil
	}
	if p.localState == nil { // else nobody can have it twice
		if result, err := p.claimState(ctx, c); err != nil || result != nil {
			return result, err
		}
	}
	p.prior = c
	p.nameFlow(c.flow)
	p.where.Round = c.round + 1
	p.run.number = c.round + 1
	p.run.asked, p.run.state, p.run.memos, p.run.version = c.asked, c.state, c.memos, c.version
	p.run.id, p.run.identified = c.flow, true
	if !p.funnel.silent {
		p.observe(ctx, Resumed{p.where, time.Since(c.issued), len(text)})
	}
	return nil, nil
}

// nameFlow tells observers which flow this is.
func (p *exchange) nameFlow(flow [16]byte) {
	if !p.funnel.silent {
		p.where.Flow = hex.EncodeToString(flow[:])
	}
}

// readState reads the state that came with the call, or that a round of it left.
func (p *exchange) readState(ctx context.Context, text string) (*claims, error) {
	if p.localState != nil {
		return p.verifyClaims(p.localState)
	}
	plaintext, err := p.unsealState(ctx, text)
	if err != nil {
		return nil, err
	}
	return p.verifyClaims(plaintext)
}

// unsealState returns what a state says.
func (p *exchange) unsealState(ctx context.Context, text string) ([]byte, error) {
	if len(text) > p.funnel.opts.MaxStateBytes {
		return nil, &rejection{reason: ReasonTooLong}
	}
	plaintext, err := p.funnel.opts.Sealer.Open(ctx, text)
	if err != nil {
		return nil, &rejection{sealReason(err), err}
	}
	if len(plaintext) > 0 && plaintext[0] == handleLayout {
		return p.loadStored(ctx, plaintext)
	}
	return plaintext, nil
}

// verifyClaims reads claims and checks everything they are bound to. It returns nil
// and no error for an expired state where the flow may start over.
func (p *exchange) verifyClaims(plaintext []byte) (*claims, error) {
	c, err := decodeClaims(plaintext, &claims{
		principal: p.call.Principal, method: p.call.Method, target: p.call.Target, audience: p.funnel.opts.Audience,
	})
	if errors.Is(err, errClaimsLayout) {
		return nil, &rejection{ReasonVersion, err}
	}
	if err != nil {
		return nil, &rejection{ReasonMalformed, err}
	}
	c.sealed = plaintext
	if reason := p.checkBinding(c); reason != "" {
		return nil, &rejection{reason: reason}
	}
	if reason := checkFreshness(c, time.Now()); reason != "" {
		if p.funnel.opts.RestartExpired && reason != ReasonFuture {
			p.restartFlow()
			return nil, nil
		}
		return nil, &rejection{reason: reason}
	}
	return c, nil
}

// restartFlow forgets what came with an expired state.
func (p *exchange) restartFlow() {
	for _, r := range p.call.Responses {
		p.run.dropped = append(p.run.dropped, Dropped{r.Key, DropExpired})
	}
	p.call.Responses, p.call.State, p.localState = nil, protocol.RequestState{}, nil
}

// checkBinding returns what of the call differs from what the state was sealed for.
func (p *exchange) checkBinding(c *claims) Reason {
	switch {
	case c.principal != p.call.Principal:
		return ReasonPrincipal
	case c.method != p.call.Method:
		return ReasonMethod
	case c.target != p.call.Target:
		return ReasonTarget
	case c.audience != p.funnel.opts.Audience:
		return ReasonAudience
	}
	if err := p.digestArguments(); err != nil || c.arguments != p.arguments {
		return ReasonArguments
	}
	return ""
}

func checkFreshness(c *claims, now time.Time) Reason {
	switch {
	case c.issued.After(now.Add(clockSkew)):
		return ReasonFuture
	case !now.Before(c.deadline):
		return ReasonFlowExpired
	case !now.Before(c.expires):
		return ReasonExpired
	}
	return ""
}

func (p *exchange) reportRejection(ctx context.Context, err error) error {
	event := StateRejected{Where: p.where, Reference: newReference(), Reason: ReasonSealer, Err: err}
	if r, ok := errors.AsType[*rejection](err); ok {
		event.Reason, event.Err = r.reason, r.err
		if named, ok := errors.AsType[*seal.KeyError](r.err); ok {
			event.KeyID = named.ID
		}
	}
	p.observe(ctx, event)
	return invalidState(event.Reference)
}

// claimState claims the state with the guard, if there is one. For an exact replay
// it returns the outcome recorded then.
func (p *exchange) claimState(ctx context.Context, c *claims) (protocol.Result, error) {
	guard := p.funnel.opts.Guard
	if guard == nil {
		return nil, nil
	}
	// Of what the state says and not of its text: a Sealer that accepts two
	// spellings of a token must not make two states of one.
	sum := sha256.Sum256(c.sealed)
	id := hex.EncodeToString(sum[:16])
	// A replica whose clock is behind accepts the state for a little longer.
	err := guard.Claim(ctx, id, c.principal.ownerDigest(), fingerprint(p.call.Responses), c.expires.Add(clockSkew))
	if err == nil {
		p.claimID = id
		return nil, nil
	}
	spent, ok := errors.AsType[*SpentError](err)
	if !ok {
		// A guard that cannot answer lets nothing through.
		return nil, p.reportUnserved(ctx, err)
	}
	if spent.Outcome != nil {
		if result, err := protocol.DecodeResult(protocol.Latest, p.call.Method, spent.Outcome); err == nil {
			p.observe(ctx, FlowEnded{p.where, c.round + 1, EndReplayed})
			return result, nil
		}
	}
	if spent.Running {
		p.observe(ctx, LegRunning{p.where})
		return nil, refuseCopy()
	}
	return nil, p.reportRejection(ctx, &rejection{reason: ReasonReplayed})
}

// copyRetryAfter is when to send a leg again that is being served: most take less.
const copyRetryAfter = time.Second

// refuseCopy tells who sends a leg a second time, for which everything has been
// verified, that the first is still being served.
func refuseCopy() *protocol.Error {
	return quota.Refuse(quota.None, copyRetryAfter, "this request is being served already; send it again in %s to get its outcome", copyRetryAfter)
}

// commitClaim records the outcome of a claimed state. Only results are recorded: an
// error says that nothing is known to have happened.
func (p *exchange) commitClaim(ctx context.Context, result protocol.Result, err error) {
	if p.claimID == "" || err != nil {
		return
	}
	// The newest revision can spell every outcome, questions included.
	data, err := protocol.EncodeResult(protocol.Latest, p.call.Method, result)
	if err != nil {
		p.observe(ctx, ServerBug{p.where, err})
		return
	}
	p.endClaim(ctx, func(ctx context.Context, guard Guard, id string) error { return guard.Commit(ctx, id, data) })
}

// releaseClaim ends a claim without an outcome: it gives it up if the handler never
// started.
func (p *exchange) releaseClaim(ctx context.Context) {
	p.endClaim(ctx, func(ctx context.Context, guard Guard, id string) error {
		if !p.started {
			return guard.Release(ctx, id)
		}
		return guard.Commit(ctx, id, nil)
	})
}

// endClaim tells the guard, once, what came of the claim. The client may have gone;
// that its state is spent must be kept anyway.
func (p *exchange) endClaim(ctx context.Context, end func(ctx context.Context, guard Guard, id string) error) {
	id := p.claimID
	if p.claimID = ""; id == "" {
		return
	}
	if err := end(context.WithoutCancel(ctx), p.funnel.opts.Guard, id); err != nil {
		p.observe(ctx, ServerBug{p.where, err})
	}
}
