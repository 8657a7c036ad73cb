package roundtrip

import (
	"context"
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/internal/heartbeat"
	"github.com/rondo-mcp/rondo/internal/lazyctx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Funnel is the path that every multi round-trip request takes from its
// arrival to its answer: state is opened and bound, answers are sorted, the
// handler runs, its outcome is checked, capabilities are gated and new state
// is sealed. It is free of transports; servers, gateways and adapters of other
// SDKs sit on it. A Funnel may be used concurrently.
type Funnel struct {
	opts      Options
	silent    bool // nobody observes
	stateless statelessRetries
	waits     waitQuotas
}

// NewFunnel returns a funnel. It fails when the options contradict each other,
// when they require a shared key and there is none, and when there is a shared
// key and no Audience.
func NewFunnel(opts Options) (*Funnel, error) {
	if opts.Plain && (opts.Sealer != nil || opts.Guard != nil || opts.RequireSharedKey || opts.StateStore != nil) {
		return nil, errors.New("funnel: Plain excludes Sealer, Guard, StateStore and RequireSharedKey")
	}
	if opts.Sealer == nil && !opts.Plain {
		opts.Sealer = EphemeralKeyring()
	}
	if opts.Observer == nil {
		opts.Observer = observers(nil)
	}
	list, many := opts.Observer.(observers)
	silent := many && len(list) == 0
	opts.MaxRounds = orDefault(opts.MaxRounds, DefaultMaxRounds)
	opts.MaxStateBytes = min(orDefault(opts.MaxStateBytes, DefaultMaxStateBytes), HardMaxStateBytes)
	opts.MaxStoredBytes = orDefault(opts.MaxStoredBytes, DefaultMaxStoredBytes)
	opts.RoundTTL = orDefault(opts.RoundTTL, DefaultRoundTTL)
	opts.FlowTTL = orDefault(opts.FlowTTL, DefaultFlowTTL)
	opts.HumanTimeout = orDefault(opts.HumanTimeout, DefaultHumanTimeout)
	if opts.Heartbeat == 0 {
		opts.Heartbeat = heartbeat.DefaultInterval
	}
	if err := opts.checkKey(); err != nil {
		return nil, err
	}
	if ring, ok := opts.Sealer.(keyNamer); ok {
		if event := keysAtStart(ring); event != nil {
			opts.Observer.Observe(context.Background(), event)
		}
	}
	return &Funnel{opts: opts, silent: silent, waits: newWaitQuotas(&opts)}, nil
}

// Do takes call through the funnel. The result is ready to be encoded; an
// error is always an [*protocol.Error] and goes to the client as it is.
// Panics of handler are recovered. Handler is not called at all when the call
// carries a state that is refused.
func (f *Funnel) Do(ctx context.Context, call Call, handler Handler) (protocol.Result, error) {
	p := &exchange{arrived: call}
	p.attachCall(ctx, f, &p.arrived, &p.ownWait)
	p.visits = &p.ownVisits
	defer p.wait.closeWait()
	p.dropAbsentMembers()
	result, err := p.serve(ctx, handler)
	if err != nil {
		return nil, asProtocolError(err)
	}
	return result, nil
}

// exchange is one call on its way through the funnel.
//
//	open ─→ sort ─→ run ─→ complete?  ─→ check ──────────────→ out
//	  │                     └ questions ─→ gate ─→ seal ─────→ out
//	  └ refused: frozen error
type exchange struct {
	questioner
	prior *claims // of the state that came, nil on a first leg
	run   *run

	arrived Call     // what call points to
	first   run      // what round points to at first: one piece of memory a request
	ownWait callWait // what wait points to

	ownVisits visitTable // what visits points to

	arguments      [32]byte // digest, once it is needed
	digested       bool     // it is known
	started        bool     // the handler was started
	claimID        string   // id taken from the guard, empty if none
	localState     []byte   // state that the last round of a live call left to the next, not sealed
	answersDropped int      // answers that came with the call and were dropped
	requested      Event    // that the questions of this round go out, nil: nobody hears it
}

// dropAbsentMembers removes from the call what its revision cannot carry, or
// what the host cannot tell from absence. Retry members came with 2026-07-28
// (basic/patterns/mrtr): in an older revision they are unknown members, which
// a server ignores whatever they contain.
func (p *exchange) dropAbsentMembers() {
	if p.isLegacy() {
		p.call.Responses, p.call.State = nil, protocol.RequestState{}
		return
	}
	if text, _ := p.call.State.Text(); p.call.Lossy && text == "" {
		p.call.State = protocol.RequestState{}
	}
}

func (p *exchange) serve(ctx context.Context, handler Handler) (protocol.Result, error) {
	if !protocol.MultiRoundTrip(p.call.Method) {
		return p.execute(ctx, handler, p.decideSingleRound)
	}
	defer p.releaseClaim(ctx)
	recorded, err := p.openState(ctx)
	if err != nil || recorded != nil {
		return recorded, err
	}
	if p.isLegacy() {
		return p.serveLegacy(ctx, handler)
	}
	p.sortAnswers(ctx)
	result, err := p.execute(ctx, handler, p.decideOutcome)
	p.commitClaim(ctx, result, err)
	p.runCommits(ctx, result, err)
	return result, err
}

// serveLegacy serves a request of a legacy revision: the questions that the handler
// returns are put to the client at once, and the handler runs again with the
// answers, until it is done. The state between two rounds is written, limited and
// read as if the client had carried it, so that a handler which works here works
// there; it stays with the call, so it is neither sealed nor claimed.
//
// The client's progress can put the end of a question off, so the whole has an
// end of its own: that of the flow.
func (p *exchange) serveLegacy(parent context.Context, handler Handler) (protocol.Result, error) {
	p.until = time.Now().Add(p.funnel.opts.FlowTTL)
	ctx := &lazyctx.Timed{}
	ctx.Init(parent, p.until, errHumanTimeout)
	defer ctx.Cancel()
	for round := 1; ; round++ {
		p.sortAnswers(ctx)
		result, err := p.execute(ctx, handler, p.decideOutcome)
		asks, ok := result.(*protocol.InputRequiredResult)
		p.commitClaim(ctx, result, err)
		p.runCommits(ctx, result, err)
		if err != nil || !ok {
			return result, err
		}
		if round > p.funnel.opts.MaxRounds { // a plain state does not count its rounds
			p.reportFlowEnd(ctx, EndRounds)
			return p.refuseFlow(protocol.CodeFlowEnded, gaveUp(p.funnel.opts.MaxRounds, requestKeys(asks.InputRequests), "", ""))
		}
		if err := p.pushReturned(ctx, parent, asks); err != nil {
			return p.refuseUnasked(ctx, asks, err)
		}
		if recorded, err := p.openState(ctx); err != nil || recorded != nil {
			return recorded, err
		}
	}
}
