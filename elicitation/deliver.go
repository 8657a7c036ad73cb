package elicitation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// Via is how questions reach the client while one of its requests runs. It is made
// by [ViaFrames] or [ViaAsker]. The zero Via reaches nobody.
type Via struct {
	frames FrameDeliverer
	asker  Asker
}

// ViaFrames is the Via of hosts that write frames themselves. The router makes the
// request and owns its id; the client's response goes to [Router.HandleReply].
func ViaFrames(d FrameDeliverer) Via { return Via{frames: d} }

// ViaAsker is the Via of hosts whose SDK writes a request and waits for the response
// in one call.
func ViaAsker(a Asker) Via { return Via{asker: a} }

// A FrameDeliverer writes messages on the stream of one request of a client, in
// the order in which it is called.
type FrameDeliverer interface {
	// Deliver returns nil once the transport has accepted m: then, and only
	// then, the question counts as delivered. It gets an elicitation/create
	// request, or a notification that withdraws one or reports a visit
	// complete. It should return when ctx ends; one that does not holds up a
	// goroutine but no question. Calls may overlap.
	Deliver(ctx context.Context, m protocol.Message) error
}

// DeliverFunc is a function that is a [FrameDeliverer].
type DeliverFunc func(ctx context.Context, m protocol.Message) error

// Deliver calls f.
func (f DeliverFunc) Deliver(ctx context.Context, m protocol.Message) error { return f(ctx, m) }

// An Asker puts a question to the client of one request and waits.
type Asker interface {
	// Ask returns the client's result, a JSON object, as it came. It calls
	// delivered, from any goroutine, when the transport has accepted the
	// question; one that cannot know does not call it, and the router then
	// never claims a delivery before the answer proves it.
	//
	// An error that is, or wraps, a [*protocol.Error] is the client's own
	// refusal and goes upstream as it is; any other means that the client
	// could not be reached.
	//
	// The context has the values of the one given to [Router.Begin] and ends
	// when the question does, whatever ends it. Calls may overlap.
	Ask(ctx context.Context, q Question, delivered func()) (json.RawMessage, error)
}

// AskFunc is a function that is an [Asker].
type AskFunc func(ctx context.Context, q Question, delivered func()) (json.RawMessage, error)

// Ask calls f.
func (f AskFunc) Ask(ctx context.Context, q Question, delivered func()) (json.RawMessage, error) {
	return f(ctx, q, delivered)
}

// A Question is what an [Asker] puts to the client.
type Question struct {
	// ID is the router's id of the question, 32 hexadecimal digits, as logs
	// have it. An SDK gives the request on the wire an id of its own.
	ID string
	// Params are the parameters of elicitation/create as the client's revision
	// spells them. They must not be modified.
	Params json.RawMessage
	// Request is the same, decoded: a [*protocol.ElicitForm] or a
	// [*protocol.ElicitURL].
	Request protocol.InputRequest
	// Upstream is the context of the upstream's request, for traces: its values are those of
	// the one given to [Call.Elicit].
	Upstream context.Context
}

var (
	errNoVia = errors.New("elicitation call: Begin was given no Via")
	errStuck = errors.New("elicitation: the transport did not take the question in time")
)

// withdrawTimeout bounds the attempt to tell a client that its answer is no longer
// needed.
const withdrawTimeout = time.Second

// deliveryContext returns the context of a delivery: it has the values of the call's
// context, and finish cancels it. ok is false when the question has ended already.
func (p *pendingQuestion) deliveryContext() (_ context.Context, ok bool) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.call.ctx))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.isTerminal() {
		cancel()
		return ctx, false
	}
	p.cancelDelivery = cancel
	return ctx, true
}

// deliverByFrames writes the request by the call's frames. It runs on a goroutine of
// its own, since a transport that is stuck must not keep the upstream waiting longer
// than the question lasts.
func (p *pendingQuestion) deliverByFrames(request *protocol.Request) {
	inflight.GrowStack()
	ctx, ok := p.deliveryContext()
	if !ok {
		return
	}
	err := recoverToError(func() error { return p.call.via.frames.Deliver(ctx, request) })
	if err != nil {
		p.failDelivery(err)
		return
	}
	if p.markDelivered() { // the delivery was in flight when the question ended
		p.sendWithdrawal("nobody waits for the answer any more")
	}
}

// deliverByAsker has the call's Asker put the question and return the answer. It runs
// on a goroutine of its own for the same reason.
func (p *pendingQuestion) deliverByAsker(request *protocol.Request) {
	inflight.GrowStack()
	ctx, ok := p.deliveryContext()
	if !ok {
		return
	}
	asked := Question{ID: bareID(p.id), Params: request.Params, Upstream: p.upstream}
	var raw []byte
	err := recoverToError(func() (err error) {
		asked.Request, err = protocol.DecodeInputRequest(protocol.MethodElicit, request.Params)
		if err != nil {
			return err
		}
		raw, err = p.call.via.asker.Ask(ctx, asked, func() { p.markDelivered() })
		return err
	})
	if err == nil {
		p.finishByReply(p.readResult(raw))
		return
	}
	if wire, ok := protocol.AsError(err); ok {
		p.finishByReply(p.readError(wire))
		return
	}
	p.failDelivery(err)
}

// recoverToError runs code of the host where a panic would end the process.
func recoverToError(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("elicitation: delivery panicked: %v", p)
		}
	}()
	return f()
}

// markDelivered records that the transport has taken the question. late means that
// the question had ended before, and that nothing has told the client so.
func (p *pendingQuestion) markDelivered() (late bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != stateCreated {
		return p.state.isTerminal() && !p.answered && !p.withdrawalSent
	}
	p.state, p.delivered = stateDelivered, time.Now()
	p.emitStateLocked(eventDelivered, nil)
	p.setExpiryLocked(p.created.Add(p.timeout))
	return false
}

// withdrawLocked withdraws the question from the client, which may still have it open.
// before is the state that it had until now. It is called while the question holds its
// slot, so that Shutdown waits for what is sent here.
//
// An Asker sees its context end. By the router's own frames the notification is sent in the
// background, or by deliverByFrames when the delivery is still in flight.
func (p *pendingQuestion) withdrawLocked(before state, out outcome) {
	if out.replied || p.call.via.frames == nil || before != stateDelivered {
		return
	}
	p.withdrawalSent = true
	reason := out.withdrawalReason()
	p.router.withdrawals.Go(func() { p.sendWithdrawal(reason) })
}

// sendWithdrawal ignores errors: a client that is gone need not be told.
func (p *pendingQuestion) sendWithdrawal(reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	_ = deliver(ctx, p.call.via.frames, protocol.NotifyCancelled,
		protocol.Cancelled{RequestID: p.id, Reason: reason})
}

// deliver writes a notification by frames of the host.
func deliver(ctx context.Context, frames FrameDeliverer, method string, params any) error {
	raw, err := jsonx.Encode(params)
	if err != nil {
		return err
	}
	n := &protocol.Notification{Method: method, Params: raw}
	return recoverToError(func() error { return frames.Deliver(ctx, n) })
}

// withdrawalReason tells the client why its answer is not needed.
func (out outcome) withdrawalReason() string {
	switch {
	case out.state == stateTimedOut:
		return "the question timed out"
	case out.err != nil && out.err.By == byUpstream:
		return "the server withdrew the question"
	case out.err != nil && out.err.By == byShutdown:
		return "the gateway is shutting down"
	}
	return "the request that asked has ended"
}
