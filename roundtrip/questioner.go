package roundtrip

import (
	"context"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A questioner puts questions to one client. The exchange has one. Goroutines of a handler, which
// may outlive their run, get a copy each, because its field where changes with the run.
type questioner struct {
	funnel *Funnel
	call   *Call
	where  event.Where
	wait   *callWait // nil: has not waited yet
}

// attachCall sets one field at a time: a literal would be copied on the stack of waiting calls.
func (p *questioner) attachCall(ctx context.Context, f *Funnel, call *Call, wait *callWait) {
	p.funnel, p.call, p.wait = f, call, wait
	p.where.Version, p.where.Method, p.where.Target = call.Version, call.Method, call.Target
	if f.silent {
		return
	}
	if p.where.Request = call.RequestID; p.where.Request == "" {
		p.where.Request = rpc.RequestID(ctx)
	}
	if p.where.Request == "" {
		p.where.Request = rpc.NewRequestID()
	}
}

// observe notifies the funnel's observer. Server bugs and panics also go to ctx's error sink.
func (p *questioner) observe(ctx context.Context, e event.Event) {
	p.funnel.opts.Observer.Observe(ctx, e)
	switch e := e.(type) {
	case event.ServerBug:
		rpc.ReportError(ctx, e.Err)
	case event.HandlerPanicked:
		rpc.ReportError(ctx, fmt.Errorf("the handler panicked: %v", e.Value))
	}
}

func (p *questioner) observeIfAny(ctx context.Context, e event.Event) {
	if e != nil {
		p.observe(ctx, e)
	}
}
