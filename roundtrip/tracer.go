package roundtrip

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/protocol"
)

// A SpanRef names a span of a trace, as W3C Trace Context does. The zero value names none.
type SpanRef struct {
	Trace [16]byte
	Span  [8]byte
}

// A Tracer ties rounds and questions together in a tracing system. Package telemetry has one for
// OpenTelemetry. Its methods are called with a context that has the values of the request, and
// must return soon. Calls may overlap.
type Tracer interface {
	// CurrentSpan returns the span of ctx, in which questions are about to be returned. It
	// travels in the sealed state, or with the task that begins. Zero, as for a span that is not
	// sampled: nothing travels.
	CurrentSpan(ctx context.Context) SpanRef
	// LinkSpan is called when the state of a request has been verified: before is the span in
	// which its questions were asked, on whichever replica, or the task that runs was begun.
	LinkSpan(ctx context.Context, before SpanRef)
	// BeginQuestion is called before a question is pushed to the client of a session. It returns
	// the question to send, which may differ in its _meta, and a function that is called once,
	// with the error where there is no answer.
	BeginQuestion(ctx context.Context, question protocol.InputRequest) (
		protocol.InputRequest, func(error))
	// CarrySpan returns ctx with the span of request, for hosts that serve a request by calls under
	// a context of their own, as gateways do.
	CarrySpan(ctx, request context.Context) context.Context
}

// nameSpan notes in claims which span the round that follows them is to be linked with. The rounds
// of a session are within one request, and every run of a task follows the call that began it.
func (r *run) nameSpan(ctx context.Context, c *claims.Claims) {
	t := r.funnel.opts.Tracer
	switch {
	case r.taskRun() != nil:
		c.Span = r.prior.Span
	case t != nil && r.askingMode().returnsQuestions():
		span := t.CurrentSpan(ctx)
		if span.Trace != [16]byte{} && span.Span != [8]byte{} {
			c.Span = claims.Span(span)
		}
	}
}

// linkSpan ties the round to the one that encoded c.
func (r *run) linkSpan(ctx context.Context, c *claims.Claims) {
	if t := r.funnel.opts.Tracer; t != nil && c.Span != (claims.Span{}) {
		t.LinkSpan(ctx, SpanRef(c.Span))
	}
}

// pushTraced is the Push of the client where there is a Tracer. It is not inlined, for the stack
// of calls that wait.
//
//go:noinline
func (p *questioner) pushTraced(ctx *inflight.Context, question protocol.InputRequest,
	extend, written func()) (json.RawMessage, error) {
	traced, end := p.funnel.opts.Tracer.BeginQuestion(ctx, question)
	answer, err := p.call.Push.Push(ctx, traced, extend, written)
	end(err)
	return answer, err
}
