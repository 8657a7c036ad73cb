package roundtrip

import (
	"context"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// modernEra is that of revision 2026-07-28: each round is a call of its own.
type modernEra struct{}

func (modernEra) returnsQuestions() bool { return true }

func (modernEra) openCall(*exchange) {}

func (modernEra) limitCall(_ *exchange, parent context.Context) context.Context { return parent }

func (modernEra) endCall(*exchange) {}

func (modernEra) retryMembers(call *Call) (protocol.InputResponses, protocol.RequestState) {
	return call.Responses, call.State
}

func (modernEra) checkAskable(p *questioner, question protocol.InputRequest) *PushError {
	return missingPush(question.Kind().Method(), p.call.Capabilities.Missing(question))
}

func (modernEra) checkPushable(p *questioner, question protocol.InputRequest) *PushError {
	return &PushError{
		Method: question.Kind().Method(),
		Cause: fmt.Sprintf("revision %s has no requests from server to client",
			p.call.Version),
		client: "nobody could be asked: the server asks in a way that this connection does not " +
			"carry, so calling again does not help; tell whoever runs the server",
	}
}

func (modernEra) checkClient(ctx context.Context, r *run, requests protocol.InputRequests) (
	protocol.InputRequests, *ending, error) {
	asked, err := r.checkClient(ctx, requests)
	return asked, nil, err
}

func (modernEra) reportRequested(ctx context.Context, r *run, requested event.InputRequested) {
	r.observe(ctx, requested)
}

// askClient leaves it to the client to ask.
func (modernEra) askClient(_, _ context.Context, _ *run, asks *protocol.InputRequiredResult) (
	*run, protocol.Result, error) {
	return nil, asks, nil
}

// answerURLs turns the error, which this revision does not have, into questions.
func (modernEra) answerURLs(ctx context.Context, r *run,
	urls *protocol.URLElicitationRequiredError) (protocol.Result, error, bool) {
	asks, err := r.convertURLs(urls)
	if err != nil {
		return nil, r.reportBug(ctx, err), true
	}
	return asks, nil, false
}

func (modernEra) visitLimit(r *run, _ *questioner) time.Duration {
	return min(MaxVisitHold, r.visitTimeLeft())
}

func (modernEra) awaitRefusal(context.Context, *run, *questioner, error) error { return nil }

func (modernEra) endVisit(*run, string, error) error { return nil }

func (modernEra) isTimeLimit(error) bool { return false }
