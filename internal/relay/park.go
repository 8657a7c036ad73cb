package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// errGone refuses a request for an unknown call. No client starts over automatically after it.
func errGone() error {
	return protocol.Errorf(protocol.CodeInvalidParams, "This call is not known here: the server "+
		"that ran it is another one, is gone, or has given it up. "+waiting.UnknownEffect)
}

// Limits bound parked calls. For each number 0 means the default, and a negative value no limit.
type Limits struct {
	Calls, CallsPerPrincipal int           // 1,000, 64
	Time                     time.Duration // of one call, including waits for users: 10 minutes
	// Resumed gets a Resume constant for each request that returned to a parked call.
	Resumed func(outcome string)
	// Place names this process in refusals: "gateway" or "server".
	Place string
}

// How a request that returned to a parked call ended.
const (
	ResumeAsked   = "asked"   // with more questions
	ResumeDone    = "done"    // with the end of the call
	ResumeRefused = "refused" // it does not continue the call
	ResumeUnknown = "unknown" // the call is not here
	ResumeLeft    = "left"    // the client disconnected
)

// A Park holds calls that run once while their questions are with clients.
type Park struct {
	room    *quota.Pool[protocol.Principal]
	results *quota.Pool[protocol.Principal] // bytes of results
	time    time.Duration                   // of one call; negative means no limit

	owner  atomic.Pointer[string] // token of this replica; nil if it is the only one
	report func(outcome string)   // how a request for a parked call ended
	place  string

	mu      sync.Mutex
	calls   map[string]*Parked // including those that just ended; nil: without their result
	running int                // calls upstream
	closed  bool               // no more calls begin
	idle    chan struct{}      // closed when no call runs, once closed is set
}

// NewPark returns an empty park.
func NewPark(limits Limits) *Park {
	return &Park{
		room: quota.New(quota.Options[protocol.Principal]{
			Total: int64(cmp.Or(limits.Calls, 1000)),
			Share: int64(cmp.Or(limits.CallsPerPrincipal, 64)),
			Local: protocol.LocalPrincipal(),
		}),
		results: quota.New(quota.Options[protocol.Principal]{
			Total: maxHeldBytes, Share: maxHeldBytes / 4, Local: protocol.LocalPrincipal(),
		}),
		time:   cmp.Or(limits.Time, 10*time.Minute),
		report: limits.Resumed, place: limits.Place,
		calls: map[string]*Parked{}, idle: make(chan struct{}),
	}
}

// Handler returns the HTTP handler of srv, whose calls are parked here. opts may be nil. With
// Replicas of opts, answers reach the replica that runs the call.
func (p *Park) Handler(
	srv *server.Server, opts *serverhttp.Options,
) (*serverhttp.Handler, error) {
	var with serverhttp.Options
	if opts != nil {
		with = *opts
	}
	// Not checked here: the replica that serves the request checks the state.
	with.OwnerOf = func(ctx context.Context, caller protocol.Principal, text string) string {
		kept, ok := srv.PeekState(ctx, caller, text)
		var state State
		if !ok || json.Unmarshal(kept, &state) != nil {
			return ""
		}
		return state.Owner
	}
	handler, err := serverhttp.New(srv, &with)
	if err != nil {
		return nil, err
	}
	if token := handler.OwnerToken(); token != "" {
		p.owner.Store(&token)
	}
	return handler, nil
}

// Reserve reserves room for a call of principal, or returns the refusal.
func (p *Park) Reserve(principal protocol.Principal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return quota.Refuse(quota.None, time.Second, "the %s is shutting down", p.place)
	}
	switch limit := p.room.Take(principal, 1); limit {
	case quota.None:
	case quota.Share:
		return quota.Refuse(limit, time.Second, "too many of your own calls are waiting for "+
			"upstream servers or for people: answer or cancel some")
	default:
		return quota.Refuse(limit, time.Second, "too many calls are waiting at this %s", p.place)
	}
	p.running++
	return nil
}

// Release frees the room of a call that ended or was not made.
func (p *Park) Release(principal protocol.Principal) {
	p.room.Give(principal, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.closeIdleLocked()
}

// Drain refuses further calls. The channel is closed when the last has ended.
func (p *Park) Drain() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		for _, call := range p.calls {
			if call != nil {
				call.leaveIfKept()
			}
		}
		p.closeIdleLocked()
	}
	return p.idle
}

// IsClosed reports whether further calls are refused.
func (p *Park) IsClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *Park) closeIdleLocked() {
	if p.closed && p.running == 0 {
		close(p.idle)
	}
}

func (p *Park) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeLocked(id)
}

func (p *Park) removeLocked(id string) {
	if call := p.calls[id]; call != nil {
		p.results.Give(call.principal, call.held)
	}
	delete(p.calls, id)
}

// keepResult keeps an ended call's outcome if there is room, else only that the call is over.
func (p *Park) keepResult(call *Parked, result protocol.Result, err error) {
	held := any(result)
	if wire, ok := protocol.AsError(err); ok {
		held = wire
	} else if err != nil {
		held = err.Error()
	}
	encoded, err := json.Marshal(held)
	size := int64(len(encoded)) + parkedBytes
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.calls[call.id] == nil:
	case err != nil || p.results.Take(call.principal, size) != quota.None:
		p.calls[call.id] = nil
	default:
		call.held = size
	}
}

// Run makes a call with reserved room, once, and waits for the first outcome. It calls run on
// another goroutine, in a context with the values of life, which must outlive the request. A panic
// of run ends the process. finish gets run's result, or the cause of the cancelled context, and
// returns the client's outcome. Neither function should hold ctx or call and their HTTP request.
func (p *Park) Run(ctx, life context.Context, call *server.Call,
	run func(ctx context.Context, parked *Parked) (protocol.Result, error),
	finish func(protocol.Result, error) (protocol.Result, error),
) (protocol.Result, error) {
	life, cancel := context.WithCancelCause(life)
	stop := func() {}
	if p.time > 0 {
		t := time.AfterFunc(p.time, func() { cancel(ErrExpired) })
		stop = func() { t.Stop() }
	}
	parked := &Parked{id: rand.Text(), principal: call.Principal, cancel: cancel,
		shown: map[string]*question{}}
	p.mu.Lock()
	p.calls[parked.id] = parked
	p.mu.Unlock()
	leg, err := parked.beginLeg(0, [32]byte{}, nil, call)
	if err != nil {
		return nil, err
	}
	principal := call.Principal // the goroutine must not hold the call
	waiting.PageOf(ctx).Acted = true
	go func() {
		result, err := run(life, parked)
		if err != nil && life.Err() != nil {
			err = context.Cause(life)
		}
		stop()
		result, err = finish(result, err)
		cancel(nil)
		p.finish(parked, result, err)
		p.Release(principal)
	}()
	return p.await(ctx, call, parked, leg, 0)
}

// finish ends a call. A client that was asked may have lost the response, and may retry.
func (p *Park) finish(parked *Parked, result protocol.Result, err error) {
	parked.finish(result, err)
	parked.stopTimers()
	if !parked.hasAsked() {
		p.remove(parked.id)
		return
	}
	p.keepResult(parked, result, err)
	p.removeLater(parked.id, parked.keptUntil()) // the timer must not hold the result
}

// removeLater removes an ended call when no client can come back to it.
func (p *Park) removeLater(id string, until time.Time) {
	time.AfterFunc(max(graceTime, time.Until(until)), func() {
		p.mu.Lock()
		call := p.calls[id]
		p.mu.Unlock()
		if call != nil && call.keptUntil().After(time.Now()) { // since it ended
			p.removeLater(id, call.keptUntil())
			return
		}
		p.remove(id)
	})
}

// findCall returns the call of a state. One that is known and nil has lost its result.
func (p *Park) findCall(state json.RawMessage) (call *Parked, known bool) {
	var s State
	if json.Unmarshal(state, &s) != nil {
		return nil, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	call, known = p.calls[s.Parked]
	return call, known
}

// isOver reports whether a state's call has ended here.
func (p *Park) isOver(state json.RawMessage) bool {
	parked, known := p.findCall(state)
	return known && (parked == nil || parked.isOver())
}

// Resume delivers answers to a running call, and waits for the next outcome.
func (p *Park) Resume(
	ctx context.Context, call *server.Call, state *State,
) (protocol.Result, error) {
	result, outcome, err := p.resume(ctx, call, state)
	if p.report != nil {
		p.report(outcome)
	}
	return result, err
}

func (p *Park) resume(
	ctx context.Context, call *server.Call, state *State,
) (result protocol.Result, outcome string, err error) {
	p.mu.Lock()
	parked := p.calls[state.Parked]
	p.mu.Unlock()
	if parked == nil {
		return nil, ResumeUnknown, errGone()
	}
	answers := readAnswers(ctx, state.Asked)
	digest, err := digestAnswers(answers, state.Asked)
	if err != nil {
		return nil, ResumeRefused, err
	}
	leg, err := parked.beginLeg(state.Round, digest, answers, call)
	if err != nil {
		return nil, ResumeRefused, err
	}
	waiting.PageOf(ctx).Acted = true
	if parked.isOver() { // its result was kept for this request
		p.removeLater(parked.id, time.Time{})
	}
	result, err = p.await(ctx, call, parked, leg, state.Round)
	switch _, asked := result.(*protocol.InputRequiredResult); {
	case asked:
		return result, ResumeAsked, nil
	case ctx.Err() != nil:
		return result, ResumeLeft, err
	}
	return result, ResumeDone, err
}

// await waits for the outcome of a leg and returns it as a result.
func (p *Park) await(ctx context.Context, call *server.Call, parked *Parked, l *leg, round int) (
	protocol.Result, error) {
	request := requestFrom(ctx)
	if request != nil {
		if request.parked != nil && request.parked != parked { // its run was dropped
			request.parked.cancel(ErrClientLeft)
		}
		request.parked, request.leg = parked, l
	}
	o, err := parked.await(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("%w. %s", err, waiting.UnknownEffect)
	}
	if request != nil {
		request.shows = o.questions
	}
	if o.questions == nil {
		return o.result, o.err
	}
	next := State{Parked: parked.id, Round: round + 1}
	if token := p.owner.Load(); token != nil {
		next.Owner = *token
	}
	var questions protocol.InputRequests
	for _, q := range o.questions {
		next.Asked = append(next.Asked, Asked{Key: q.key, Kind: q.request.Kind()})
		questions = append(questions, protocol.KeyedRequest{Key: q.key, Request: q.request})
	}
	return Ask(questions, next), nil
}

// A request is one request of a client, with all its rounds in a session.
type request struct {
	parked *Parked
	leg    *leg        // the last
	shows  []*question // questions that its result shows
}

type requestKey struct{}

func requestFrom(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// WatchRequest calls next for a request that may be a leg of a parked call. It ends the call if no
// client can return: the request has ended without asking, or its session sends no second request.
func (p *Park) WatchRequest(
	ctx context.Context, req *server.Request, next server.Handler,
) (protocol.Result, error) {
	r, page := &request{}, &waiting.Page{Returns: true, IsOver: p.isOver}
	retry := protocol.RetryOf(req.Params)
	returns := retry != nil && retry.RequestState != (protocol.RequestState{})
	ctx = waiting.WithPage(ctx, page)
	result, err := next(context.WithValue(ctx, requestKey{}, r), req)
	if r.parked == nil && !page.Kept.IsZero() { // a leg that was answered before the handler ran
		r.parked, _ = p.findCall(page.State)
	}
	if r.parked == nil {
		return result, err
	}
	_, asked := result.(*protocol.InputRequiredResult)
	if asked = asked || !page.Kept.IsZero(); asked {
		req.OnWritten(func() {
			for _, q := range r.shows {
				q.written()
			}
		})
	}
	if !page.Kept.IsZero() {
		if r.parked.noteKept(page.Kept, r.leg); p.IsClosed() { // none comes back
			r.parked.leaveIfKept()
		}
	} else if r.parked.Session() != nil || !asked && (ctx.Err() == nil || !returns) {
		r.parked.cancel(ErrClientLeft) // does nothing to a call that is over
	}
	return result, err
}
