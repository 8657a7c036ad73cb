package roundtrip

import (
	"context"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// An askingMode is a way to ask the client questions: returned, and the client retries (revision
// 2026-07-28, [returnMode]); kept in a task's record ([taskMode]); or pushed while the call is open
// (older revisions, [pushMode]). Other code never tests for a mode.
type askingMode interface {
	// returnsQuestions reports whether the client gets questions as a result and carries the state
	// until it retries. Otherwise the handler waits while flow-style questions are asked.
	returnsQuestions() bool

	// openCall prepares the exchange for its first run.
	openCall(e *exchange)
	// retryMembers returns the client's answers and state, without what the revision cannot carry.
	retryMembers(call *Call) (protocol.InputResponses, protocol.RequestState)

	// checkAskable returns why a returned or flow-style question cannot be asked, or nil.
	checkAskable(p *questioner, question protocol.InputRequest) *PushError
	// checkPushable returns why a question cannot be sent while the handler waits, or nil.
	checkPushable(p *questioner, question protocol.InputRequest) *PushError

	// checkClient returns the questions in a form that this client supports, or ends the flow.
	checkClient(ctx context.Context, p *questioner, requests protocol.InputRequests) (
		asked protocol.InputRequests, end *ending, err error)
	// reportRequested reports the questions of a round when they go out.
	reportRequested(ctx context.Context, p *questioner, requested event.InputRequested)
	// askClient asks the questions of the handler's result and opens the next run with the answers,
	// or returns the response if this call has no next run.
	askClient(ctx context.Context, r responder, asks *protocol.InputRequiredResult) (
		next *run, result protocol.Result, err error)
	// answerURLs answers a handler's URL elicitation error. If not final, use result in its place.
	answerURLs(ctx context.Context, r responder, urls *protocol.URLElicitationRequiredError) (
		result protocol.Result, err error, final bool)

	// visitLimit returns how long the call may wait for a visit, awaitRefusal the error of Await if
	// it cannot wait, and endVisit the error after a timeout, nil to ask again.
	visitLimit(r asker, p *questioner) time.Duration
	awaitRefusal(ctx context.Context, r asker, p *questioner, cause error) error
	endVisit(r asker, key string, cause error) error
}

func (p *questioner) askingMode() askingMode {
	if p.call.Version.Era() == protocol.Legacy {
		return pushMode{}
	}
	if p.taskRun() != nil {
		return taskMode{}
	}
	return returnMode{}
}

// pushMode is the mode of older revisions: all rounds are in one call, and questions are pushed.
type pushMode struct{}

func (pushMode) returnsQuestions() bool { return false }

// openCall sets the end of the flow, which progress on a question does not extend.
func (pushMode) openCall(e *exchange) {
	e.wait = &callWait{until: time.Now().Add(e.funnel.opts.flowTTL())}
}

// retryMembers returns zero values: only 2026-07-28 has these members (basic/patterns/mrtr).
func (pushMode) retryMembers(*Call) (protocol.InputResponses, protocol.RequestState) {
	return nil, protocol.RequestState{}
}

func (pushMode) checkAskable(p *questioner, question protocol.InputRequest) *PushError {
	if err := p.checkPush(question); err != nil {
		return err
	}
	if _, err := p.downgradeQuestion(question); err != nil {
		return &PushError{Method: question.Kind().Method(), Cause: err.Error(),
			client: fmt.Sprintf("nobody could be asked: %v; call again from a client of a newer "+
				"revision", err)}
	}
	return nil
}

func (e pushMode) checkPushable(p *questioner, question protocol.InputRequest) *PushError {
	return e.checkAskable(p, question)
}

func (pushMode) checkClient(ctx context.Context, p *questioner, requests protocol.InputRequests) (
	protocol.InputRequests, *ending, error) {
	asked, refused := p.checkLegacyClient(ctx, requests)
	if refused != nil {
		return nil, &ending{refusal: refused, how: words.EndFailed}, nil
	}
	return asked, nil, nil
}

func (pushMode) reportRequested(_ context.Context, p *questioner, requested event.InputRequested) {
	p.wait.requested = requested // until the questions are sent
}

func (pushMode) askClient(ctx context.Context, r responder,
	asks *protocol.InputRequiredResult) (*run, protocol.Result, error) {
	return r.pushReturned(ctx, asks)
}

func (pushMode) answerURLs(ctx context.Context, r responder,
	urls *protocol.URLElicitationRequiredError) (protocol.Result, error, bool) {
	result, err := r.answerLegacyURLs(ctx, urls)
	return result, err, true
}

func (pushMode) visitLimit(_ asker, p *questioner) time.Duration { return p.questionTimeout() }

func (pushMode) awaitRefusal(ctx context.Context, r asker, p *questioner, cause error) error {
	r.failQuestion(ctx, p, &Question{request: &protocol.ElicitURL{}}, cause)
	return cause
}

func (pushMode) endVisit(r asker, key string, cause error) error {
	e := &ending{err: fmt.Errorf("%w", cause), refusal: refuseVisit(key, cause),
		how: words.EndFailed, repeatable: isLink(key)}
	r.endWith(e)
	return e.err
}

// returnMode is the mode of revision 2026-07-28: each round is a leg.
type returnMode struct{}

func (returnMode) returnsQuestions() bool { return true }

func (returnMode) openCall(*exchange) {}

func (returnMode) retryMembers(call *Call) (protocol.InputResponses, protocol.RequestState) {
	return call.Responses, call.State
}

func (returnMode) checkAskable(p *questioner, question protocol.InputRequest) *PushError {
	return missingPush(question.Kind().Method(), p.call.Capabilities.Missing(question))
}

func (returnMode) checkPushable(p *questioner, question protocol.InputRequest) *PushError {
	return &PushError{
		Method: question.Kind().Method(),
		Cause:  fmt.Sprintf("revision %s has no requests from server to client", p.call.Version),
		client: "nobody could be asked: the server asks in a way that this connection does not " +
			"carry, so calling again does not help; tell whoever runs the server",
	}
}

func (returnMode) checkClient(ctx context.Context, p *questioner, requests protocol.InputRequests) (
	protocol.InputRequests, *ending, error) {
	asked, err := p.checkClient(ctx, requests)
	return asked, nil, err
}

func (returnMode) reportRequested(ctx context.Context, p *questioner,
	requested event.InputRequested) {
	p.observe(ctx, requested)
}

// askClient returns the questions, for the client to ask.
func (returnMode) askClient(_ context.Context, _ responder, asks *protocol.InputRequiredResult) (
	*run, protocol.Result, error) {
	return nil, asks, nil
}

// answerURLs turns the error, which this revision lacks, into questions.
func (returnMode) answerURLs(ctx context.Context, r responder,
	urls *protocol.URLElicitationRequiredError) (protocol.Result, error, bool) {
	asks, err := r.convertURLs(urls)
	if err != nil {
		return nil, r.reportBug(ctx, err), true
	}
	return asks, nil, false
}

func (returnMode) visitLimit(r asker, _ *questioner) time.Duration {
	return min(r.maxVisitHold(), r.visitTimeLeft())
}

func (returnMode) awaitRefusal(context.Context, asker, *questioner, error) error { return nil }

func (returnMode) endVisit(asker, string, error) error { return nil }
