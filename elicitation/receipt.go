package elicitation

import (
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Receipt is how a host reports whether the upstream got the answer to one question
// ([ElicitOptions].Receipt). A question that the client has answered then stays pending
// until [Receipt.Confirm] or [Receipt.Fail] is called, so that EventCompleted and the
// metrics count what reached the upstream. One of the two must be called once
// [Call.Elicit] has returned, or done was called: after 10 seconds without
// it the question fails with [ReasonAnswerLost]. For a question without an answer both do
// nothing.
//
// The zero value works. Each question needs its own. All methods may be called
// concurrently, and again.
type Receipt struct {
	mu       sync.Mutex
	question *pendingQuestion
}

// Confirm reports that the upstream's connection has taken the answer.
func (r *Receipt) Confirm() { r.report(nil) }

// Fail reports that the upstream did not get the answer: an SDK refused to send it, say, or
// the connection broke. The question fails with [ReasonAnswerLost]; logs have the type of
// err and not its text, which may quote the answer.
func (r *Receipt) Fail(err error) {
	if err == nil {
		err = errAnswerLost
	}
	r.report(err)
}

func (r *Receipt) report(err error) {
	r.mu.Lock()
	p := r.question
	r.mu.Unlock()
	if p != nil {
		p.settleAnswer(err)
	}
}

// setQuestion is called when the question begins. A nil Receipt ignores it.
func (r *Receipt) setQuestion(p *pendingQuestion) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.question = p
}

// awaitReceiptLocked keeps the question pending until the host has reported on its answer.
// From here on nothing else ends it.
func (p *pendingQuestion) awaitReceiptLocked(out outcome) {
	p.confirmDeliveryLocked()
	p.answer, p.answered = &out, true
	p.setExpiryLocked(time.Now().Add(deliveryTimeout))
}

// settleAnswer ends a question whose answer the upstream got, or did not get because of
// err.
func (p *pendingQuestion) settleAnswer(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answer == nil || p.state.isTerminal() {
		return
	}
	out := *p.answer
	if err != nil {
		wire := protocol.Errorf(protocol.CodeInternalError, "The answer could not be delivered")
		out = outcome{
			state: stateFailed, detail: out.detail, replied: true,
			err: &Error{Reason: ReasonAnswerLost, Wire: wire, Err: err},
		}
	}
	p.endLocked(out)
}
