package relay

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

const (
	// settleTime is how long a question waits for concurrent questions, which are batched with it.
	settleTime = 15 * time.Millisecond
	// graceTime is how long a call goes on without a request, and its result is kept after its end.
	graceTime = 30 * time.Second
	// maxHeldBytes limits the results kept for clients that may retry. Above it ended calls are
	// forgotten once waiting requests have their outcome.
	maxHeldBytes = 64 << 20
	// parkedBytes is about what an ended call takes besides its result.
	parkedBytes = 4 << 10
)

// The causes with which a parked call is cancelled.
var (
	ErrClientLeft = errors.New("relay: the client has gone away")
	ErrExpired    = errors.New("relay: the call has taken too long")
)

// IsAbandoned reports whether a parked call was cancelled with one of the causes above.
func IsAbandoned(err error) bool {
	return errors.Is(err, ErrClientLeft) || errors.Is(err, ErrExpired)
}

// A Parked is a call that runs once, and stays open while questions are with the client. Each
// request for it is a leg that waits for questions or the end. Methods may be called concurrently.
//
// One lock guards all state: two copies of a request get the same outcome or one is refused.
type Parked struct {
	id        string
	principal protocol.Principal
	cancel    context.CancelCauseFunc // ends the call

	mu       sync.Mutex
	session  *server.Call         // of a client to push to; nil if the client returns
	legs     []*leg               // all but the last two are nil
	open     []*question          // not yet shown to a client
	shown    map[string]*question // by the last outcome, by key
	keys     int                  // number of keys given out
	settling *time.Timer          // shows the open questions, nil if none is due
	leaving  *time.Timer          // cancels the call unless a leg comes, nil while a leg waits
	finished *outcome             // how the call ended, nil while it runs
	kept     time.Time            // until when the client comes back by another call

	held int64 // bytes of the result, under the lock of the park
}

// A leg is one request of the client, including its retries.
type leg struct {
	answers [32]byte      // digest of its answers
	ready   chan struct{} // closed when outcome is set
	outcome outcome
	waiting int          // requests that wait for the outcome
	caller  *server.Call // the latest of these requests; progress and logs go there
}

// An outcome is the response to a leg.
type outcome struct {
	questions []*question
	result    protocol.Result
	err       error
}

// A question is a call's question whose asker waits.
type question struct {
	key     string
	number  int // in the order in which they were asked
	request protocol.InputRequest
	answer  chan Answer // has room for one
	written func()      // called when the question was sent
}

// ErrForeignLeg refuses a request that does not continue the call: an old round, or other answers.
func ErrForeignLeg() error {
	return protocol.Errorf(protocol.CodeInvalidParams, "Invalid or expired requestState")
}

// beginLeg returns the leg of a request with the answers to round, and takes the answers unless a
// copy of the request brought them. Round 0 is the request that began the call.
func (p *Parked) beginLeg(
	round int, digest [32]byte, answers map[string]Answer, caller *server.Call,
) (*leg, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case round == len(p.legs):
		p.takeAnswersLocked(answers)
		p.addLegLocked(digest)
	case round != len(p.legs)-1 || p.legs[round].answers != digest:
		return nil, ErrForeignLeg()
	}
	l := p.legs[round]
	l.waiting++
	l.caller, p.kept, p.session = caller, time.Time{}, nil
	if caller.Version.Era() == protocol.Legacy {
		p.session = caller
	}
	if p.leaving != nil {
		p.leaving.Stop()
		p.leaving = nil
	}
	return l, nil
}

// takeAnswersLocked delivers the answers to shown questions. Unanswered questions are asked again.
func (p *Parked) takeAnswersLocked(answers map[string]Answer) {
	var again []*question
	for key, q := range p.shown {
		if a, ok := answers[key]; ok {
			q.answer <- a
			continue
		}
		again = append(again, q)
	}
	slices.SortFunc(again, func(a, b *question) int { return cmp.Compare(a.number, b.number) })
	p.open = append(again, p.open...)
	clear(p.shown)
}

// addLegLocked adds the next leg and settles it if its outcome is known.
func (p *Parked) addLegLocked(digest [32]byte) {
	p.legs = append(p.legs, &leg{answers: digest, ready: make(chan struct{})})
	if n := len(p.legs); n > 2 {
		p.legs[n-3] = nil // its outcome is no longer needed
	}
	switch {
	case p.finished != nil:
		p.settleLocked(*p.finished)
	case len(p.open) > 0:
		p.settleSoonLocked()
	}
}

// lastLegLocked returns the waiting leg, or nil.
func (p *Parked) lastLegLocked() *leg {
	if len(p.legs) == 0 {
		return nil
	}
	l := p.legs[len(p.legs)-1]
	select {
	case <-l.ready:
		return nil
	default:
		return l
	}
}

func (p *Parked) settleLocked(o outcome) {
	if l := p.lastLegLocked(); l != nil {
		l.outcome = o
		close(l.ready)
	}
}

// settleSoonLocked shows the open questions to the waiting leg after settleTime.
func (p *Parked) settleSoonLocked() {
	if p.settling == nil {
		p.settling = time.AfterFunc(settleTime, p.showQuestions)
	}
}

func (p *Parked) showQuestions() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settling = nil
	if len(p.open) == 0 || p.finished != nil || p.lastLegLocked() == nil {
		return
	}
	shown := slices.Clone(p.open[:min(len(p.open), maxShown)])
	for _, q := range shown {
		p.shown[q.key] = q
	}
	p.settleLocked(outcome{questions: shown})
	p.open = p.open[len(shown):] // for the next leg
}

// maxShown limits the questions of one leg: their state must fit into the client's state.
const maxShown = 32

// Ask sends a question to the client and waits for the answer. If ctx ends, because the question is
// withdrawn or the call is over, the error is the cause of ctx. In a session the error may be one
// of [server.Call.Push]. watch, which may be nil, is notified of the question; unless it has
// Extended, the server limits the question's time in a session.
func (p *Parked) Ask(
	ctx context.Context, request protocol.InputRequest, watch *waiting.Push,
) (Answer, error) {
	if watch == nil {
		watch = &waiting.Push{Written: func(string) {}}
	}
	if session := p.sessionToAsk(); session != nil {
		raw, err := session.Push(waiting.WithPush(ctx, watch), request)
		if err == nil {
			return decodeAnswer(request.Kind(), raw)
		}
		if !errors.Is(err, waiting.ErrReturn) && (ctx.Err() != nil || !p.hasShown()) {
			return Answer{}, err
		}
	}
	q := &question{request: request, answer: make(chan Answer, 1)}
	p.mu.Lock()
	p.keys++
	q.number, q.key = p.keys, keyPrefix+strconv.Itoa(p.keys)
	q.written = func() { watch.Written(q.key) }
	p.open = append(p.open, q)
	p.settleSoonLocked()
	p.mu.Unlock()
	select {
	case a := <-q.answer:
		return a, nil
	case <-ctx.Done():
		p.withdraw(q)
		return Answer{}, context.Cause(ctx)
	}
}

const keyPrefix = "question-"

// withdraw removes a question. A later answer to it is ignored.
func (p *Parked) withdraw(q *question) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.shown, q.key)
	p.open = slices.DeleteFunc(p.open, func(o *question) bool { return o == q })
}

func (p *Parked) finish(result protocol.Result, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = &outcome{result: result, err: err}
	p.settleLocked(*p.finished)
	p.session = nil // which holds the call's arguments
}

// await returns the outcome of a leg. After the last request has ended, the call lasts graceTime.
func (p *Parked) await(ctx context.Context, l *leg) (outcome, error) {
	select {
	case <-l.ready:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.waiting--; l.waiting == 0 {
		l.caller = nil // which holds its HTTP request
	}
	select {
	case <-l.ready:
		return l.outcome, nil
	default:
	}
	if l.waiting > 0 {
		return outcome{}, context.Cause(ctx)
	}
	if len(p.legs) == 1 {
		p.cancel(leaveCause(ctx)) // the client has no state to come back with
	} else {
		p.leaveLaterLocked()
	}
	return outcome{}, context.Cause(ctx)
}

// leaveCause returns the cause for ending an abandoned call, after the end of ctx.
func leaveCause(ctx context.Context) error {
	if said, ok := protocol.AsError(context.Cause(ctx)); ok {
		return &waiting.ClientError{Said: said, Err: ErrClientLeft}
	}
	return ErrClientLeft
}

// leaveLaterLocked cancels the call after graceTime, unless a leg comes.
func (p *Parked) leaveLaterLocked() {
	var timer *time.Timer
	timer = time.AfterFunc(graceTime, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.leaving == timer { // else a leg came at this moment
			p.cancel(ErrClientLeft)
		}
	})
	p.leaving = timer
}

// sessionToAsk returns the call of a client to push to, or nil if questions wait for the next leg.
func (p *Parked) sessionToAsk() *server.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastLegLocked() == nil {
		return nil
	}
	return p.session
}

// hasShown reports whether the last leg has ended with questions, and another one will come.
func (p *Parked) hasShown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastLegLocked() == nil && p.legs[len(p.legs)-1].outcome.questions != nil
}

// noteKept records until when the client may come back by another call. It does nothing if a leg has
// come after l; a request without a leg passes nil.
func (p *Parked) noteKept(until time.Time, l *leg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.legs[len(p.legs)-1] == l || l == nil && p.lastLegLocked() == nil {
		p.kept = until
	}
}

func (p *Parked) keptUntil() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept
}

func (p *Parked) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finished != nil
}

// leaveIfKept cancels a call that nobody can come back to while the server closes.
func (p *Parked) leaveIfKept() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.kept.IsZero() {
		p.cancel(ErrClientLeft)
	}
}

// Session returns the call of a client to push to, or nil if the client returns.
func (p *Parked) Session() *server.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session
}

// WaitingCaller returns the call's waiting request, or nil.
func (p *Parked) WaitingCaller() *server.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lastLegLocked(); l != nil {
		return l.caller
	}
	return nil
}

// hasAsked reports whether a client may return to the call.
func (p *Parked) hasAsked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys > 0
}

func (p *Parked) stopTimers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range []*time.Timer{p.settling, p.leaving} {
		if t != nil {
			t.Stop()
		}
	}
}
