package roundtrip

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
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

// digestArguments makes sure that the digest of the call's arguments is known.
func (p *exchange) digestArguments() (err error) {
	if !p.digested {
		p.arguments, err = digestArguments(p.call.Arguments)
		p.digested = err == nil
	}
	return err
}

// A Reason says why a requestState was refused. It is for the server's own
// log; clients get one frozen error whatever the reason.
type Reason string

// The reasons.
const (
	ReasonTooLong          Reason = "too_long"
	ReasonMalformed        Reason = "malformed"
	ReasonVersion          Reason = "unknown_format_version"
	ReasonUnknownKey       Reason = "unknown_key"
	ReasonForeignEphemeral Reason = "foreign_ephemeral"
	ReasonTampered         Reason = "authentication_failed"
	ReasonExpired          Reason = "expired"
	ReasonFlowExpired      Reason = "flow_expired"
	ReasonFuture           Reason = "issued_in_the_future"
	ReasonPrincipal        Reason = "other_principal"
	ReasonMethod           Reason = "other_method"
	ReasonTarget           Reason = "other_target"
	ReasonAudience         Reason = "other_audience"
	ReasonArguments        Reason = "other_arguments"
	ReasonReplayed         Reason = "replayed"
	ReasonSealer           Reason = "refused_by_sealer"
	ReasonGone             Reason = "not_in_store"
)

// A rejection is a refused state: the reason stays here, the client gets the
// frozen error.
type rejection struct {
	reason Reason
	err    error // of the sealer, for unwrapping in tests and logs
}

func (r *rejection) Error() string {
	if r.err != nil {
		return fmt.Sprintf("request state: %s: %v", r.reason, r.err)
	}
	return fmt.Sprintf("request state: %s", r.reason)
}

func (r *rejection) Unwrap() error { return r.err }

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

// invalidState is the one error for every refused state. It says nothing that
// would help an attacker find out why; reference ties it to the server's log.
func invalidState(reference string) *protocol.Error {
	e := &protocol.Error{Code: protocol.CodeInvalidParams, Message: "Invalid or expired requestState"}
	return e.WithData(struct {
		Reason    string `json:"reason"`
		Reference string `json:"reference"`
	}{"invalid_request_state", reference})
}

func newReference() string { return uuid.NewString() }
