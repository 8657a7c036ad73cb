package roundtrip

import (
	"context"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// An askingMode is how questions reach the client, and what differs with it: those of a call of
// revision 2026-07-28 are returned, and the client calls again with the answers ([returnMode]);
// those of a run of a task go into a record ([taskMode]); those of a call of an older revision are
// pushed while the call is open ([pushMode]). Everything else asks the mode and never tests which
// one it is.
type askingMode interface {
	// returnsQuestions reports whether the client gets questions as a result, and carries the
	// state of the flow until it calls again. Where it does not, questions of flow style are
	// asked while the handler waits.
	returnsQuestions() bool

	// openCall prepares the exchange for its first run.
	openCall(e *exchange)
	// retryMembers returns the answers and the state that the client sent, without what its
	// revision cannot carry, or what the host cannot tell from absence.
	retryMembers(call *Call) (protocol.InputResponses, protocol.RequestState)

	// checkAskable returns why a question that the handler returns, or asks in flow style,
	// cannot be asked, nil if it can.
	checkAskable(p *questioner, question protocol.InputRequest) *PushError
	// checkPushable returns why a question cannot be sent while the handler waits, nil if it can.
	checkPushable(p *questioner, question protocol.InputRequest) *PushError

	// checkClient returns the questions as the client can be asked them. The flow ends instead
	// where end is not nil.
	checkClient(ctx context.Context, p *questioner, requests protocol.InputRequests) (
		asked protocol.InputRequests, end *ending, err error)
	// reportRequested reports the questions of a round when they go out.
	reportRequested(ctx context.Context, p *questioner, requested event.InputRequested)
	// askClient asks the questions of the handler's result and opens the next run with the answers.
	// Where there is no next run in this call it returns the response.
	askClient(ctx context.Context, r responder, asks *protocol.InputRequiredResult) (
		next *run, result protocol.Result, err error)
	// answerURLs answers a handler's URL elicitation error. Where it is not final the handler
	// counts as having returned result.
	answerURLs(ctx context.Context, r responder, urls *protocol.URLElicitationRequiredError) (
		result protocol.Result, err error, final bool)

	// visitLimit returns how long the call waits for the end of a visit, awaitRefusal the error of
	// Await where it cannot, and endVisit that where the visit has not ended in time; nil: the
	// client is asked again.
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

// pushMode is that of older revisions: the rounds of a flow are within one call, whose
// questions are pushed to the client.
type pushMode struct{}

func (pushMode) returnsQuestions() bool { return false }

// openCall notes when the flow ends, however often the client reports progress on a question.
func (pushMode) openCall(e *exchange) {
	e.wait = &callWait{until: time.Now().Add(e.funnel.opts.flowTTL())}
}

// retryMembers returns nothing: retry members came with 2026-07-28 (basic/patterns/mrtr). Before
// that they are unknown members, which a server ignores whatever they contain.
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
	p.wait.requested = requested // until they are sent
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
	r.failQuestion(ctx, p, protocol.KindElicitURL, cause, false)
	return cause
}

func (pushMode) endVisit(r asker, key string, cause error) error {
	r.endWith(&ending{err: cause, refusal: refuseVisit(key, cause), how: words.EndFailed})
	return cause
}

// returnMode is that of revision 2026-07-28: each round is a call of its own.
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

// askClient leaves it to the client to ask.
func (returnMode) askClient(_ context.Context, _ responder, asks *protocol.InputRequiredResult) (
	*run, protocol.Result, error) {
	return nil, asks, nil
}

// answerURLs turns the error, which this revision does not have, into questions.
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
