package elicitation

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/heartbeat"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// heartbeatGrace is how long the end of a wait is held up by a [FrameDeliverer]
// that is at a heartbeat and does not watch its context.
const heartbeatGrace = time.Second

// reports are the progress notifications on the token of a client's request: those
// of the upstream, and heartbeats while a person is asked.
type reports struct {
	frames FrameDeliverer
	token  protocol.ProgressToken

	sending sync.Mutex // held while one is delivered, for they must leave in order
	values  heartbeat.Sequence

	mu    sync.Mutex
	open  int // questions
	timer *heartbeat.Timer
	over  bool
}

// beginWaiting counts one more question, the first of which has heartbeats
// delivered.
func (c *Call) beginWaiting() {
	r, interval := &c.reports, c.router.opts.Heartbeat
	if r.frames == nil || r.token.IsZero() || interval < 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open++; r.open == 1 && !r.over {
		ctx := context.WithoutCancel(c.ctx) // its end ends the questions, and they the heartbeats
		r.timer = heartbeat.Start(ctx, interval, heartbeat.Detach(heartbeatGrace, r.beat))
	}
}

// endWaiting ends what beginWaiting began.
func (c *Call) endWaiting() {
	r := &c.reports
	r.mu.Lock()
	var last *heartbeat.Timer
	if r.open > 0 { // else none are wanted
		if r.open--; r.open == 0 {
			last, r.timer = r.timer, nil
		}
	}
	r.mu.Unlock()
	last.Stop()
}

// close lets no more heartbeats out.
func (r *reports) close() {
	r.mu.Lock()
	last := r.timer
	r.over, r.timer = true, nil
	r.mu.Unlock()
	last.Stop()
}

// beat delivers a heartbeat.
func (r *reports) beat(ctx context.Context) {
	r.sending.Lock()
	defer r.sending.Unlock()
	value, total, ok := r.values.Beat()
	if !ok || ctx.Err() != nil {
		return
	}
	p := protocol.Progress{Progress: value, Message: heartbeat.Message}
	if total != 0 {
		p.Total = &total
	}
	_ = r.deliver(ctx, p) // a client that is gone finds out by itself
}

func (r *reports) deliver(ctx context.Context, p protocol.Progress) error {
	p.Token = r.token
	params, err := jsonx.Encode(p)
	if err != nil {
		return err
	}
	return r.frames.Deliver(ctx, &protocol.Notification{Method: protocol.NotifyProgress, Params: params})
}

var errNoToken = errors.New("elicitation call: progress: Begin was given no Frames or no Origin.ProgressToken")

// RelayProgress delivers what the upstream reports about the call to the client, by
// the call's [Frames] and on [Origin].ProgressToken: the token of p is not used.
// The router sends heartbeats on the same token while a person is asked, and
// values have to rise, so hosts whose calls have such a token relay progress with
// this method alone. A value that heartbeats have passed is raised, and one that
// the client has heard already is dropped. Heartbeats of the upstream are progress
// as any other. After [Call.End] nothing is delivered. The error is that of the
// [FrameDeliverer].
func (c *Call) RelayProgress(ctx context.Context, p *protocol.Progress) error {
	r := &c.reports
	if r.frames == nil || r.token.IsZero() {
		return errNoToken
	}
	r.mu.Lock()
	over := r.over
	r.mu.Unlock()
	if over {
		return nil
	}
	r.sending.Lock()
	defer r.sending.Unlock()
	total := 0.0
	if p.Total != nil {
		total = *p.Total
	}
	value, ok := r.values.Relay(p.Progress, total)
	if !ok {
		return nil
	}
	relayed := *p
	relayed.Progress = value
	return guarded(func() error { return r.deliver(ctx, relayed) })
}
