package roundtrip

import (
	"context"
	"time"

	"github.com/rondo-mcp/rondo/internal/requestid"
	"github.com/rondo-mcp/rondo/protocol"
)

// A questioner is the part of a pass that asks: whom, for what, and until when.
type questioner struct {
	funnel *Funnel
	call   *Call
	where  Where
	until  time.Time // when the flow of a live call ends; zero: something else ends it
	wait   *callWait
	visits *visitTable // nil outside of a pass
}

// attachCall makes p the asker of call. A field at a time: a copy would be on the stack
// of calls that wait.
func (p *questioner) attachCall(ctx context.Context, f *Funnel, call *Call, wait *callWait) {
	p.funnel, p.call, p.wait = f, call, wait
	p.where.Version, p.where.Method, p.where.Target = call.Version, call.Method, call.Target
	if f.silent {
		return
	}
	if p.where.Request = call.RequestID; p.where.Request == "" {
		p.where.Request = requestid.From(ctx)
	}
	if p.where.Request == "" {
		p.where.Request = requestid.New()
	}
}

func (p *questioner) isLegacy() bool { return p.call.Version.Era() == protocol.Legacy }

func (p *questioner) observe(ctx context.Context, event Event) {
	p.funnel.opts.Observer.Observe(ctx, event)
}

func (p *questioner) observeIfAny(ctx context.Context, event Event) {
	if event != nil {
		p.observe(ctx, event)
	}
}
