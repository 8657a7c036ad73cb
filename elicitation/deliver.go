package elicitation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/stack"
	"github.com/rondo-mcp/rondo/protocol"
)

var (
	errNoVia = errors.New("elicitation call: Begin was given no Via: use Offer")
	errStuck = errors.New("elicitation: the transport did not take the question in time")
)

// withdrawTimeout bounds the attempt to tell a client that nobody waits for its
// answer any more.
const withdrawTimeout = time.Second

// deliveryContext returns the context of a delivery: the call's values, ending with the
// question. It reports false when the question has ended already.
func (e *pendingQuestion) deliveryContext() (context.Context, bool) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(e.call.ctx))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.isTerminal() {
		cancel()
		return ctx, false
	}
	e.cancelDelivery = cancel
	return ctx, true
}

// deliverByFrames writes the request by the call's frames. It runs on a goroutine of its
// own, since a transport that is stuck must not keep the upstream waiting
// longer than the question lasts.
func (e *pendingQuestion) deliverByFrames(wire *protocol.Request) {
	stack.Grow()
	ctx, ok := e.deliveryContext()
	if !ok {
		return
	}
	err := recoverToError(func() error { return e.call.via.frames.Deliver(ctx, wire) })
	if err != nil {
		e.failDelivery(err)
		return
	}
	if e.markDelivered() {
		e.withdrawLate()
	}
}

// withdrawLate takes back a question that went out although nobody waited for it
// any more.
func (e *pendingQuestion) withdrawLate() {
	sendWithdrawal(e.call.via.frames, withdrawalNotification(e.id, "nobody waits for the answer any more"))
}

// deliverByAsker has the call's Asker put the question. It runs on a goroutine of its own
// for the same reason.
func (e *pendingQuestion) deliverByAsker(wire *protocol.Request) {
	stack.Grow()
	ctx, ok := e.deliveryContext()
	if !ok {
		return
	}
	asked := Asked{ID: hexID(e.id), Params: wire.Params}
	var raw []byte
	err := recoverToError(func() (err error) {
		if asked.Question, err = protocol.DecodeInputRequest(protocol.MethodElicit, wire.Params); err != nil {
			return err
		}
		raw, err = e.call.via.asker.Ask(ctx, asked, func() { e.markDelivered() })
		return err
	})
	if err == nil {
		e.finishWithResult(raw)
		return
	}
	if wire, ok := protocol.AsError(err); ok {
		e.finishWithError(wire)
		return
	}
	e.failDelivery(err)
}

// recoverToError runs code of the host's, on a goroutine where a panic would end the
// process.
func recoverToError(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("elicitation: delivery panicked: %v", p)
		}
	}()
	return f()
}

// withdrawLocked is the notification that takes a question back, nil when there is
// nothing to take back. By the router's own frames it is sent here, in the
// background. e.mu is held, and so is the question's slot.
func (e *pendingQuestion) withdrawLocked(was state, end outcome) *protocol.Notification {
	if end.replied || end.state == stateFailed || e.call.via.asker != nil {
		return nil // an Asker sees its context end, and says so as its SDK does
	}
	n := withdrawalNotification(e.id, end.withdrawalReason())
	if !e.routerDelivers {
		return n
	}
	if was == stateDelivered {
		e.withdrawn = true
		e.router.withdrawals.Go(func() { sendWithdrawal(e.call.via.frames, n) })
	}
	return nil // else whoever delivers sends it, if the question goes out after all
}

func withdrawalNotification(id protocol.ID, reason string) *protocol.Notification {
	params, err := jsonx.Encode(protocol.Cancelled{RequestID: id, Reason: reason})
	if err != nil {
		return nil // cannot be: an id and a constant
	}
	return &protocol.Notification{Method: protocol.NotifyCancelled, Params: params}
}

func sendWithdrawal(frames FrameDeliverer, n *protocol.Notification) {
	if n == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	_ = recoverToError(func() error { return frames.Deliver(ctx, n) }) // a client that is gone need not be told
}

// withdrawalReason tells the client why its answer is not needed.
func (end outcome) withdrawalReason() string {
	switch {
	case end.state == stateTimedOut:
		return "the question timed out"
	case end.err != nil && end.err.By == ByUpstream:
		return "the server withdrew the question"
	case end.err != nil && end.err.By == ByShutdown:
		return "the gateway is shutting down"
	}
	return "the request that asked has ended"
}
