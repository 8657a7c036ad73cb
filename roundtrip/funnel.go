package roundtrip

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// A Funnel takes every multi round-trip request from its arrival to its response: state is opened
// and bound, answers are sorted, the handler runs, its outcome is checked, capabilities are gated
// and new state is sealed. It is independent of transports. It may be used concurrently.
type Funnel struct {
	opts      Options
	silent    bool // no observer
	stateless statelessRetries
	waits     waitQuotas
	anonymous atomic.Bool // the first state bound to no caller was reported
	leases    leaseRenewer
	pages     *pageNotes // nil without a page
	bugs      targetSet  // whose handlers are known to change their questions
}

// NewFunnel returns a funnel; nil options mean the defaults, and the options are copied. It fails
// if an option has an invalid negative value or a shared key has no Audience.
func NewFunnel(options *Options) (*Funnel, error) {
	var opts Options
	if options != nil {
		opts = *options
	}
	if err := opts.checkNegative(); err != nil {
		return nil, err
	}
	if opts.Sealer == nil {
		opts.Sealer = keys.EphemeralKeyring()
	}
	opts.Observer = event.Observers(opts.Observer)
	silent := opts.Observer == event.Discard
	opts.AppVersion = opts.ownVersion()
	opts.Limits.Rounds = cmp.Or(opts.Limits.Rounds, defaultMaxRounds)
	opts.Limits.StateBytes = min(cmp.Or(opts.Limits.StateBytes, defaultMaxStateBytes),
		hardMaxStateBytes)
	opts.RoundTTL = cmp.Or(opts.RoundTTL, defaultRoundTTL)
	opts.HumanTimeout = cmp.Or(opts.HumanTimeout, defaultHumanTimeout)
	if err := opts.checkKey(); err != nil {
		return nil, err
	}
	if ring, ok := opts.Sealer.(keys.Describer); ok && !ring.Ephemeral() {
		opts.Observer.Observe(context.Background(),
			event.KeysEnabled{Primary: ring.Primary(), Enabled: ring.IDs()})
	}
	f := &Funnel{opts: opts, silent: silent, waits: newWaitQuotas(&opts)}
	if opts.Page != nil {
		f.pages = &pageNotes{notes: recent.New[[32]byte, pageNote](maxPageNotes, opts.RoundTTL)}
	}
	return f, nil
}

// Do takes call through the funnel. The result is ready to be encoded; an error is always an
// [*protocol.Error] for the client. It recovers handler's panics, and skips it for a refused state.
func (f *Funnel) Do(ctx context.Context, call Call, handler Handler) (protocol.Result, error) {
	e := &exchange{arrived: call}
	e.attachCall(ctx, f, &e.arrived, nil)
	e.askingMode().openCall(e)
	if f.opts.Page != nil {
		e.ladder = &ladder{}
		_ = e.ensureArgumentsDigest() // before goroutines need it; on failure no page is used
	}
	defer e.closeWait()
	result, err := e.serveCall(ctx, handler)
	if err != nil {
		return nil, rules.PublicError(err)
	}
	return result, nil
}

// An exchange is one [Call] on its way through the funnel. It has one run per execution of the
// handler: one in a modern revision, one per round in a legacy revision.
//
//	   open.go       sort.go          run.go          outcome.go
//	 openState ──→ matchAnswers ──→ invokeHandler ──→ decideOutcome ─ complete ──→ result
//	     │              ↑                                 │ asks
//	     ↓              │                                 ↓
//	frozen error   openLocalState                     askReturned (gate.go, seal.go)
//	                    │                              │        │
//	                    │  legacy                      │        │ modern
//	                    └───── pushReturned ←──────────┘        └──→ sealed state, result
//	                             (push.go)
//
// Differences between revisions are in askingMode (askingmode.go).
//
// Only the goroutine that serves the call uses the fields below the embedded ones. Goroutines of
// the handler may outlive its run: they get a questioner of their own.
type exchange struct {
	questioner

	arrived Call // the value that call points to
	first   run  // the first run, allocated with the request

	runs       int32       // opened so far
	digested   bool        // arguments is known
	started    bool        // the handler was started
	retriable  bool        // the claim is released although the handler started
	unrecorded bool        // the response is no outcome
	arguments  [32]byte    // digest, once it is needed
	held       store.Claim // nil without a guard
	ladder     *ladder     // nil without a page
}

// serveCall is the loop of the drawing. In a legacy revision the handler runs again with the
// answers until it is done. The state between two runs is encoded, limited and read as if a client
// carried it, so that handlers behave alike everywhere. It is neither sealed nor claimed.
func (e *exchange) serveCall(ctx context.Context, handler Handler) (protocol.Result, error) {
	if !protocol.MultiRoundTrip(e.call.Method) {
		r := responder{e.openRun(&e.first, nil, protocol.RequestState{})}
		return r.executeSingleRound(ctx, handler)
	}
	defer e.endCall(ctx)
	first, recorded, err := e.openState(ctx)
	if err != nil || recorded != nil {
		return recorded, err
	}
	for r := (responder{first}); ; {
		if e.ladder != nil {
			result, err := e.goOnWithEarlier(ctx, &r)
			if result != nil || err != nil {
				return result, err
			}
		}
		r.matchAnswers(ctx)
		var result protocol.Result
		if r.prior != nil {
			result, err = r.matchPage(ctx)
		}
		givesWay := func() bool { return e.ladder != nil && e.ladder.earlier != nil }
		if result == nil && err == nil && !givesWay() {
			result, err = r.executeHandler(ctx, handler)
		}
		if givesWay() {
			continue
		}
		r.commitClaim(ctx, result, err)
		r.runCommits(ctx, result, err)
		asks, more := result.(*protocol.InputRequiredResult)
		if err != nil || !more {
			return result, err
		}
		next, result, err := e.askingMode().askClient(ctx, r, asks)
		if next == nil {
			return result, err
		}
		r.run = next
	}
}
