package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/publicerror"
	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

// entryBytes is what a result that is kept takes beside its own bytes.
const entryBytes = 1 << 10

// A parkedCall is a call upstream, while its client comes and goes.
//
// Its client gets one outcome after the other, each in a round. The requests that wait for the
// outcome of a round share it: copies of a request, which a client or a proxy may send again, have
// the same answers.
type parkedCall struct {
	bridge    *Bridge
	id        string
	logName   string // of the client
	binding   binding
	principal protocol.Principal
	session   *elicitation.Session
	began     time.Time
	expires   time.Time
	ctx       context.Context // of the call upstream
	cancel    context.CancelCauseFunc

	mu        sync.Mutex
	asked     []*askedQuestion  // that nobody has answered, in their order
	shown     *round            // whose outcome was published last, nil: none was
	awaited   *round            // whose outcome is not there yet, nil: no request wants one
	earlier   [sha256.Size]byte // digest of the answers to the round before shown
	settle    lockedTimer       // publishes the questions
	waiting   int               // requests that wait for awaited
	limit     lockedTimer       // ends the call, or forgets it
	result    *result           // of the call, nil: it goes on
	listeners []*listener       // of the requests that wait
	heldSize  int64             // what the result takes of Bridge.held
	noRoom    bool              // the result takes more than there is, and is sent once
	// keepsPlace says that the call counts as open until it is forgotten.
	keepsPlace bool
	over       bool // it is forgotten
}

// A result is how a call ended.
type result struct {
	value json.RawMessage
	err   error // nil: value
}

// A round is what the requests with the same answers get.
type round struct {
	number int
	ready  chan struct{} // closed when what follows is set

	questions []*askedQuestion
	result    *result // nil: there are questions

	// Guarded by parkedCall.mu.
	taken    bool // a request that was still there got the outcome
	answered bool // the questions were
	answers  [sha256.Size]byte
}

func newRound(number int) *round {
	return &round{number: number, ready: make(chan struct{})}
}

// An askedQuestion is a question of the upstream that waits for its answer.
type askedQuestion struct {
	elicitation.Question
	delivered func()
	answer    chan json.RawMessage // has room for one
}

// park starts a call. It returns the round whose outcome the first request gets.
func (b *Bridge) park(
	request *Request, binding binding, l *listener,
) (*parkedCall, *round, error) {
	id := newID()
	session, err := b.router.Attach(elicitation.SessionInfo{
		ID: id, Principal: request.Principal, Capabilities: request.Capabilities,
		Version: protocol.V20260728, LogName: request.LogName,
	})
	if err != nil {
		return nil, nil, err
	}
	now, first := time.Now(), newRound(1)
	c := &parkedCall{
		bridge: b, id: id, logName: cmp.Or(request.LogName, id), binding: binding,
		principal: request.Principal,
		session:   session, began: now, expires: now.Add(b.opts.TTL), awaited: first, waiting: 1,
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.draining {
		session.Detach()
		return nil, nil, errShuttingDown()
	}
	c.ctx, c.cancel = context.WithCancelCause(b.ctx)
	c.limitLocked(b.opts.TTL, c.expireLocked) // nobody else knows the call
	c.addListenerLocked(l)
	b.parked[c.id] = c
	b.open++
	b.metrics.countParked()
	b.running.Go(func() { c.run(request) })
	return c, first, nil
}

// run makes the call upstream.
func (c *parkedCall) run(request *Request) {
	var begun []*elicitation.Call // guarded by c.mu
	begin := func(ctx context.Context, key elicitation.UpstreamKey) (*elicitation.Call, error) {
		origin := elicitation.Origin{Session: c.session, CallID: newID(),
			QuestionTimeout: c.bridge.opts.QuestionTimeout}
		if request.Progress != nil {
			origin.ProgressToken = protocol.StringID(c.id) // each request has a token of its own
		}
		call, err := c.bridge.router.Begin(ctx, origin, elicitation.ViaAsker(asker{c}), key)
		if err == nil {
			c.mu.Lock()
			begun = append(begun, call)
			c.mu.Unlock()
		}
		return call, err
	}
	value, err := func() (value json.RawMessage, err error) {
		defer func() {
			if r := recover(); r != nil {
				c.bridge.opts.Logger.Error("elicitation: the RunFunc panicked",
					zap.String("call", c.id), zap.String("error", fmt.Sprintf("%T", r)),
					zap.Stack("stack")) // the text may hold an answer
				err = publicerror.Internal()
			}
		}()
		return request.Run(c.ctx, begin)
	}()
	c.mu.Lock()
	left := begun
	c.mu.Unlock()
	for _, call := range left {
		call.End() // again, or in the place of a RunFunc that forgot it
	}
	if err == nil && len(value) == 0 {
		err = errors.New("elicitation bridge: the RunFunc returned neither result nor error")
	}
	how := endDone
	if err != nil {
		how = endFailed
	}
	c.end(value, err, how)
	c.session.Detach()
}

// An asker is the way to the client of a parked call.
type asker struct{ *parkedCall }

var _ elicitation.ProgressDeliverer = asker{}

// Ask implements [elicitation.Asker]: the question goes to the client with the next outcome.
func (c asker) Ask(
	ctx context.Context, q elicitation.Question, delivered func(),
) (json.RawMessage, error) {
	asked := &askedQuestion{
		Question: q, delivered: sync.OnceFunc(delivered), answer: make(chan json.RawMessage, 1),
	}
	c.mu.Lock()
	c.asked = append(c.asked, asked)
	c.settleLocked()
	c.mu.Unlock()
	select {
	case answer := <-asked.answer:
		return answer, nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = slices.DeleteFunc(c.asked, func(q *askedQuestion) bool { return q == asked })
	select {
	case answer := <-asked.answer: // it came at the same moment
		return answer, nil
	default:
		return nil, context.Cause(ctx)
	}
}

// settleLocked publishes the questions in a moment, when the others have come that are asked with
// them.
func (c *parkedCall) settleLocked() {
	if c.awaited == nil || len(c.asked) == 0 {
		return
	}
	c.settle.startLocked(&c.mu, c.bridge.opts.Settle, func() {
		if c.awaited != nil && len(c.asked) > 0 {
			c.awaited.questions = slices.Clone(c.asked)
			c.publishLocked()
		}
	})
}

// publishLocked hands the outcome of the awaited round to the requests that wait for it.
func (c *parkedCall) publishLocked() {
	if c.shown != nil {
		c.earlier = c.shown.answers
	}
	first := c.shown == nil && c.awaited.result == nil
	c.shown, c.awaited = c.awaited, nil
	if first {
		c.log("elicitation.parked", zap.Int("questions", len(c.shown.questions)))
	}
	close(c.shown.ready)
}

// end ends the call with a result, unless it has ended. The requests that wait get it; without
// one it is kept for the next.
func (c *parkedCall) end(value json.RawMessage, err error, how endKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(value, err, how)
}

func (c *parkedCall) endLocked(value json.RawMessage, err error, how endKind) {
	if c.result != nil {
		return
	}
	c.result = &result{value, err}
	c.holdLocked()
	c.recordEndLocked(how) // before the client can know it
	if c.awaited != nil {
		c.awaited.result = c.result
		c.publishLocked()
	}
	c.cancel(errEnded)
}

// recordEndLocked counts and logs the end of the call.
func (c *parkedCall) recordEndLocked(how endKind) {
	rounds := 0
	if c.shown != nil {
		rounds = c.shown.number
	}
	b, took := c.bridge, time.Since(c.began)
	b.metrics.countEnded(how, took)
	fields := []zap.Field{zap.String("how", string(how)), zap.Int("rounds", rounds),
		zap.Float64("duration_ms", float64(took.Microseconds())/1000)}
	if _, sent := c.result.err.(*protocol.Error); c.result.err != nil && !sent {
		// It is the gateway's own: the client does not get it.
		fields = append(fields, zap.String("error", describeFailure(c.result.err)))
	}
	c.log("elicitation.unparked", fields...)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open--; b.open == 0 && b.draining {
		close(b.drained)
	}
}

// describeFailure returns what logs may say of an error: that of a connection, and else the kind,
// since an upstream may repeat an answer in its text.
func describeFailure(err error) string {
	if broken, ok := errors.AsType[*net.OpError](err); ok {
		return broken.Error()
	}
	return fmt.Sprintf("%T", err)
}

var errEnded = errors.New("elicitation bridge: the call is over")

// holdLocked takes the room that keeping the result needs. Where there is none the requests that
// wait get it; without any an error is kept, and the place of the call with it, which bounds how
// many there are.
func (c *parkedCall) holdLocked() {
	held := c.bridge.held
	c.heldSize = entryBytes + int64(len(c.result.value))
	switch {
	case held.Take(c.principal, c.heldSize) == quota.None:
	case c.waiting > 0:
		c.noRoom = true
		held.ForceTake(c.principal, c.heldSize)
	default:
		c.result, c.heldSize, c.keepsPlace = &result{nil, errNotHeld()}, 0, true
	}
	if !c.keepsPlace {
		c.bridge.calls.Give(c.principal, 1)
	}
}

// expireLocked ends a call that has lasted too long.
func (c *parkedCall) expireLocked() {
	c.endLocked(nil, errExpired(), endExpired)
	c.forgetLocked()
}

// abandonLocked ends a call whose client is not coming back.
func (c *parkedCall) abandonLocked() {
	c.endLocked(nil, errGone(), endAbandoned)
	c.forgetLocked()
}

// shutDown ends a call with the bridge.
func (c *parkedCall) shutDown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(nil, errShuttingDown(), endShutdown)
	c.forgetLocked()
}

// forgetLocked gives up what the call has.
func (c *parkedCall) forgetLocked() {
	if c.over {
		return
	}
	c.over = true
	c.limit.stopLocked()
	c.settle.stopLocked()
	c.bridge.held.Give(c.principal, c.heldSize)
	if c.keepsPlace {
		c.bridge.calls.Give(c.principal, 1)
	}
	c.bridge.mu.Lock()
	defer c.bridge.mu.Unlock()
	delete(c.bridge.parked, c.id)
}

// limitLocked calls f after d, with c.mu locked, in the place of what was to be called before.
func (c *parkedCall) limitLocked(d time.Duration, f func()) {
	if !c.over {
		c.limit.startLocked(&c.mu, d, f)
	}
}

// A lockedTimer calls a function with a mutex locked, so that whoever holds that at the same moment
// is either before the call or after it. Its methods are called with the mutex locked.
type lockedTimer struct {
	timer *time.Timer // nil: it was never started
	uses  int         // so that an old use does nothing
}

// startLocked calls f after d, in the place of what was to be called before.
func (t *lockedTimer) startLocked(mu *sync.Mutex, d time.Duration, f func()) {
	t.stopLocked()
	use := t.uses
	t.timer = time.AfterFunc(d, func() {
		mu.Lock()
		defer mu.Unlock()
		if use == t.uses {
			f()
		}
	})
}

// stopLocked has nothing be called any more.
func (t *lockedTimer) stopLocked() {
	t.uses++
	if t.timer != nil {
		t.timer.Stop()
	}
}

// resume takes the answers of a request with a state of this call. It returns the round whose
// outcome the request gets, and for which it waits from now on. A request that is refused changes
// nothing.
func (c *parkedCall) resume(
	s state, given answers, l *listener,
) (*round, resumeKind, error) {
	digest := given.digest()
	c.mu.Lock()
	defer c.mu.Unlock()
	r, how, err := c.findRoundLocked(s, digest)
	if err != nil {
		return nil, how, err
	}
	c.waiting++
	c.addListenerLocked(l)
	c.limitLocked(time.Until(c.expires), c.expireLocked)
	if how == resumeAnswered {
		c.takeAnswersLocked(r, given, digest)
	}
	return r, how, nil
}

// findRoundLocked returns the round of a request with a state of this call.
func (c *parkedCall) findRoundLocked(
	s state, digest [sha256.Size]byte,
) (*round, resumeKind, error) {
	switch {
	case c.over:
		return nil, resumeGone, errGone()
	case s.binding != c.binding || c.shown == nil:
		return nil, resumeRefused, errInvalidState()
	case s.round == c.shown.number-1 && digest == c.earlier:
		return c.shown, resumeRepeated, nil
	case s.round != c.shown.number || c.shown.result != nil:
		return nil, resumeRefused, errInvalidState()
	case c.shown.answered && digest != c.shown.answers:
		return nil, resumeRefused, errInvalidState()
	case c.shown.answered:
		return c.awaited, resumeJoined, nil
	}
	return newRound(c.shown.number + 1), resumeAnswered, nil
}

// takeAnswersLocked gives the answers to the questions that were shown, and begins the round next.
func (c *parkedCall) takeAnswersLocked(
	next *round, given answers, digest [sha256.Size]byte,
) {
	c.shown.answered, c.shown.answers = true, digest
	for _, q := range c.shown.questions {
		answer, ok := given[q.ID]
		if at := slices.Index(c.asked, q); ok && at >= 0 {
			c.asked = slices.Delete(c.asked, at, at+1)
			q.answer <- answer
		}
	}
	c.awaited = next
	switch {
	case c.result != nil:
		c.awaited.result = c.result
		c.publishLocked()
	case c.awaited.number > c.bridge.opts.MaxRounds:
		c.endLocked(nil, errTooManyRounds(), endRounds)
	default:
		c.settleLocked()
	}
}

// awaitOutcome returns the outcome of a round when it is there.
func (c *parkedCall) awaitOutcome(ctx context.Context, r *round) (*Outcome, error) {
	select {
	case <-r.ready:
		o, err := c.sealOutcome(r)
		if err != nil && r.result == nil {
			c.leaveRound(r, false) // without a state the client comes back with an older one
			return nil, err
		}
		c.leaveRound(r, true)
		return o, err
	case <-ctx.Done():
		c.leaveRound(r, false)
		return nil, context.Cause(ctx)
	}
}

// leaveRound says that a request no longer waits for a round, and whether it got the outcome. A call
// for which no request waits is given up after a time, and one that has no state to come back
// with at once.
func (c *parkedCall) leaveRound(r *round, got bool) {
	c.mu.Lock()
	c.waiting--
	r.taken = r.taken || got
	deserted := c.waiting == 0 && !r.taken
	switch {
	case deserted && r.number == 1:
		c.abandonLocked()
	case deserted:
		c.limitLocked(c.bridge.opts.Grace, c.abandonLocked)
	case got && r.result != nil && (r.number == 1 || c.noRoom):
		c.forgetLocked()
	case r.result != nil:
		c.limitLocked(c.bridge.opts.Grace, c.forgetLocked)
	}
	c.mu.Unlock()
	if got {
		for _, q := range r.questions {
			q.delivered()
		}
	}
}

// sealOutcome returns the sealOutcome of a round that is there.
func (c *parkedCall) sealOutcome(r *round) (*Outcome, error) {
	if r.result != nil {
		if err := r.result.err; err != nil {
			return nil, publicerror.From(err)
		}
		return &Outcome{Result: r.result.value}, nil
	}
	sealed, err := c.bridge.seal(state{
		owner: c.bridge.name(), call: c.id, round: r.number, binding: c.binding,
		expires: c.expires,
	})
	if err != nil {
		return nil, fmt.Errorf("elicitation bridge: sealing the state: %w", err)
	}
	o := &Outcome{State: sealed, Questions: make([]elicitation.Question, len(r.questions))}
	for i, q := range r.questions {
		o.Questions[i] = q.Question
	}
	return o, nil
}

// log writes an entry about the call.
func (c *parkedCall) log(event string, fields ...zap.Field) {
	if entry := c.bridge.opts.Logger.Check(zap.InfoLevel, event); entry != nil {
		entry.Write(append([]zap.Field{
			zap.String("event", event), zap.String("call", c.id),
			zap.String("downstream_session", c.logName),
		}, fields...)...)
	}
}

// name returns the name of this replica, "": there is one.
func (b *Bridge) name() string {
	if b.fleet == nil {
		return ""
	}
	return b.fleet.name
}
