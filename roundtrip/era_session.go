package roundtrip

import (
	"context"
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// sessionEra is that of older revisions: the rounds of a flowRun are within one call, whose
// questions are pushed to the client.
type sessionEra struct{}

func (sessionEra) returnsQuestions() bool { return false }

func (sessionEra) openCall(e *exchange) { e.wait = &callWait{} }

// limitCall returns a context that ends with the flowRun. Progress of the client may extend the
// time for each question, so the call needs a limit of its own.
func (sessionEra) limitCall(e *exchange, parent context.Context) context.Context {
	e.wait.until = time.Now().Add(e.funnel.opts.flowTTL())
	e.wait.ctx.Init(parent, e.wait.until, errHumanTimeout)
	return &e.wait.ctx
}

func (sessionEra) endCall(e *exchange) { e.wait.ctx.Cancel() }

// retryMembers returns nothing: retry members came with 2026-07-28 (basic/patterns/mrtr). Before
// that they are unknown members, which a server ignores whatever they contain.
func (sessionEra) retryMembers(*Call) (protocol.InputResponses, protocol.RequestState) {
	return nil, protocol.RequestState{}
}

func (sessionEra) checkAskable(p *questioner, question protocol.InputRequest) *PushError {
	if err := p.checkPush(question); err != nil {
		return err
	}
	_, err := p.downgradePushed(question)
	return err
}

func (e sessionEra) checkPushable(p *questioner, question protocol.InputRequest) *PushError {
	return e.checkAskable(p, question)
}

func (sessionEra) checkClient(ctx context.Context, r *run, requests protocol.InputRequests) (
	protocol.InputRequests, *ending, error) {
	asked, refused := r.checkLegacyClient(ctx, requests)
	if refused != nil {
		return nil, &ending{refusal: refused, how: event.EndFailed}, nil
	}
	return asked, nil, nil
}

func (sessionEra) reportRequested(_ context.Context, r *run, requested event.InputRequested) {
	r.wait.requested = requested // until they are sent
}

func (sessionEra) askClient(ctx, parent context.Context, r *run,
	asks *protocol.InputRequiredResult) (*run, protocol.Result, error) {
	return r.pushReturned(ctx, parent, asks)
}

func (sessionEra) answerURLs(ctx context.Context, r *run,
	urls *protocol.URLElicitationRequiredError) (protocol.Result, error, bool) {
	result, err := r.answerLegacyURLs(ctx, urls)
	return result, err, true
}

func (sessionEra) visitLimit(_ *run, p *questioner) time.Duration { return p.questionTimeout() }

func (sessionEra) awaitRefusal(ctx context.Context, r *run, p *questioner, cause error) error {
	p.failPushed(ctx, r, protocol.KindElicitURL, cause, false)
	return cause
}

func (sessionEra) endVisit(r *run, key string, cause error) error {
	r.endWith(&ending{err: cause, refusal: refuseVisit(key, cause), how: event.EndFailed})
	return cause
}

func (sessionEra) isTimeLimit(cause error) bool { return errors.Is(cause, errHumanTimeout) }
