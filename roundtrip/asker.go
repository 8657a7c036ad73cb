package roundtrip

import (
	"context"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// An asker is the part of a pass that asks: whom, for what, and until when.
type asker struct {
	funnel *Funnel
	call   *Call
	where  Where
	until  time.Time // when the flow of a live call ends; zero: something else ends it
	wait   *callWait
}

func newAsker(f *Funnel, call *Call, wait *callWait) asker {
	return asker{funnel: f, call: call, wait: wait, where: Where{Version: call.Version, Method: call.Method, Target: call.Target}}
}

func (p *asker) legacy() bool { return p.call.Version.Era() == protocol.Legacy }

func (p *asker) observe(ctx context.Context, event Event) {
	p.funnel.opts.Observer.Observe(ctx, event)
}
