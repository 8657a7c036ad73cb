package roundtrip

import (
	"context"
	"time"

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
	// state of the flowRun until it calls again. Where it does not, questions of flow style are
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
	// checkPushable returns why a question cannot be sent while the handler waits, nil if it
	// can.
	checkPushable(p *questioner, question protocol.InputRequest) *PushError

	// checkClient returns the questions as the client can be asked them. The flowRun ends instead
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

// askingMode returns the mode of the call.
func (p *questioner) askingMode() askingMode {
	if p.call.Version.Era() == protocol.Legacy {
		return pushMode{}
	}
	if p.taskRun() != nil {
		return taskMode{}
	}
	return returnMode{}
}
