package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// errGone answers a request for a call that is not here any more. No client starts over after it
// by itself.
func errGone() error {
	return protocol.Errorf(protocol.CodeInvalidParams, "This call is not known here: the server "+
		"that ran it is another one, is gone, or has given it up. "+unknownEffect)
}

// A park holds the calls of upstreams that push their questions.
type park struct {
	room *quota.Pool[protocol.Principal]
	time time.Duration // that one call may take, negative: no limit

	mu      sync.Mutex
	calls   map[string]*parkedCall // those that ended a moment ago are among them
	running int                    // calls upstream
	held    int                    // bytes of results
	closed  bool                   // no more calls begin
	idle    chan struct{}          // closed when none runs after closed was set
}

func newPark(limits Limits) *park {
	return &park{
		room: quota.New(quota.Options[protocol.Principal]{
			Total: int64(orDefault(limits.Calls, 1000)),
			Share: int64(orDefault(limits.CallsPerPrincipal, 64)),
			Local: protocol.LocalPrincipal(),
		}),
		time:  orDefault(limits.CallTime, 10*time.Minute),
		calls: map[string]*parkedCall{},
		idle:  make(chan struct{}),
	}
}

// reserve makes room for a call of principal, or returns why there is none.
func (p *park) reserve(principal protocol.Principal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return quota.Refuse(quota.None, time.Second, "the gateway is shutting down")
	}
	switch limit := p.room.Take(principal, 1); limit {
	case quota.None:
	case quota.Share:
		return quota.Refuse(limit, time.Second, "too many of your own calls are waiting for "+
			"upstream servers or for people: answer or cancel some")
	default:
		return quota.Refuse(limit, time.Second, "too many calls are waiting at this gateway")
	}
	p.running++
	return nil
}

// begin keeps a call for which there is room.
func (p *park) begin(call *parkedCall) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[call.id] = call
}

// end frees the room of a call whose upstream has returned, or was not called.
func (p *park) end(principal protocol.Principal) {
	p.room.Give(principal, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.closeIdleLocked()
}

// drain lets no more calls begin. The channel is closed when the last has ended.
func (p *park) drain() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.closeIdleLocked()
	}
	return p.idle
}

func (p *park) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *park) closeIdleLocked() {
	if p.closed && p.running == 0 {
		close(p.idle)
	}
}

func (p *park) find(id string) *parkedCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[id]
}

func (p *park) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeLocked(id)
}

func (p *park) removeLocked(id string) {
	if call := p.calls[id]; call != nil {
		p.held -= call.held
		delete(p.calls, id)
	}
}

// keep makes room for the result of a call that has ended, or forgets the call.
func (p *park) keep(call *parkedCall, result protocol.Result) {
	encoded, err := json.Marshal(result)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.calls[call.id] == nil:
	case err != nil || p.held+len(encoded) > maxHeldBytes:
		p.removeLocked(call.id)
	default:
		call.held = len(encoded)
		p.held += call.held
	}
}

// parkCall calls a legacy upstream, once, and waits for the first outcome. There is room for the
// call.
func (g *Gateway) parkCall(ctx context.Context, u *upstream, conn *connection,
	release func(reuse bool), call *server.Call, params protocol.Params,
) (protocol.Result, error) {
	life, cancel := context.WithCancelCause(g.carrySpan(ctx))
	stop := func() {}
	if g.park.time > 0 {
		t := time.AfterFunc(g.park.time, func() { cancel(errExpired) })
		stop = func() { t.Stop() }
	}
	parked := newParkedCall(cancel)
	if call.Version.Era() == protocol.Legacy {
		parked.session = call
	}
	g.park.begin(parked)
	g.metrics.parked.Add(1)
	leg, err := parked.beginLeg(0, [32]byte{}, nil, call)
	if err != nil {
		return nil, err
	}
	// The call of the first leg, and the HTTP request under it, are not kept.
	principal, running := call.Principal, withProgress(life, call, parked.waitingCaller)
	go func() {
		result, err := g.runParked(running, u, conn, parked, params)
		// A connection whose call was given up may still bring questions of that call.
		broken := isBroken(err)
		release(life.Err() == nil && !broken)
		if life.Err() == nil && broken {
			u.dropIdle()
		}
		stop()
		cancel(nil)
		g.finishParked(u, parked, result, err)
		g.metrics.parked.Add(-1)
		g.park.end(principal)
	}()
	return g.awaitParked(ctx, parked, leg, 0)
}

// runParked makes the call. The context has no value of the client's request but its span.
func (g *Gateway) runParked(ctx context.Context, u *upstream, conn *connection,
	parked *parkedCall, params protocol.Params,
) (result protocol.Result, err error) {
	conn.parked.Store(parked)
	defer conn.parked.Store(nil)
	defer g.recoverPanic(&err)
	switch p := params.(type) {
	case *protocol.CallToolParams:
		result, err = resultOf(conn.client.CallToolParams(ctx, p))
	case *protocol.GetPromptParams:
		result, err = resultOf(conn.client.GetPromptParams(ctx, p))
	case *protocol.ReadResourceParams:
		result, err = resultOf(conn.client.ReadResourceParams(ctx, p))
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return result, nil
}

// recoverPanic makes a panic the error of what runs outside of a request: an authorizer must
// not end the process here, as it does not in a handler.
func (g *Gateway) recoverPanic(err *error) {
	if v := recover(); v != nil {
		failure, stack := fmt.Errorf("gateway: panic: %v", v), string(debug.Stack())
		*err = failure
		g.log(event.LevelError, "gateway.panic", func(out event.Encoder) {
			out.AddString("error", failure.Error())
			out.AddString("stack", stack)
		})
	}
}

// resultOf keeps a nil pointer from becoming a result.
func resultOf[R protocol.Result](result R, err error) (protocol.Result, error) {
	if err != nil {
		return nil, err
	}
	return result, nil
}

// finishParked ends a call. A client that was asked may have lost the response and come again.
func (g *Gateway) finishParked(
	u *upstream, parked *parkedCall, result protocol.Result, err error,
) {
	if err != nil {
		err = u.explainCall(err)
		g.logUpstreamFailure(u, err)
	} else {
		result = u.publishResult(result)
	}
	parked.finish(result, err)
	parked.stopTimers()
	if !parked.hasAsked() {
		g.park.remove(parked.id)
		return
	}
	g.park.keep(parked, result)
	id := parked.id // the timer must not hold the result
	time.AfterFunc(graceTime, func() { g.park.remove(id) })
}

// resumeParked takes the answers to a call that runs here, and waits for the next outcome.
func (g *Gateway) resumeParked(
	ctx context.Context, call *server.Call, state *flowState,
) (protocol.Result, error) {
	result, outcome, err := g.resume(ctx, call, state)
	g.metrics.resumes(outcome).Add(1)
	return result, err
}

func (g *Gateway) resume(
	ctx context.Context, call *server.Call, state *flowState,
) (result protocol.Result, outcome string, err error) {
	parked := g.park.find(state.Parked)
	if parked == nil {
		return nil, resumeUnknown, errGone()
	}
	answers := readAnswers(ctx, state.Asked)
	digest, err := digestAnswers(answers, state.Asked)
	if err != nil {
		return nil, resumeRefused, err
	}
	leg, err := parked.beginLeg(state.Round, digest, answers, call)
	if err != nil {
		return nil, resumeRefused, err
	}
	result, err = g.awaitParked(ctx, parked, leg, state.Round)
	switch _, asked := result.(*protocol.InputRequiredResult); {
	case asked:
		return result, resumeAsked, nil
	case ctx.Err() != nil:
		return result, resumeLeft, err
	}
	return result, resumeDone, err
}

// awaitParked waits for the outcome of a leg and returns it as the server sends it.
func (g *Gateway) awaitParked(
	ctx context.Context, parked *parkedCall, l *leg, round int,
) (protocol.Result, error) {
	if request := requestFrom(ctx); request != nil {
		request.parked = parked
	}
	o, err := parked.await(ctx, l)
	if err != nil {
		return nil, err
	}
	if o.questions == nil {
		return o.result, o.err
	}
	next := flowState{Parked: parked.id, Round: round + 1}
	if owner := g.owner.Load(); owner != nil {
		next.Owner = *owner
	}
	var questions protocol.InputRequests
	for _, q := range o.questions {
		next.Asked = append(next.Asked, askedQuestion{q.key, "", q.request.Kind()})
		questions = append(questions, protocol.KeyedRequest{Key: q.key, Request: q.request})
	}
	return inputRequired(questions, next), nil
}

// A request is one request of a client, all its rounds in a session included.
type request struct{ parked *parkedCall }

type requestKey struct{}

func requestFrom(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// watchRequests is the middleware that counts requests, has them see what
// their callers may, and ends a parked call
// for which nobody can come back: the request has ended without asking, or the session that it
// belongs to sends no second one.
func (g *Gateway) watchRequests(next server.Handler) server.Handler {
	return func(ctx context.Context, req *server.Request) (protocol.Result, error) {
		g.chooseCatalogs(ctx, req)
		if !protocol.MultiRoundTrip(req.Message.Method) {
			return next(ctx, req)
		}
		g.requests.Add(1)
		defer g.requests.Add(-1)
		r := &request{}
		result, err := next(context.WithValue(ctx, requestKey{}, r), req)
		if r.parked == nil {
			return result, err
		}
		_, asked := result.(*protocol.InputRequiredResult)
		if r.parked.session != nil || !asked && ctx.Err() == nil {
			r.parked.cancel(errClientLeft) // does nothing to a call that is over
		}
		return result, err
	}
}
