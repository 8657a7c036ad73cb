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

// heartbeatGrace is how long the end of a wait, and of a call, is held up by a
// transport that is at a progress notification and does not watch its context.
const heartbeatGrace = time.Second

// progressWriter are the progress notifications on the token of a client's request: those
// of the upstream, and heartbeats while a person is asked.
type progressWriter struct {
	out     ProgressDeliverer // nil: the client wants no progress, or cannot get any
	token   protocol.ProgressToken
	sending chan struct{} // full while one is delivered, for they must leave in order
	values  heartbeat.Sequence

	mu     sync.Mutex
	open   int // questions
	timer  *heartbeat.Timer
	cancel context.CancelFunc // of what is relayed at the moment
	over   bool
}

func (r *progressWriter) setVia(via Via, token protocol.ProgressToken) {
	if token.IsZero() {
		return
	}
	if via.frames != nil {
		r.out = progressFrames{via.frames}
	} else if out, ok := via.asker.(ProgressDeliverer); ok {
		r.out = out
	}
	r.token, r.sending = token, make(chan struct{}, 1)
}

// progressFrames delivers progress as frames.
type progressFrames struct{ frames FrameDeliverer }

// DeliverProgress implements [ProgressDeliverer].
func (d progressFrames) DeliverProgress(ctx context.Context, p *protocol.Progress) error {
	params, err := jsonx.Encode(p)
	if err != nil {
		return err
	}
	n := &protocol.Notification{Method: protocol.NotifyProgress, Params: params}
	return d.frames.Deliver(ctx, n)
}

// beginWaiting counts one more question, the first of which has heartbeats
// delivered.
func (c *Call) beginWaiting() {
	r, interval := &c.progress, c.router.opts.Heartbeat
	if r.out == nil || interval < 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open++; r.open == 1 && !r.over {
		ctx := context.WithoutCancel(c.ctx) // its end ends the questions, and they the heartbeats
		r.timer = heartbeat.Start(ctx, interval, heartbeat.Detach(heartbeatGrace, r.sendHeartbeat))
	}
}

// endWaiting ends what beginWaiting began: no heartbeat begins after it. The caller
// stops the timer, nil for none, which waits for one that has begun.
func (c *Call) endWaiting() (last *heartbeat.Timer) {
	r := &c.progress
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open > 0 { // else none are wanted
		if r.open--; r.open == 0 {
			last, r.timer = r.timer, nil
		}
	}
	return last
}

func (r *progressWriter) isWaiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open > 0
}

// close lets nothing more out. It waits for what is being delivered, since the
// client's result may follow at once.
func (r *progressWriter) close() {
	if r.out == nil {
		return
	}
	r.mu.Lock()
	last := r.timer
	r.over, r.timer = true, nil
	r.mu.Unlock()
	last.Stop()
	timer := time.NewTimer(heartbeatGrace)
	defer timer.Stop()
	select {
	case r.sending <- struct{}{}:
		<-r.sending
	case <-timer.C:
		r.cancelRelay()
	}
}

func (r *progressWriter) cancelRelay() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		r.cancel()
	}
}

// lockSending waits for its turn to deliver. It reports false when ctx has ended or
// nothing may be delivered any more, else the caller calls unlockSending.
func (r *progressWriter) lockSending(ctx context.Context) bool {
	select {
	case r.sending <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	r.mu.Lock()
	over := r.over
	r.mu.Unlock()
	if over || ctx.Err() != nil {
		r.unlockSending()
		return false
	}
	return true
}

func (r *progressWriter) unlockSending() { <-r.sending }

// sendHeartbeat delivers a heartbeat.
func (r *progressWriter) sendHeartbeat(ctx context.Context) {
	if !r.lockSending(ctx) {
		return
	}
	defer r.unlockSending()
	if !r.isWaiting() {
		return
	}
	value, total, ok := r.values.Beat()
	if !ok {
		return
	}
	p := protocol.Progress{Token: r.token, Progress: value, Message: heartbeat.Message}
	if total != 0 {
		p.Total = &total
	}
	_ = r.out.DeliverProgress(ctx, &p) // a client that is gone finds out by itself
}

var errNoProgress = errors.New(
	"elicitation call: progress: the client wants none, or Begin was given no Via that delivers it")

// RelayProgress delivers what the upstream reports about the call to the client, by
// the call's [Frames] or [ProgressDeliverer] and on [Origin].ProgressToken: the token
// of p is not used. The router sends heartbeats on the same token while a person is
// asked, and values have to rise, so hosts whose calls have such a token relay
// progress with this method alone. A value that heartbeats have passed is raised, and
// one that the client has heard already is dropped. Heartbeats of the upstream are
// progress as any other. After [Call.End], and once the context given to
// [Router.Begin] has ended, nothing is delivered.
//
// It waits for the transport until ctx ends. The error is that of the transport, or
// says that the call has no token.
func (c *Call) RelayProgress(ctx context.Context, p *protocol.Progress) error {
	r := &c.progress
	if r.out == nil {
		return errNoProgress
	}
	// The context given to Begin holds the stream.
	delivery, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if !r.lockSending(delivery) {
		return ctx.Err()
	}
	defer r.unlockSending()
	r.setRelayCancel(cancel)
	defer r.setRelayCancel(nil)
	total := 0.0
	if p.Total != nil {
		total = *p.Total
	}
	value, ok := r.values.Relay(p.Progress, total)
	if !ok {
		return nil
	}
	relayed := *p
	relayed.Token, relayed.Progress = r.token, value
	return recoverToError(func() error { return r.out.DeliverProgress(delivery, &relayed) })
}

func (r *progressWriter) setRelayCancel(cancel context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel = cancel
}
