package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// preparePush returns the question or ends the run; not inlined, for the stacks of waiting calls.
//
//go:noinline
func preparePush(ctx context.Context, request protocol.InputRequest) (*inquiry, error) {
	r := askerFrom(ctx)
	if r.run == nil {
		return nil, noRound(ctx)
	}
	p, err := r.newQuestioner(ctx)
	if err != nil {
		return nil, err
	}
	a := &inquiry{}
	q := &a.question
	q.readRequest("push", request)
	if q.err != nil {
		return nil, r.endWithError(q.err)
	}
	onPage := r.canUsePage() && request.Kind() == protocol.KindElicitForm
	if cannot := p.askingMode().checkPushable(p, request); cannot != nil && !onPage {
		if !cannot.Missing.IsZero() {
			p.reportMissing(ctx, cannot.Missing)
		}
		r.failQuestion(ctx, p, q, cannot)
		return nil, cannot
	}
	if form, ok := request.(*protocol.ElicitForm); ok { // its schema is kept once
		own := *form
		own.Schema, q.request = q.form.Schema(), &own
	}
	q.key, err = r.nextKey(pushPrefix, q)
	return a, err
}

const pushPrefix = "push-"

// nextKey returns a key for a question of a session's handler: that of an earlier run's question
// with the same content, since several goroutines may ask in another order, or the next number.
func (r asker) nextKey(prefix string, q *Question) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.versionedFlowLocked()
	if err != nil {
		return "", err
	}
	if r.prior != nil {
		if key := r.findSameLocked(prefix, q); key != "" {
			f.numbered = append(f.numbered, key)
			return key, nil
		}
	}
	for n := 1; ; n++ {
		key := prefix + strconv.Itoa(n)
		if r.findAnswerLocked(key) == nil && !slices.Contains(f.numbered, key) {
			f.numbered = append(f.numbered, key)
			return key, nil
		}
	}
}

// findSameLocked returns the key of an answer to the question q that this run has not asked yet.
func (r *run) findSameLocked(prefix string, q *Question) string {
	content, err := q.identifyContent()
	for _, a := range r.answers {
		same := questionContent{a.kind, a.digest, a.mark.PromptDigest} == content
		if err == nil && same && strings.HasPrefix(a.key, prefix) &&
			!slices.Contains(r.flow.numbered, a.key) {
			return a.key
		}
	}
	return ""
}

// newQuestioner returns a separate questioner, because a goroutine left behind by the handler must
// not use the exchange's. It fails if the run's outcome is fixed or the run is about to ask.
func (r asker) newQuestioner(ctx context.Context) (*questioner, error) {
	p := &questioner{}
	p.attachCall(ctx, r.funnel, r.call, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wait == nil && !r.closed {
		r.wait = &callWait{}
	}
	if p.wait = r.wait; r.closed {
		return p, nil
	}
	p.where = r.where
	switch {
	case r.flow == nil:
	case r.flow.end != nil:
		return p, r.flow.end.err
	case r.flow.asksClient():
		return p, fmt.Errorf("%w: %s", ErrPending,
			joinKeys(r.flow.pending, func(q Question) string { return q.key }))
	}
	return p, nil
}

// checkPush returns why a question of this kind cannot be pushed, or nil.
func (p *questioner) checkPush(question protocol.InputRequest) *PushError {
	method := question.Kind().Method()
	if p.call.Push == nil {
		return &PushError{
			Method: method, Cause: "this connection cannot carry questions to the client",
			client: "nobody could be asked: this connection cannot carry questions to the " +
				"client; call again over one that keeps a session",
		}
	}
	if text := p.unreachableText(); text != "" {
		return &PushError{Method: method, Cause: text, client: text}
	}
	return missingPush(method, p.call.Capabilities.Missing(question))
}

// unreachableText explains why the [Pusher] cannot reach the client now, or returns "".
func (p *questioner) unreachableText() string {
	if c, ok := p.call.Push.(interface{ CannotPush() string }); ok {
		return c.CannotPush()
	}
	return ""
}

func missingPush(method string, missing protocol.ClientCapabilities) *PushError {
	if missing.IsZero() {
		return nil
	}
	return &PushError{Method: method, Cause: "the client does not support: " + missing.String(),
		Missing: missing, client: "the client does not support: " + missing.String() +
			", so nobody could be asked; call again from a client that does"}
}

// failQuestion reports a failed question, and ends the run unless it is optional.
func (r asker) failQuestion(ctx context.Context, p *questioner, q *Question, err error) {
	_, unsent := errors.AsType[*PushError](err)
	if ctx.Err() != nil && r.ctx.Err() == nil && !unsent {
		return // withdrawn by a handler that can do without
	}
	p.observe(ctx, event.PushFailed{Where: p.where, Kind: q.request.Kind(), Err: err,
		Tolerated: q.optional})
	if !q.optional {
		// Wrapped, so that hasGoneOnLocked can tell it from the cause of the handler's context.
		r.endWith(&ending{err: fmt.Errorf("%w", err), refusal: cannotAsk(err),
			how: words.EndFailed, repeatable: isFlowStyle(q)})
	}
}

// endWith fixes the outcome of the run, in guard style as well.
func (r *run) endWith(e *ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.startFlowLocked()
	_ = r.endLocked(e)
}
