package roundtrip

import (
	"context"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// pushMode is that of older revisions: the rounds of a flowRun are within one call, whose
// questions are pushed to the client.
type pushMode struct{}

func (pushMode) returnsQuestions() bool { return false }

// openCall notes when the flowRun ends, however often the client reports progress on a question.
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
