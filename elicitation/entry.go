package elicitation

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/waiting"
	"github.com/rondo-mcp/rondo/protocol"
)

// state is where a question stands:
//
//	Created → Delivered → Completed | TimedOut | Cancelled | Failed
//	Created ──────────────────────↗
type state uint8

const (
	stateCreated state = iota
	stateDelivered
	stateCompleted
	stateTimedOut
	stateCancelled
	stateFailed
)

func (s state) isTerminal() bool { return s >= stateCompleted }

// A pendingQuestion is one question while it is pending.
type pendingQuestion struct {
	router         *Router
	call           *Call
	id             protocol.ID
	upstreamID     protocol.ID
	upstreamToken  protocol.ProgressToken
	kind           protocol.InputKind
	message        string // fit for logs
	check          answerCheck
	url            *urlElicitation // of a URL with an elicitationId
	onProgress     func(*protocol.Progress)
	done           func(Outcome)
	created        time.Time
	timeout        time.Duration
	claimed        bool
	routerDelivers bool // the router delivers it, by frames

	// mu is held over a change of state and the events that tell of it, so that
	// the events of a question come in the order of its states. The router's
	// lock may be taken while it is held, never the other way round.
	mu              sync.Mutex
	state           state
	expires         time.Time
	timer           *time.Timer
	unwatchUpstream func() bool        // stops watching the upstream's context
	wait            waiting.Wait       // of the client's request, for what surrounds it
	resumeClock     func()             // starts the host's clock again
	cancelDelivery  context.CancelFunc // ends a delivery that is under way
	answered        bool               // the client has replied
	// withdrawn says that the router has sent the withdrawal.
	withdrawn bool
}

// An outcome is the terminal state of a question and why.
type outcome struct {
	state  state
	result *protocol.ElicitResult // when completed
	err    *Error                 // otherwise
	detail string                 // what content does not fit, fit for logs
	// replied says that the client has answered: the question was delivered,
	// whatever the transport reports, and there is nothing to withdraw.
	replied bool
}

func failedOutcome(reason Reason, wire *protocol.Error, err error) outcome {
	return outcome{state: stateFailed, err: &Error{Reason: reason, Wire: wire, Err: err}}
}

func timeoutOutcome() outcome {
	return outcome{state: stateTimedOut, err: &Error{Reason: ReasonTimeout, Wire: protocol.Errorf(protocol.CodeTimeout, MessageTimeout)}}
}

func (r *Router) cancelledOutcome(by CancelledBy, cause error) outcome {
	e := &Error{Reason: ReasonCancelled, By: by, Wire: protocol.Errorf(protocol.CodeFlowEnded, "Elicitation cancelled"), Err: cause}
	switch by {
	case BySession:
		e.Wire = protocol.Errorf(protocol.CodeMethodNotFound, MessageNoSession)
	case ByClient, ByCall:
		e.Wire = protocol.Errorf(protocol.CodeFlowEnded, "Elicitation cancelled: the request that caused it has ended")
	case ByShutdown:
		refused := r.shutdownError()
		e.Wire, e.RetryAfter = refused.Wire, refused.RetryAfter
	}
	return outcome{state: stateCancelled, err: e}
}

// finish ends the question. Whoever calls it first decides the outcome, and that
// call alone counts it, tells of it and frees its slot; it reports whether this
// one did.
func (e *pendingQuestion) finish(end outcome) bool {
	e.mu.Lock()
	if e.state.isTerminal() {
		e.mu.Unlock()
		return false
	}
	r, was := e.router, e.state
	if was == stateCreated && end.replied {
		// The reply overtook the transport's word that the question is out.
		e.emitStateLocked(EventDelivered, nil)
		was = stateDelivered
	}
	e.state, e.answered = end.state, end.replied
	if end.err != nil {
		end.err.RequestID = hexID(e.id)
	}
	withdraw := e.withdrawLocked(was, end)
	r.removeQuestion(e, end)
	took := time.Since(e.created)
	r.metrics.countEnded(end, took)
	e.emitStateLocked(end.eventKind(), &end)
	release, resume, abandon := e.unwatchUpstream, e.resumeClock, e.cancelDelivery
	e.timer.Stop()
	e.mu.Unlock()

	if release != nil {
		release()
	}
	r.callHost("watcher", e.wait.End)
	if resume != nil {
		r.callHost("clock", resume)
	}
	if abandon != nil {
		abandon()
	}
	if e.claimed {
		r.opts.Bus.Release(questionBusKey(e.id))
	}
	outcome := Outcome{Result: end.result, Withdraw: withdraw}
	if end.err != nil {
		outcome.Err = end.err
	}
	defer e.call.endWaiting().Stop() // a heartbeat that is stuck holds up no answer
	e.done(outcome)
	return true
}

func (end outcome) eventKind() EventKind {
	switch end.state {
	case stateCompleted:
		return EventCompleted
	case stateTimedOut:
		return EventTimeout
	case stateCancelled:
		return EventCancelled
	}
	return EventError
}

// Cancel ends the question because the server closes that the client's request
// runs in. It implements [waiting.Canceler]: whoever calls it may hold locks.
func (e *pendingQuestion) Cancel(cause error) {
	go e.router.callHost("callback", func() { e.finish(e.router.cancelledOutcome(ByShutdown, cause)) })
}

// markDelivered says that the transport has taken the question. late means that
// nobody waits for the answer any more, and that the client has not been told.
func (e *pendingQuestion) markDelivered() (late bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != stateCreated {
		return e.state.isTerminal() && !e.answered && !e.withdrawn
	}
	e.state = stateDelivered
	e.emitStateLocked(EventDelivered, nil)
	e.setExpiryLocked(e.created.Add(e.timeout))
	return false
}

func (e *pendingQuestion) failDelivery(err error) {
	e.finish(failedOutcome(ReasonDelivery, protocol.Errorf(protocol.CodeInternalError, "Elicitation could not be delivered"), err))
}

// setExpiryLocked sets when the question expires. e.mu is held.
func (e *pendingQuestion) setExpiryLocked(t time.Time) {
	if e.expires.Equal(t) {
		return
	}
	e.expires = t
	e.timer.Reset(time.Until(t))
}

// handleTimer is what the timer calls. It may come late, after the time was put off.
func (e *pendingQuestion) handleTimer() {
	e.mu.Lock()
	early := time.Now().Before(e.expires)
	stuck := e.state == stateCreated && e.expires.Before(e.created.Add(e.timeout))
	e.mu.Unlock()
	switch {
	case early:
	case stuck:
		e.failDelivery(errStuck)
	default:
		e.finish(timeoutOutcome())
	}
}

// extendTimeout starts the timeout anew, within the absolute maximum. It reports
// whether the question was still pending.
func (e *pendingQuestion) extendTimeout() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.isTerminal() {
		return false
	}
	if e.state == stateCreated {
		e.state = stateDelivered
		e.emitStateLocked(EventDelivered, nil)
	}
	last := e.created.Add(e.router.opts.MaxTimeout)
	next := time.Now().Add(e.timeout)
	if next.After(last) {
		next = last
	}
	if next.After(e.expires) {
		e.setExpiryLocked(next)
	}
	return true
}

// newID returns 128 random bits in hexadecimal.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// hexID is an id of newID without the quotes that it has on the wire.
func hexID(id protocol.ID) string {
	s := id.String()
	return s[1 : len(s)-1]
}
