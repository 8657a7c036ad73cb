package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

// The defaults of [Options].
const (
	// DefaultTTL is how long a call may last with all its rounds.
	DefaultTTL = 10 * time.Minute
	// DefaultGrace is how long a call is kept for a client whose connection broke.
	DefaultGrace = 30 * time.Second
	// DefaultQuestionTimeout is how long a person may take for a question: what remains of
	// [DefaultTTL] when a first question was answered as late as could be.
	DefaultQuestionTimeout = 5 * time.Minute
	// DefaultSettle is how long a question waits for others that are asked with it.
	DefaultSettle = 15 * time.Millisecond
	// DefaultMaxRounds is how often one call may come back with questions.
	DefaultMaxRounds = 32
	// DefaultMaxParked is how many calls may be open at once.
	DefaultMaxParked = 1000
	// DefaultMaxPerPrincipal is how many of them may be one principal's.
	DefaultMaxPerPrincipal = 16
	// DefaultMaxHeldBytes is how much the results may take that wait for a client, in bytes.
	DefaultMaxHeldBytes = 64 << 20
)

// KeyPurpose is what the keyring of [Options].Keys is derived for.
const KeyPurpose = "rondo/elicitation/bridge/v1"

// busyRetryAfter is when a client that was refused for want of room may come back.
const busyRetryAfter = 5 * time.Second

// Options configure a [Bridge]. Keys is required. 0 is the default of every number, and a
// negative number is an error of [New].
type Options struct {
	// Keys seal the states that clients carry from request to request: a keyring that is
	// derived for this purpose alone, ring.Derive([KeyPurpose]). All replicas have the same.
	Keys elicitation.Sealer
	// Bus takes a request to the replica that has its call. The router has the same one, and is
	// made first. Nil: there is one replica, or the balancer brings a client back to its own.
	Bus *Bus

	// TTL is how long a call may last with all its rounds. Then it is cancelled upstream.
	TTL time.Duration
	// Grace is how long a call goes on when its client has gone away in mid-request, and how
	// long an outcome that was sent is kept for a client that has lost it.
	Grace time.Duration
	// QuestionTimeout is how long a person may take for a question.
	QuestionTimeout time.Duration
	// Settle is how long a question waits for others that the upstream asks with it. They reach
	// the client in one round.
	Settle time.Duration

	// MaxRounds is how often a call may come back to its client with questions.
	MaxRounds int
	// MaxParked and MaxPerPrincipal bound the calls that are open, in all and for each
	// principal. Anonymous callers cannot be told apart: together they may have MaxParked, or
	// all but a quarter of it once there was a principal.
	MaxParked, MaxPerPrincipal int
	// MaxHeldBytes bounds the results that are kept for clients, in all; one principal may
	// have a quarter.
	MaxHeldBytes int64

	// Logger gets an entry when a call is parked, resumed and over, nil: none.
	Logger *zap.Logger
	// Registerer gets the metrics, nil: none.
	Registerer prometheus.Registerer
}

// A Request is a request of a client of revision 2026-07-28 or later: a first one, or one that
// comes back with answers.
type Request struct {
	// Method is the method, such as tools/call.
	Method string
	// Target is the name of the tool or the prompt, or the URI of the resource.
	Target string
	// Arguments are the arguments as they came, nil: none.
	Arguments json.RawMessage
	// Principal is who sent the request.
	Principal protocol.Principal
	// Credential stands for a caller without a Principal, such as the Authorization header of an
	// HTTP request, "": nothing is known. With a Principal it is not used.
	Credential string
	// Capabilities are what the client declares with this request. Those of the first request
	// of a call count.
	Capabilities protocol.ClientCapabilities
	// LogName stands for the client in logs, "": a random name for each call. It is that of the
	// first request of a call.
	LogName string
	// Responses are the results that answer questions, by their keys, nil: none.
	Responses map[string]json.RawMessage
	// State is the requestState as it came, "": the request is the first of its call.
	State string
	// Progress is called with the upstream's progress while this request waits for its outcome.
	// The caller puts the token of the request in the place of p's. ctx is that of the request,
	// and ends with its wait. Calls do not overlap. The upstream is asked for progress if the first
	// request of the call has a Progress. Nil: the client wants none. A request at another replica
	// than that of the call gets at most ten a second, the last ones.
	Progress func(ctx context.Context, p *protocol.Progress)
	// Run makes the call upstream and returns the result as it came. It is required, and is
	// called once for the first request of a call, on a goroutine of its own. See [RunFunc].
	Run RunFunc
}

// A RunFunc makes the call upstream. ctx is that of the call, which outlives requests: it has none
// of their values, and ends when the call is given up; the RunFunc must return then.
//
// begin registers the call on the connection to the upstream that is named by key. It is
// [elicitation.Router.Begin], and what it returns needs an [elicitation.Call.End] before the
// RunFunc returns. It may be called again, for example with another connection.
//
// An error that is, or wraps, a [*protocol.Error] reaches the client as it is; of any other the
// client learns that there was an internal error.
type RunFunc func(ctx context.Context, begin BeginFunc) (json.RawMessage, error)

// A BeginFunc begins the call of a client on a connection to an upstream.
type BeginFunc func(ctx context.Context, key elicitation.UpstreamKey) (*elicitation.Call, error)

// An Outcome is the response to a [Request]: a result, or questions with a state.
type Outcome struct {
	// Result is the result of the call as the RunFunc returned it, nil: there are questions.
	Result json.RawMessage
	// Questions are to be sent as inputRequests under their IDs. Params is each one's params, and
	// Request the same decoded.
	Questions []elicitation.Question
	// State is to be sent as requestState.
	State string
}

// A Bridge keeps the calls of clients that come back with answers. All methods may be called
// concurrently.
type Bridge struct {
	router  *elicitation.Router
	opts    Options
	metrics *metrics
	calls   *quota.Pool[protocol.Principal] // open calls
	held    *quota.Pool[protocol.Principal] // bytes of results that are kept

	ctx     context.Context // ends with Shutdown
	cancel  context.CancelCauseFunc
	running sync.WaitGroup // RunFuncs, and what sends outcomes to other replicas
	fleet   *fleet         // nil: there is one replica

	mu       sync.Mutex
	parked   map[string]*parkedCall // by id
	draining bool
	closed   bool          // running is being waited for
	drained  chan struct{} // closed when draining and no call is open
	open     int           // calls without a result
}

// New returns a bridge between clients without sessions and the upstreams of a router.
func New(router *elicitation.Router, opts *Options) (*Bridge, error) {
	if router == nil {
		return nil, errors.New("elicitation bridge: the router is nil")
	}
	if opts == nil || opts.Keys == nil {
		return nil, errors.New("elicitation bridge: Options.Keys is nil: " +
			"use ring.Derive(bridge.KeyPurpose)")
	}
	ring, ok := opts.Keys.(interface{ Ephemeral() bool })
	if ok && opts.Bus != nil && ring.Ephemeral() {
		return nil, errors.New("elicitation bridge: Options.Keys is an ephemeral keyring, " +
			"which no other replica has")
	}
	b := &Bridge{router: router, opts: *opts, parked: make(map[string]*parkedCall),
		drained: make(chan struct{})}
	if err := b.opts.fill(); err != nil {
		return nil, err
	}
	registered, err := registerMetrics(b.opts.Registerer)
	if err != nil {
		return nil, fmt.Errorf("elicitation bridge: Options.Registerer: %w", err)
	}
	b.metrics = registered
	b.calls = quota.New(quota.Options[protocol.Principal]{
		Total: int64(b.opts.MaxParked), Share: int64(b.opts.MaxPerPrincipal)})
	b.held = quota.New(quota.Options[protocol.Principal]{
		Total: b.opts.MaxHeldBytes, Share: quota.ShareOf(b.opts.MaxHeldBytes)})
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	if b.opts.Bus != nil {
		b.fleet = newFleet(b)
		if err := b.opts.Bus.setHandler(b.fleet.handleMessage); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// fill sets the defaults.
func (o *Options) fill() error {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return cmp.Or(
		fillNumber("TTL", &o.TTL, DefaultTTL),
		fillNumber("Grace", &o.Grace, DefaultGrace),
		fillNumber("QuestionTimeout", &o.QuestionTimeout, DefaultQuestionTimeout),
		fillNumber("Settle", &o.Settle, DefaultSettle),
		fillNumber("MaxRounds", &o.MaxRounds, DefaultMaxRounds),
		fillNumber("MaxParked", &o.MaxParked, DefaultMaxParked),
		fillNumber("MaxPerPrincipal", &o.MaxPerPrincipal, DefaultMaxPerPrincipal),
		fillNumber("MaxHeldBytes", &o.MaxHeldBytes, DefaultMaxHeldBytes),
	)
}

// fillNumber sets the default of an option that is 0, and refuses one that is negative.
func fillNumber[N int | int64 | time.Duration](name string, value *N, zero N) error {
	if *value < 0 {
		return fmt.Errorf("elicitation bridge: Options.%s is negative", name)
	}
	*value = cmp.Or(*value, zero)
	return nil
}

// Serve returns the outcome of a request: the result of the call upstream, or questions of the
// upstream and the state with which the client comes back. For the first request of a call it
// starts Request.Run; a later one finds the call that waits.
//
// A first request whose ctx ends before its outcome is there ends the call upstream: nobody could
// come back to it. After a later one the call goes on for Options.Grace.
//
// An error is for the client. A [*protocol.Error] has CodeInvalidParams for a state that is not
// good and for answers that are not those to its questions, CodeBusy with retryAfterMs in its data
// for want of room, and CodeFlowEnded when the call is over; that of the call upstream is passed
// on. The error of ctx is returned when ctx ends.
func (b *Bridge) Serve(ctx context.Context, request *Request) (*Outcome, error) {
	binding, err := bind(request)
	if err != nil {
		return nil, err
	}
	if request.State == "" {
		return b.serveFirst(ctx, request, binding)
	}
	opened, err := b.openState(ctx, request.State)
	if err != nil || opened.binding != binding {
		b.metrics.countResume(resumeRefused)
		return nil, errInvalidState()
	}
	if !time.Now().Before(opened.expires) {
		b.metrics.countResume(resumeExpired)
		return nil, errExpired()
	}
	given := answers(request.Responses)
	if err := given.check(); err != nil {
		b.metrics.countResume(resumeRefused)
		return nil, err
	}
	if b.fleet != nil && opened.owner != b.fleet.name {
		return b.fleet.forwardRequest(ctx, opened, given, request.Progress)
	}
	l := newListener(ctx, request.Progress)
	c, r, err := b.resume(opened, given, l)
	if err != nil {
		return nil, err
	}
	defer c.removeListener(l)
	return c.awaitOutcome(ctx, r)
}

// serveFirst begins a call and returns its first outcome.
func (b *Bridge) serveFirst(
	ctx context.Context, request *Request, binding binding,
) (*Outcome, error) {
	if request.Run == nil {
		return nil, errors.New("elicitation bridge: Request.Run is nil")
	}
	if request.Responses != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidParams,
			"inputResponses without the requestState that came with the questions")
	}
	if limit := b.calls.Take(request.Principal, 1); limit != quota.None {
		return nil, quota.Refuse(limit, busyRetryAfter, "Too many calls are open")
	}
	l := newListener(ctx, request.Progress)
	c, first, err := b.park(request, binding, l)
	if err != nil {
		b.calls.Give(request.Principal, 1)
		return nil, err
	}
	defer c.removeListener(l)
	return c.awaitOutcome(ctx, first)
}

// resume finds the call of a state and gives it the answers of a request. It returns the round
// whose outcome the request gets. l gets progress from then on, nil: nobody does.
func (b *Bridge) resume(
	opened state, given answers, l *listener,
) (*parkedCall, *round, error) {
	b.mu.Lock()
	c := b.parked[opened.call]
	b.mu.Unlock()
	if c == nil {
		b.metrics.countResume(resumeGone)
		return nil, nil, errGone()
	}
	r, how, err := c.resume(opened, given, l)
	b.metrics.countResume(how)
	if how != resumeJoined {
		c.log("elicitation.resumed", zap.Int("round", opened.round), zap.String("how", string(how)))
	}
	return c, r, err
}

// Shutdown refuses new calls, and lets those that are open finish while ctx lasts. Then it cancels
// them upstream; requests that wait for one are answered that the gateway is shutting down. It
// returns when all is over, with the error of ctx if calls had to be cancelled. Call it before
// [elicitation.Router.Shutdown].
func (b *Bridge) Shutdown(ctx context.Context) error {
	b.mu.Lock()
	if !b.draining {
		b.draining = true
		if b.open == 0 {
			close(b.drained)
		}
	}
	b.mu.Unlock()
	var err error
	select {
	case <-b.drained:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	b.mu.Lock()
	left := make([]*parkedCall, 0, len(b.parked))
	for _, c := range b.parked {
		left = append(left, c)
	}
	b.mu.Unlock()
	for _, c := range left {
		c.shutDown()
	}
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
	b.cancel(errShuttingDown())
	return err
}

// goRunning runs f on a goroutine that Shutdown waits for. It reports false after that.
func (b *Bridge) goRunning(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.running.Go(f)
	return true
}
