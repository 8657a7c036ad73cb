package elicitation

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/heartbeat"
	"github.com/rondo-mcp/rondo/protocol"
)

// heartbeatGrace is how long the end of a wait, and of a call, is held up by a transport
// that delivers a progress notification and does not watch its context.
const heartbeatGrace = time.Second

// A progressWriter writes progress notifications on the token of a client's request:
// those that the upstream reports, and heartbeats while a question is pending.
type progressWriter struct {
	out   ProgressDeliverer // nil: the client wants no progress, or cannot get any
	token protocol.ID
	// sending is a mutex that can be waited for with a context: full while a
	// notification is delivered. Values rise, so they must leave in order.
	sending chan struct{}
	values  heartbeat.Sequence // guarded by sending

	mu          sync.Mutex
	waits       int // questions that are pending
	timer       *heartbeat.Timer
	cancelRelay context.CancelFunc // of the RelayProgress in flight
	closed      bool
}

func (w *progressWriter) setVia(via Via, token protocol.ID) {
	if token.IsZero() {
		return
	}
	if via.frames != nil {
		w.out = progressFrames{via.frames}
	} else if out, ok := via.asker.(ProgressDeliverer); ok {
		w.out = out
	}
	w.token, w.sending = token, make(chan struct{}, 1)
}

// progressFrames delivers progress as frames.
type progressFrames struct{ frames FrameDeliverer }

// DeliverProgress implements [ProgressDeliverer].
func (d progressFrames) DeliverProgress(ctx context.Context, p *protocol.Progress) error {
	return deliver(ctx, d.frames, protocol.NotifyProgress, p)
}

// startHeartbeats counts one more pending question. Heartbeats start with the first, after two
// seconds at most.
func (c *Call) startHeartbeats() {
	w := &c.progress
	if w.out == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits++; w.waits == 1 && !w.closed {
		// The end of the call's context ends the questions, and they the heartbeats.
		ctx := context.WithoutCancel(c.ctx)
		beat := heartbeat.Detach(heartbeatGrace, w.sendHeartbeat)
		w.timer = heartbeat.Start(ctx, heartbeat.DefaultInterval, beat)
	}
}

// stopHeartbeats undoes startHeartbeats: after the last question no heartbeat begins. The
// caller stops the timer, nil for none; Stop waits for a heartbeat in flight.
func (c *Call) stopHeartbeats() (last *heartbeat.Timer) {
	w := &c.progress
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits > 0 { // startHeartbeats counts only where heartbeats are wanted
		if w.waits--; w.waits == 0 {
			last, w.timer = w.timer, nil
		}
	}
	return last
}

func (w *progressWriter) isWaiting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waits > 0
}

// close lets nothing more out. It waits for a delivery in flight, since the client's
// result may follow at once, and cancels one that takes longer than heartbeatGrace.
func (w *progressWriter) close() {
	if w.out == nil {
		return
	}
	w.mu.Lock()
	last := w.timer
	w.closed, w.timer = true, nil
	w.mu.Unlock()
	last.Stop()
	timer := time.NewTimer(heartbeatGrace)
	defer timer.Stop()
	select {
	case w.sending <- struct{}{}:
		<-w.sending
		return
	case <-timer.C:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancelRelay != nil {
		w.cancelRelay()
	}
}

// lockSending waits for its turn to deliver. It reports false when ctx has ended or
// the writer is closed; otherwise the caller calls unlockSending.
func (w *progressWriter) lockSending(ctx context.Context) bool {
	select {
	case w.sending <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed || ctx.Err() != nil {
		w.unlockSending()
		return false
	}
	return true
}

func (w *progressWriter) unlockSending() { <-w.sending }

// sendHeartbeat delivers a heartbeat. The timer calls it. Errors are ignored: the
// transport notices by itself that a client is gone.
func (w *progressWriter) sendHeartbeat(ctx context.Context) {
	if !w.lockSending(ctx) {
		return
	}
	defer w.unlockSending()
	if !w.isWaiting() {
		return
	}
	value, total, ok := w.values.Beat()
	if !ok {
		return
	}
	p := protocol.Progress{Token: w.token, Progress: value, Message: heartbeat.Message}
	if total != 0 {
		p.Total = &total
	}
	_ = w.out.DeliverProgress(ctx, &p)
}

var errNoProgress = errors.New(
	"elicitation call: progress: the client wants none, or Begin was given no Via that delivers it")

// RelayProgress delivers what the upstream reports about the call to the client, by
// the call's [ViaFrames] or [ProgressDeliverer] and on [Origin].ProgressToken: the token
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
	w := &c.progress
	if w.out == nil {
		return errNoProgress
	}
	// The stream belongs to the context given to Begin, so the delivery has its values;
	// it ends with either context.
	delivery, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if !w.lockSending(delivery) {
		return ctx.Err()
	}
	defer w.unlockSending()
	w.setCancelRelay(cancel)
	defer w.setCancelRelay(nil)
	total := 0.0
	if p.Total != nil {
		total = *p.Total
	}
	value, ok := w.values.Relay(p.Progress, total)
	if !ok {
		return nil
	}
	relayed := *p
	relayed.Token, relayed.Progress = w.token, value
	return recoverToError(func() error { return w.out.DeliverProgress(delivery, &relayed) })
}

func (w *progressWriter) setCancelRelay(cancel context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancelRelay = cancel
}
