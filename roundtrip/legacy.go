package roundtrip

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/internal/lazyctx"
	"github.com/rondo-mcp/rondo/internal/urlrule"
	"github.com/rondo-mcp/rondo/internal/waiting"
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
	// answer; any other error means that it could not be asked. Ctx has the
	// values of the request, and not always those of the handler's context.
	Push(ctx context.Context, question protocol.InputRequest, extend func()) (json.RawMessage, error)
}

// serveLegacy serves a request of a legacy revision: the questions that the handler
// returns are put to the client at once, and the handler runs again with the
// answers, until it is done. The state between two rounds is written, limited and
// read as if the client had carried it, so that a handler which works here works
// there; it stays with the call, so it is neither sealed nor claimed.
//
// The client's progress can put the end of a question off, so the whole has an
// end of its own: that of the flow.
func (p *exchange) serveLegacy(parent context.Context, handler Handler) (protocol.Result, error) {
	p.until = time.Now().Add(p.funnel.opts.FlowTTL)
	ctx := &lazyctx.Timed{}
	ctx.Init(parent, p.until, errHumanTimeout)
	defer ctx.Cancel()
	for round := 1; ; round++ {
		p.sortAnswers(ctx)
		result, err := p.execute(ctx, handler, p.decideOutcome)
		asks, ok := result.(*protocol.InputRequiredResult)
		p.commitClaim(ctx, result, err)
		p.runCommits(ctx, result, err)
		if err != nil || !ok {
			return result, err
		}
		if round > p.funnel.opts.MaxRounds { // a plain state does not count its rounds
			p.reportFlowEnd(ctx, EndRounds)
			return p.refuseFlow(protocol.CodeFlowEnded, gaveUp(p.funnel.opts.MaxRounds, requestKeys(asks.InputRequests), "", ""))
		}
		if err := p.pushReturned(ctx, parent, asks); err != nil {
			return p.refuseUnasked(ctx, asks, err)
		}
		if recorded, err := p.openState(ctx); err != nil || recorded != nil {
			return recorded, err
		}
	}
}

// sealBytes is how much longer than what it says a state of a [Keyring] is before
// it becomes text, roughly: the id of its key may be longer.
const sealBytes = 48

// encodeLocalState writes the state of the next round of a live call. It is as large as a
// client could carry it, or as a store would keep it.
func (p *exchange) encodeLocalState(c *claims) error {
	plaintext, opts := c.appendTo(make([]byte, 0, c.encodedSize())), &p.funnel.opts
	size := base64.RawURLEncoding.EncodedLen(len(plaintext) + sealBytes)
	switch {
	case size <= opts.MaxStateBytes:
	case opts.StateStore == nil:
		return c.tooLargeError(size, opts.MaxStateBytes)
	case len(plaintext) > opts.MaxStoredBytes:
		return c.tooLargeError(len(plaintext), opts.MaxStoredBytes)
	}
	p.localState = plaintext
	return nil
}

// pushReturned asks all questions and makes the answers the next leg's. Questions wait
// under the parent of ctx: they have a timer of their own, see patience.
func (p *exchange) pushReturned(ctx, parent context.Context, asks *protocol.InputRequiredResult) error {
	asked := p.requested
	p.requested = nil
	responses, err := p.pushAll(parent, asks.InputRequests, asked)
	if err != nil {
		return err
	}
	if len(asks.InputRequests) == 0 {
		if err := waitFor(ctx, statePause); err != nil {
			return err
		}
	}
	p.call.Responses, p.call.State = responses, asks.RequestState
	return nil
}

// refuseUnasked ends a call whose returned questions nobody answered. It is no part
// of the stack of a call that waits.
//
//go:noinline
func (p *exchange) refuseUnasked(ctx context.Context, asks *protocol.InputRequiredResult, err error) (protocol.Result, error) {
	failed := PushFailed{Where: p.where, Err: err}
	if len(asks.InputRequests) > 0 {
		failed.Kind = asks.InputRequests[0].Request.Kind()
	}
	p.observe(ctx, failed)
	p.reportFlowEnd(ctx, EndFailed)
	return p.answerRefusal(cannotAsk(err))
}

var errHumanTimeout = errors.New("nobody answered in time")

// pushQuestion asks one question, whose context ctx is. The client's progress shows that
// somebody is at it, and starts the timeout over.
func (p *questioner) pushQuestion(ctx *lazyctx.Context, question protocol.InputRequest) (json.RawMessage, error) {
	timer := time.AfterFunc(p.questionTimeout(), func() { ctx.Cancel(errHumanTimeout) })
	defer timer.Stop()
	answer, err := p.call.Push.Push(ctx, question, func() { timer.Reset(p.questionTimeout()) })
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
		if errors.Is(err, waiting.ErrClosing) {
			err = waiting.ErrClosing // in words for the caller
		}
		return nil, err
	}
	return answer, err
}

// questionTimeout is how long a question may wait from now on.
func (p *questioner) questionTimeout() time.Duration {
	limit := p.funnel.opts.HumanTimeout
	if p.until.IsZero() {
		return limit
	}
	return min(limit, time.Until(p.until))
}

func waitFor(ctx context.Context, d time.Duration) error {
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
func cannotAsk(err error) *refusal {
	if errors.Is(err, waiting.ErrClosing) {
		return &refusal{text: waiting.ErrClosing.Error(), wire: waiting.RefuseClosing()}
	}
	if busy, ok := errors.AsType[*waitRefusedError](err); ok {
		return &refusal{wire: busy.wire, always: true}
	}
	if bad, ok := errors.AsType[*urlrule.Refusal](err); ok {
		return &refusal{wire: bad.Wire(), always: true} // the server's mistake, whoever made the URL
	}
	if cannot, ok := errors.AsType[*PushError](err); ok && cannot.client != "" {
		return &refusal{code: protocol.CodeCannotAsk, text: cannot.client}
	}
	text := "the client could not be asked; start the call again when it can be"
	if e, ok := protocol.AsError(err); ok {
		text = "the client could not answer: " + e.Message + "; start the call again when it can"
	} else if errors.Is(err, errHumanTimeout) {
		text = errHumanTimeout.Error() + "; start the call again when somebody can answer"
	}
	return &refusal{code: protocol.CodeFlowEnded, text: text}
}

// checkLegacyClient decides before any traffic whether all questions can be put to the
// client, and spells them for its revision. The refusal, if any, is of the
// request's family; nothing was asked.
func (p *questioner) checkLegacyClient(ctx context.Context, requests protocol.InputRequests) (protocol.InputRequests, *refusal) {
	switch {
	case p.funnel.opts.RefuseLegacy:
		p.observe(ctx, ServerBug{p.where, fmt.Errorf("asked for input in revision %s, which the funnel is told to refuse", p.call.Version)})
		return nil, &refusal{code: protocol.CodeCannotAsk, text: "this request asks questions, which needs a client of revision 2026-07-28"}
	case len(requests) > 0 && p.call.Push == nil:
		return nil, &refusal{code: protocol.CodeCannotAsk, text: "this connection cannot carry questions to the client: it has no session; connect with one, or with a client of revision 2026-07-28"}
	}
	var missing protocol.ClientCapabilities
	for _, q := range requests {
		missing = missing.Union(p.call.Capabilities.Missing(q.Request))
	}
	if !missing.IsZero() {
		p.observe(ctx, CapabilityRefused{p.where, missing})
		return nil, &refusal{code: protocol.CodeCannotAsk, text: "the client does not support: " + missing.String() + "; use a client that does"}
	}
	copied := false
	for i, q := range requests {
		spelled, err := p.downgrade(q.Request)
		if err != nil {
			return nil, &refusal{code: protocol.CodeCannotAsk, text: fmt.Sprintf("question %q: %v; use a client of a later revision", q.Key, err)}
		}
		if spelled == q.Request {
			continue
		}
		if !copied { // they are the author's
			requests, copied = slices.Clone(requests), true
		}
		requests[i].Request = spelled
	}
	p.visits.noteVisits(requests)
	return requests, nil
}

// A refusal is spelled by the family of the request that it ends.
type refusal struct {
	code int64
	text string
	// wire goes out as it is, nil: code and text. Tools have results for what a
	// model is to read, unless always is set.
	wire   *protocol.Error
	always bool
}

// downgrade returns the question as the call's revision can carry it, or why it
// cannot. The author's own stays as it is.
func (p *questioner) downgrade(question protocol.InputRequest) (protocol.InputRequest, error) {
	v := p.call.Version
	switch q := question.(type) {
	case *protocol.ElicitForm:
		return downgradeForm(q, v)
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
		if err := checkSamplingIn(q, v); err != nil || v < protocol.V20251125 {
			return q, err // without a capability for includeContext, all may be asked for it
		}
		return p.withoutContext(protocol.InputRequests{{Request: q}})[0].Request, nil
	}
	return question, nil
}

func downgradeForm(q *protocol.ElicitForm, v protocol.Version) (protocol.InputRequest, error) {
	if v < protocol.V20250618 {
		return nil, fmt.Errorf("revision %s has no elicitation", v)
	}
	if v >= protocol.V20251125 {
		return q, nil
	}
	schema, err := form.DowngradeTo20250618(q.Schema)
	if err != nil {
		return nil, err
	}
	c := *q
	c.Schema = schema
	return &c, nil
}

// checkSamplingIn reports why revision v cannot carry a sampling question: tools and
// messages of several blocks came with 2025-11-25, audio with 2025-03-26.
func checkSamplingIn(q *protocol.CreateMessage, v protocol.Version) error {
	if v >= protocol.V20251125 {
		return nil
	}
	if len(q.Tools) > 0 || q.ToolChoice != nil {
		return fmt.Errorf("revision %s has no tools in sampling", v)
	}
	for _, m := range q.Messages {
		if len(m.Content) != 1 {
			return fmt.Errorf("revision %s has messages of one block only in sampling", v)
		}
		switch m.Content[0].(type) {
		case *protocol.TextContent, *protocol.ImageContent:
		case *protocol.AudioContent:
			if v < protocol.V20250326 {
				return fmt.Errorf("revision %s has no audio in sampling", v)
			}
		default:
			return fmt.Errorf("revision %s has no %T in sampling", v, m.Content[0])
		}
	}
	return nil
}

// answerLegacyURLs answers a handler's URL elicitation error in the revision that has
// it, to clients that declare it; elsewhere it is a refusal.
func (p *exchange) answerLegacyURLs(ctx context.Context, e *protocol.URLElicitationRequiredError) (protocol.Result, error) {
	missing := p.call.Capabilities.Missing(&protocol.ElicitURL{})
	if p.call.Version != protocol.V20251125 || !missing.IsZero() {
		p.observe(ctx, CapabilityRefused{p.where, missing})
		return p.refuseFlow(protocol.CodeCannotAsk, "the client cannot be asked to visit a URL, which this request needs; use a client of revision 2025-11-25 or later that declares elicitation.url")
	}
	spelled, err := e.Legacy()
	if err != nil {
		return nil, p.reportBug(ctx, err)
	}
	if refusal := p.funnel.allowURL().RefuseAny(e.Elicitations); refusal != nil {
		return nil, p.reportBug(ctx, refusal)
	}
	return nil, spelled
}
