package roundtrip

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/protocol"
)

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

func (r *run) linkSpan(ctx context.Context, c *claims.Claims) {
	if t := r.funnel.opts.Tracer; t != nil && c.Span != (claims.Span{}) {
		t.LinkSpan(ctx, SpanRef(c.Span))
	}
}

// pushTraced is the Push of the client where there is a Tracer. It is not inlined, for the stack
// of calls that wait.
//
//go:noinline
func (p *questioner) pushTraced(ctx *waiting.Context, question protocol.InputRequest,
	extend, written func()) (json.RawMessage, error) {
	traced, end := p.funnel.opts.Tracer.BeginQuestion(ctx, question)
	answer, err := p.call.Push.Push(ctx, traced, extend, written)
	end(err)
	return answer, err
}
