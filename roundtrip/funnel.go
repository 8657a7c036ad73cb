package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/rondo-mcp/rondo/internal/heartbeat"
	"github.com/rondo-mcp/rondo/internal/revision"
	"github.com/rondo-mcp/rondo/internal/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
)

// The defaults of [Options].
const (
	// DefaultMaxRounds is how often a flow may ask. Nobody answers more
	// patiently, and a handler that asks more often does not converge.
	DefaultMaxRounds = 8
	// DefaultMaxStateBytes keeps retries below what proxies allow.
	DefaultMaxStateBytes = 16 << 10
	// DefaultRoundTTL is how long a person may take to answer one round.
	DefaultRoundTTL = time.Hour
	// DefaultFlowTTL is how long a flow may take in all.
	DefaultFlowTTL = 24 * time.Hour
	// clockSkew is how far the clocks of two replicas may differ.
	clockSkew = 2 * time.Minute
)

// Options configure a [Funnel]. The zero value is safe: states are sealed with
// a key of this process.
type Options struct {
	// Sealer protects state that clients carry. Nil: a random key that only
	// this process has, so that states die with it and other replicas refuse
	// them. Calls of legacy revisions keep theirs and do not ask for a seal.
	Sealer Sealer
	// RequireSharedKey refuses an ephemeral key, for fleets.
	RequireSharedKey bool
	// Plain turns sealing off: handlers set requestState themselves with
	// [PlainState], and all that comes back is unverified. Answers are
	// accepted unsolicited, nothing accumulates and no round is counted.
	Plain bool
	// Audience names the service that states are for. States sealed for one
	// audience are refused by another. Replicas must share it, and no other
	// service that has the key may: it is required beside a Sealer whose key is
	// not ephemeral. Package server defaults to the name of the server. The
	// adapters have no default, because the SDKs do not tell that name.
	Audience string
	// Guard makes states that clients carry single-use. Nil: they may be
	// replayed until they expire.
	Guard Guard
	// Observer is told what happens. Nil: nobody.
	Observer Observer
	// MaxRounds is how often a flow may ask, 0: DefaultMaxRounds.
	MaxRounds int
	// MaxStateBytes bounds requestState, in both directions, before it is
	// decoded. 0: DefaultMaxStateBytes; never more than HardMaxStateBytes. In
	// legacy revisions, whose clients carry none, a state counts as long as a
	// [Keyring] would make it.
	MaxStateBytes int
	// RoundTTL is how long a round may wait for answers, 0: DefaultRoundTTL.
	RoundTTL time.Duration
	// FlowTTL is how long a flow may take, 0: DefaultFlowTTL.
	FlowTTL time.Duration
	// RestartExpired starts a flow over when its state is authentic but too
	// old, instead of refusing the request.
	RestartExpired bool
	// HumanTimeout is how long one question that is pushed to a client of a
	// legacy revision may wait for its answer, or for the next sign of progress
	// on it. 0: DefaultHumanTimeout. The package comment lists the other clocks
	// that may run out on a person.
	HumanTimeout time.Duration
	// Heartbeat is the time between the progress notifications that show the
	// caller of a request that it waits for a person, where the caller asked for
	// progress; the first goes out after two seconds at most. Clients that give
	// up what is silent for a minute wait as long as a person needs. 0: 15 s,
	// negative: none are sent.
	Heartbeat time.Duration
	// MaxWaiting is how many calls may wait for a person at once. They do not
	// run, so limits on what runs leave them out; a call that would wait beyond
	// this limit is refused with [protocol.CodeBusy] before anything is asked. 0:
	// DefaultMaxWaiting, negative: no limit.
	MaxWaiting int
	// MaxWaitingPerPrincipal is how many of them may be one authenticated
	// principal's, 0: DefaultMaxWaitingPerPrincipal, negative: no limit.
	// Anonymous callers have no limit each, since nobody can tell them apart:
	// together they may use all of MaxWaiting, or all but a quarter once somebody
	// has authenticated.
	MaxWaitingPerPrincipal int
	// MaxWaitingPerSession is how many of them may be of one session, 0:
	// DefaultMaxWaitingPerSession, negative: no limit.
	MaxWaitingPerSession int
	// MaxWaitingBytes is how many bytes the arguments of all waiting calls may
	// have together; one authenticated principal may use a quarter. 0:
	// DefaultMaxWaitingBytes, negative: no limit.
	MaxWaitingBytes int64
	// RefuseLegacy refuses calls of legacy revisions that need to ask, instead
	// of putting the questions to the client while the call runs.
	RefuseLegacy bool
	// ReplayOnLegacy has [Ask] and the rest of flow style run the handler again
	// on legacy connections too, as it does in modern ones, instead of waiting
	// for the answer in place: for development and CI, where a handler that does
	// not bear to be repeated should show.
	ReplayOnLegacy bool
	// StateStore keeps states that pass MaxStateBytes. Nil: such a flow ends
	// with an error. Replicas must share it.
	StateStore StateStore
	// MaxStoredBytes bounds one state in the StateStore. 0:
	// DefaultMaxStoredBytes.
	MaxStoredBytes int
	// HideErrors keeps the texts of errors that handlers return, other than
	// [*protocol.Error], from clients: they get a reference, which the observer
	// gets as well ([HandlerFailed]). Of an error that wraps a person's refusal they
	// get that alone. Set it where texts tell of what is behind the server, and
	// strangers call it.
	HideErrors bool
	// RefuseURLErrors answers a handler's URLElicitationRequiredError with an
	// internal error instead of turning it into questions.
	RefuseURLErrors bool
	// AllowURL decides whether the person may be asked to visit a URL; an error,
	// which goes to the observer, refuses it. It can only refuse more: URLs that
	// reach it are absolute, https or http to a loopback host, carry no user
	// name and no control characters and have at most 8 KiB. What is refused
	// ends the call with an internal error that names the question, and nothing
	// is asked. Calls may overlap, and a URL may be seen several times. Nil:
	// all of these are allowed.
	AllowURL func(*url.URL) error
}

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

// checkKey reports a key that is not what the options demand of it, or that
// other services may have without an Audience to tell them apart: with equal
// tools they would accept each other's states.
func (o *Options) checkKey() error {
	ring, ok := o.Sealer.(keyNamer)
	switch {
	case o.Plain:
		return nil
	case ok && ring.Ephemeral() && o.RequireSharedKey:
		return errors.New("funnel: a shared key is required; set Sealer, for example with KeyringFromEnv")
	case ok && ring.Ephemeral():
		return nil
	case o.Audience == "":
		return errors.New("funnel: an audience is required beside a shared key; set Audience to a name that all replicas of this service share and no other service has, for example its URL")
	}
	return nil
}

// keyNamer is a [Sealer] that knows its keys, as [Keyring] is.
type keyNamer interface {
	Ephemeral() bool
	Primary() string
}

// keysAtStart returns what an operator is to know of the keys, nil for nothing.
func keysAtStart(ring keyNamer) Event {
	if ring.Ephemeral() {
		return EphemeralKey{ring.Primary()}
	}
	if all, ok := ring.(interface{ IDs() []string }); ok {
		return KeysEnabled{ring.Primary(), all.IDs()}
	}
	return nil
}

func orDefault[T int | time.Duration](value, byDefault T) T {
	if value <= 0 {
		return byDefault
	}
	return value
}

// A Call is one arrival of a multi round-trip request: the first leg of a flow
// or a retry. Everything in it may be hostile; nothing is changed.
type Call struct {
	Version protocol.Version
	Method  string
	Target  string // the name of the tool or prompt, or the URI
	// Arguments is the JSON object of arguments, nil when absent.
	Arguments    json.RawMessage
	Capabilities protocol.ClientCapabilities
	// Principal is who calls; the zero value is anonymous.
	Principal Principal
	// Responses and State are the retry members of the request. Calls of legacy
	// revisions have none: what a host passes there is dropped unread.
	Responses protocol.InputResponses
	State     protocol.RequestState
	// Credential is what the caller authenticates with, as it came: the value
	// of the Authorization header, for example. It decides nothing and is kept
	// out of what observers are told.
	Credential string
	// RequestID is the id of the request in events, see [RequestID]. Empty: that
	// of the context, or a new one.
	RequestID string
	// Push puts questions to the client of a legacy revision. Nil where there
	// is no session to carry them; it is not used in modern revisions.
	Push Pusher
	// Session tells the sessions of one funnel apart, for
	// Options.MaxWaitingPerSession: any value that can be compared, such as a
	// pointer or an id. Nil: the call belongs to none.
	Session any
	// Heartbeat sends one progress notification on the call's own token, while
	// the call waits for a person; see Options.Heartbeat. The funnel makes one
	// call at a time and none once the wait is over; ctx has the values of the
	// call's context and ends with the wait. Nil: the client asked for no
	// progress.
	Heartbeat func(ctx context.Context)
	// Lossy says that the host parsed the request before and cannot tell an
	// absent state from an empty one; both then count as absent.
	Lossy bool
	// AcceptCold lets handlers read answers to questions that this flow has
	// not asked, marked Unsolicited, for clients that lose the state.
	AcceptCold bool
	// CheckOutput, if not nil, validates the structured content (nil when
	// absent) of a tool that completes without an error.
	CheckOutput func(structured json.RawMessage) error
}

// A Handler runs one round of a request. It may be called several times in a
// flow, each time from its start.
type Handler func(ctx context.Context) (protocol.Result, error)

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

// execute calls the handler with the round in its context and settles what it
// says. Both are guarded, because settling still calls the author's code: the
// text of an error, the check of the output. A request that can have one leg
// only has no round, and must not see that of a request it is served within.
func (p *exchange) execute(ctx context.Context, handler Handler, settle func(context.Context, protocol.Result, error) (protocol.Result, error)) (result protocol.Result, err error) {
	p.started = true
	defer func() {
		if v := recover(); v != nil {
			p.reportPanic(ctx, v)
			p.reportFlowEnd(ctx, EndFailed)
			result, err = nil, internalError()
		}
	}()
	result, err = p.invokeHandler(ctx, handler)
	p.reportAnswers(ctx)
	return settle(ctx, result, err)
}

// decideSingleRound is settle for a request that can have one leg only.
func (p *exchange) decideSingleRound(ctx context.Context, result protocol.Result, err error) (protocol.Result, error) {
	if err != nil {
		return p.answerError(ctx, err)
	}
	if _, asks := result.(*protocol.InputRequiredResult); asks {
		return nil, p.reportBug(ctx, fmt.Errorf("%s cannot ask for input", p.call.Method))
	}
	if result == nil {
		return nil, p.reportBug(ctx, fmt.Errorf("handler returned a nil or wrong result: %T", result))
	}
	return result, nil
}

// decideOutcome turns what the handler said into what the client gets.
func (p *exchange) decideOutcome(ctx context.Context, result protocol.Result, err error) (protocol.Result, error) {
	result, err, settled := p.overruleHandler(ctx, result, err)
	if settled {
		return result, err
	}
	if err != nil {
		if urls, ok := errors.AsType[*protocol.URLElicitationRequiredError](err); ok && urls != nil {
			if p.isLegacy() {
				return p.answerLegacyURLs(ctx, urls)
			}
			result, err = p.convertURLs(urls)
			if err != nil {
				return nil, p.reportBug(ctx, err)
			}
		}
	}
	if err != nil && refusedBy(err) {
		p.reportFlowEnd(ctx, EndRefused)
		return p.refuseFlow(protocol.CodeRefused, p.refusalText(err)+adviceOn(err))
	}
	if err != nil {
		p.reportFlowEnd(ctx, EndFailed)
		return p.answerError(ctx, err)
	}
	if asks, ok := result.(*protocol.InputRequiredResult); ok && asks != nil {
		return p.askReturned(ctx, asks)
	}
	if err := p.checkComplete(result); err != nil {
		return nil, p.reportBug(ctx, err)
	}
	p.reportIgnoredRefusals(ctx, result)
	p.reportFlowEnd(ctx, EndComplete)
	return result, nil
}

// reportIgnoredRefusals tells the observer of refusals that a handler in guard style has
// not looked at, in this leg or in one before, when it completes all the same.
func (p *exchange) reportIgnoredRefusals(ctx context.Context, result protocol.Result) {
	if failed, ok := result.(*protocol.CallToolResult); p.funnel.silent || ok && failed.IsError {
		return
	}
	for _, a := range p.run.unreadRefusals() {
		p.observe(ctx, DeclineIgnored{p.where, a.key, a.outcome})
	}
}

// checkComplete refuses results of the wrong type for the method, nil ones,
// forged ones, and structured content that breaks the tool's promise.
func (p *exchange) checkComplete(result protocol.Result) error {
	ok := false
	switch r := result.(type) {
	case *protocol.CallToolResult:
		ok = r != nil && p.call.Method == protocol.MethodCallTool
		if ok && !r.IsError && p.call.CheckOutput != nil {
			if err := p.call.CheckOutput(r.StructuredContent); err != nil {
				return fmt.Errorf("structuredContent: %w", err)
			}
		}
	case *protocol.GetPromptResult:
		ok = r != nil && p.call.Method == protocol.MethodGetPrompt
	case *protocol.ReadResourceResult:
		ok = r != nil && p.call.Method == protocol.MethodReadResource
	}
	if !ok {
		return fmt.Errorf("handler returned a nil or wrong result: %T", result)
	}
	return nil
}

// answerError spells a handler's error: a protocol error stays one, a plain error
// of a tool is a result the model can read, elsewhere it is a JSON-RPC error.
func (p *exchange) answerError(ctx context.Context, err error) (protocol.Result, error) {
	if e, ok := protocol.AsError(err); ok {
		return nil, p.spellError(ctx, e)
	}
	text := p.reportFailure(ctx, err)
	if p.call.Method == protocol.MethodCallTool {
		return errorResult(text), nil
	}
	return nil, protocol.Errorf(protocol.CodeHandlerError, "%s", text)
}

// spellError spells a handler's error as the revision of the call does. An error that the revision
// does not have is a mistake of the handler.
func (p *exchange) spellError(ctx context.Context, e *protocol.Error) *protocol.Error {
	spelled, err := revision.SpellHandlerError(p.call.Version, e)
	switch {
	case err != nil && e.Code == protocol.CodeURLElicitationRequired && !p.isLegacy():
		err = fmt.Errorf("%w; return a URLElicitationRequiredError or InputRequired", err)
		fallthrough
	case err != nil:
		p.observe(ctx, ServerBug{p.where, err})
		return internalError()
	case spelled.Code == protocol.CodeURLElicitationRequired:
		if refusal := p.funnel.allowURL().RefuseRequired(spelled); refusal != nil {
			p.observe(ctx, ServerBug{p.where, refusal})
			return refusal.Wire()
		}
	}
	return spelled
}

// answerRefusal is refuse for a refusal that may have an error of its own.
func (p *exchange) answerRefusal(no *refusal) (protocol.Result, error) {
	if no.wire != nil && (no.always || p.call.Method != protocol.MethodCallTool) {
		return nil, no.wire
	}
	return p.refuseFlow(no.code, no.text)
}

// refuseFlow ends a flow with words for the person or the model.
func (p *exchange) refuseFlow(code int64, text string) (protocol.Result, error) {
	if p.call.Method == protocol.MethodCallTool {
		return errorResult(text), nil
	}
	return nil, protocol.Errorf(code, "%s", text)
}

func errorResult(text string) *protocol.CallToolResult {
	return &protocol.CallToolResult{
		Content: []protocol.Content{&protocol.TextContent{Text: text}},
		IsError: true,
	}
}

// reportBug reports a mistake of the server, which ends the flow, and returns what
// the client learns.
func (p *exchange) reportBug(ctx context.Context, err error) *protocol.Error {
	p.observe(ctx, ServerBug{p.where, err})
	p.reportFlowEnd(ctx, EndFailed)
	if refusal, ok := errors.AsType[*urlrule.Refusal](err); ok {
		return refusal.Wire()
	}
	return internalError()
}

// reportFlowEnd reports the end of a flow that took more than one leg.
func (p *exchange) reportFlowEnd(ctx context.Context, how FlowEnd) {
	if p.prior != nil && !p.funnel.silent {
		p.observe(ctx, FlowEnded{p.where, p.where.Round, how})
	}
}

func asProtocolError(err error) *protocol.Error {
	if e, ok := protocol.AsError(err); ok {
		return e
	}
	return internalError()
}
