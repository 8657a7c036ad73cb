package roundtrip

import (
	"context"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

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
		Cause: fmt.Sprintf("revision %s has no requests from server to client",
			p.call.Version),
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
	return min(maxVisitHold, r.visitTimeLeft())
}

func (returnMode) awaitRefusal(context.Context, asker, *questioner, error) error { return nil }

func (returnMode) endVisit(asker, string, error) error { return nil }
