package roundtrip

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/protocol"
)

// nameSpan records the span to link with the next round: in tasks the first one, in sessions none.
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

func (r *run) linkSpan(ctx context.Context, c *claims.Claims) {
	if t := r.funnel.opts.Tracer; t != nil && c.Span != (claims.Span{}) {
		t.LinkSpan(ctx, SpanRef(c.Span))
	}
}

// pushTraced is Push with a Tracer. It is not inlined, to keep stacks of waiting calls small.
//
//go:noinline
func (p *questioner) pushTraced(ctx *waiting.Context, question protocol.InputRequest,
	extend, written func()) (json.RawMessage, error) {
	traced, end := p.funnel.opts.Tracer.BeginQuestion(ctx, question)
	answer, err := p.call.Push.Push(ctx, traced, extend, written)
	end(err)
	return answer, err
}
