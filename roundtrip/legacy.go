package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/protocol"
)

// DefaultHumanTimeout is how long one question that is pushed to a client of a
// legacy revision may wait for its answer.
const DefaultHumanTimeout = 10 * time.Minute

// statePause paces rounds in which nothing is asked, where no network does.
const statePause = 250 * time.Millisecond

// A Pusher puts a question to the client while a request runs. Connections of
// legacy revisions have one; calls may overlap.
type Pusher interface {
	// Push sends the question and waits for the answer, a bare result. It
	// calls extend whenever the client reports progress on the question. It
	// returns when ctx ends, and then tells the client that the question is
	// withdrawn. An [*protocol.Error] is what the client said instead of an
	// answer; any other error means that it could not be asked.
	Push(ctx context.Context, question protocol.InputRequest, extend func()) (json.RawMessage, error)
}

// live serves a request of a legacy revision: the questions that the handler
// returns are put to the client at once, and the handler runs again with the
// answers, until it is done. The state between two rounds is sealed and opened
// exactly as if the client had carried it, so that a handler which works here
// works there.
func (p *pass) live(ctx context.Context, handler Handler) (protocol.Result, error) {
	for range p.funnel.opts.MaxRounds + 1 { // a plain state does not count its rounds
		p.sort(ctx)
		result, err := p.run(ctx, handler, p.settle)
		asks, ok := result.(*protocol.InputRequiredResult)
		p.commit(ctx, result, err)
		if err != nil || !ok {
			return result, err
		}
		if err := p.fulfil(ctx, asks); err != nil {
			p.ended(ctx, EndFailed)
			return p.cannotAsk(err)
		}
		if recorded, err := p.open(ctx); err != nil || recorded != nil {
			return recorded, err
		}
	}
	p.ended(ctx, EndRounds)
	return p.refuse(protocol.CodeFlowEnded, fmt.Sprintf("gave up after %d rounds of questions", p.funnel.opts.MaxRounds))
}

// fulfil asks all questions at once and makes the answers the next leg's. The
// first that fails withdraws the others.
func (p *pass) fulfil(ctx context.Context, asks *protocol.InputRequiredResult) error {
	responses := make(protocol.InputResponses, len(asks.InputRequests))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var legs sync.WaitGroup
	for i, q := range asks.InputRequests {
		legs.Go(func() {
			answer, err := p.push(ctx, q.Request)
			if err != nil {
				cancel(fmt.Errorf("question %q: %w", q.Key, err))
				return
			}
			responses[i] = protocol.KeyedResponse{Key: q.Key, Result: answer}
		})
	}
	legs.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if len(asks.InputRequests) == 0 {
		if err := pause(ctx, statePause); err != nil {
			return err
		}
	}
	p.call.Responses, p.call.State = responses, asks.RequestState
	return nil
}

var errHumanTimeout = errors.New("nobody answered in time")

// push asks one question. The client's progress shows that somebody is at it,
// and starts the timeout over.
func (p *pass) push(ctx context.Context, question protocol.InputRequest) (json.RawMessage, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := p.funnel.opts.HumanTimeout
	timer := time.AfterFunc(limit, func() { cancel(errHumanTimeout) })
	defer timer.Stop()
	answer, err := p.call.Push.Push(ctx, question, func() { timer.Reset(limit) })
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return answer, err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cannotAsk spells why a question was not answered. What the client itself
// said is worth repeating; of other failures only that they happened.
func (p *pass) cannotAsk(err error) (protocol.Result, error) {
	if e, ok := protocol.AsError(err); ok {
		return p.refuse(protocol.CodeFlowEnded, "the client could not answer: "+e.Message)
	}
	if errors.Is(err, errHumanTimeout) {
		return p.refuse(protocol.CodeFlowEnded, err.Error())
	}
	return p.refuse(protocol.CodeFlowEnded, "the client could not be asked")
}

// gateLive decides before any traffic whether all questions can be put to the
// client, and spells them for its revision. The refusal, if any, is of the
// request's family; nothing was asked.
func (p *pass) gateLive(ctx context.Context, requests protocol.InputRequests) (protocol.InputRequests, *refusal) {
	switch {
	case p.funnel.opts.RefuseLegacy:
		return nil, &refusal{protocol.CodeCannotAsk, "this tool asks questions, which needs a client of revision 2026-07-28"}
	case len(requests) > 0 && p.call.Push == nil:
		return nil, &refusal{protocol.CodeCannotAsk, "this connection cannot carry questions to the client: it has no session"}
	}
	var missing protocol.ClientCapabilities
	for _, q := range requests {
		missing = missing.Union(p.call.Capabilities.Missing(q.Request))
	}
	if !missing.IsZero() {
		p.observe(ctx, CapabilityRefused{p.where, missing})
		return nil, &refusal{protocol.CodeCannotAsk, "the client does not support: " + missing.String()}
	}
	requests = slices.Clone(p.withoutContext(requests))
	for i, q := range requests {
		spelled, err := spell(q.Request, p.call.Version)
		if err != nil {
			return nil, &refusal{protocol.CodeCannotAsk, fmt.Sprintf("question %q: %v", q.Key, err)}
		}
		requests[i].Request = spelled
	}
	return requests, nil
}

// A refusal is spelled by the family of the request that it ends.
type refusal struct {
	code int64
	text string
}

// spell returns the question as revision v can carry it, or why it cannot. The
// author's own stays as it is.
func spell(question protocol.InputRequest, v protocol.Version) (protocol.InputRequest, error) {
	switch q := question.(type) {
	case *protocol.ElicitForm:
		if v < protocol.V20250618 {
			return nil, fmt.Errorf("revision %s has no elicitation", v)
		}
		if v >= protocol.V20251125 {
			return q, nil
		}
		schema, err := form.Downlevel2025June(q.Schema)
		if err != nil {
			return nil, err
		}
		c := *q
		c.Schema = schema
		return &c, nil
	case *protocol.ElicitURL:
		if v < protocol.V20251125 {
			return nil, fmt.Errorf("revision %s cannot ask for a visit to a URL", v)
		}
		c := *q
		if c.ElicitationID == "" {
			c.ElicitationID = uuid.NewString()
		}
		return &c, nil
	case *protocol.CreateMessage:
		if v < protocol.V20251125 && (len(q.Tools) > 0 || q.ToolChoice != nil) {
			return nil, fmt.Errorf("revision %s has no tools in sampling", v)
		}
	}
	return question, nil
}

// legacyURLs answers a handler's URL elicitation error in the revision that has
// it, to clients that declare it; elsewhere it is a refusal.
func (p *pass) legacyURLs(ctx context.Context, e *protocol.URLElicitationRequiredError) (protocol.Result, error) {
	missing := p.call.Capabilities.Missing(&protocol.ElicitURL{})
	if p.call.Version != protocol.V20251125 || !missing.IsZero() {
		p.observe(ctx, CapabilityRefused{p.where, missing})
		return p.refuse(protocol.CodeCannotAsk, "the client cannot be asked to visit a URL, which this request needs")
	}
	spelled, err := e.Legacy()
	if err != nil {
		return nil, p.bug(ctx, err)
	}
	return nil, spelled
}

// legacyError keeps codes that legacy revisions do not have off their wire.
func (p *pass) legacyError(e *protocol.Error) *protocol.Error {
	switch e.Code {
	case protocol.CodeMissingRequiredClientCapability:
		c := *e
		c.Code = protocol.CodeCannotAsk
		return &c
	case protocol.CodeHeaderMismatch, protocol.CodeUnsupportedProtocolVersion:
		return internalError()
	case protocol.CodeURLElicitationRequired:
		if p.call.Version != protocol.V20251125 {
			return internalError()
		}
	}
	return e
}
