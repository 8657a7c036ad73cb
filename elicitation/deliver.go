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

// Via delivers questions to the client during one of its requests. The zero Via delivers nothing.
type Via struct {
	frames FrameDeliverer
	asker  Asker
}

// ViaFrames is for hosts that write frames themselves. The router creates the request and its id;
// the host passes the client's response to [Router.HandleReply].
func ViaFrames(d FrameDeliverer) Via { return Via{frames: d} }

// ViaAsker is for hosts whose SDK sends a request and waits for the response in one call.
func ViaAsker(a Asker) Via { return Via{asker: a} }

// A FrameDeliverer writes messages, in call order, on the stream of one client request.
type FrameDeliverer interface {
	// Deliver returns nil once the transport has accepted m: only then the question counts as
	// delivered. m is an elicitation/create request, or a notification that withdraws one or
	// reports a completed visit. Deliver should return when ctx ends; if not, it blocks a goroutine
	// but no question. Calls may overlap.
	Deliver(ctx context.Context, m protocol.Message) error
}

// DeliverFunc adapts a function to [FrameDeliverer].
type DeliverFunc func(ctx context.Context, m protocol.Message) error

// Deliver calls f.
func (f DeliverFunc) Deliver(ctx context.Context, m protocol.Message) error { return f(ctx, m) }

// An Asker puts a question to the client of one request and waits.
type Asker interface {
	// Ask returns the client's result, a JSON object, unchanged. It calls delivered, from any
	// goroutine, when the transport has accepted the question. If Ask cannot know this, it does not
	// call delivered, and the router reports the delivery with the answer.
	//
	// An error that is, or wraps, a [*protocol.Error] is the client's own refusal and goes upstream
	// unchanged; any other error means that the client could not be reached.
	//
	// ctx has the values of [Router.Begin]'s context and ends with the question. Calls overlap.
	Ask(ctx context.Context, q Question, delivered func()) (json.RawMessage, error)
}

// AskFunc adapts a function to [Asker].
type AskFunc func(ctx context.Context, q Question, delivered func()) (json.RawMessage, error)

// Ask calls f.
func (f AskFunc) Ask(ctx context.Context, q Question, delivered func()) (json.RawMessage, error) {
	return f(ctx, q, delivered)
}

// A Question is a question that an [Asker] puts to the client.
type Question struct {
	// ID is the router's id, 32 hexadecimal digits, as logged. An SDK's request has its own id.
	ID string
	// Params of elicitation/create for the client's revision. They must not be modified.
	Params   json.RawMessage
	Request  protocol.InputRequest // Params: [*protocol.ElicitForm] or [*protocol.ElicitURL]
	Upstream context.Context       // the context passed to [Call.Elicit], for traces
}

var (
	errNoVia = errors.New("elicitation call: Begin got the zero Via")
	errStuck = errors.New("elicitation: the transport did not accept the question in time")
)

const withdrawTimeout = time.Second

// deliveryContext returns the context for a delivery; ok is false if the question has ended.
func (p *pendingQuestion) deliveryContext() (_ context.Context, ok bool) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.call.ctx))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.endsQuestion() {
		cancel()
		return ctx, false
	}
	p.cancelDelivery = cancel
	return ctx, true
}

// deliverByFrames sends the request through the call's frames, on its own goroutine so that a stuck
// transport cannot make the upstream wait past the question's timeout.
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
	if p.markDelivered() { // the question ended while its delivery was in flight
		p.sendWithdrawal("the answer is no longer needed")
	}
}

// deliverByAsker calls the call's Asker, on its own goroutine like deliverByFrames.
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

func recoverToError(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("elicitation: delivery panicked: %v", p)
		}
	}()
	return f()
}

// markDelivered records that the transport accepted the question. late means that it had ended.
func (p *pendingQuestion) markDelivered() (late bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != eventCreated {
		return p.state.endsQuestion() && !p.answered && !p.withdrawalSent
	}
	p.state, p.delivered = eventDelivered, time.Now()
	p.emitStateLocked(nil)
	p.setExpiryLocked(p.created.Add(p.timeout))
	return false
}

// withdrawLocked withdraws the question from the client, which may still show it. before is the
// question's previous state. It still holds its slot, so Shutdown waits for the notification.
//
// For an Asker, the context is cancelled. For frames, a notification is sent in the background, or
// by deliverByFrames if the delivery is still in flight.
func (p *pendingQuestion) withdrawLocked(before eventKind, out outcome) {
	if out.replied || p.call.via.frames == nil || before != eventDelivered {
		return
	}
	p.withdrawalSent = true
	reason := out.withdrawalReason()
	p.router.withdrawals.Go(func() { p.sendWithdrawal(reason) })
}

// sendWithdrawal ignores errors: the client may be gone.
func (p *pendingQuestion) sendWithdrawal(reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	_ = deliver(ctx, p.call.via.frames, protocol.NotifyCancelled,
		protocol.Cancelled{RequestID: p.id, Reason: reason})
}

func deliver(ctx context.Context, frames FrameDeliverer, method string, params any) error {
	raw, err := jsonx.Encode(params)
	if err != nil {
		return err
	}
	n := &protocol.Notification{Method: method, Params: raw}
	return recoverToError(func() error { return frames.Deliver(ctx, n) })
}

func (out outcome) withdrawalReason() string {
	switch {
	case out.state == eventTimeout:
		return "the question timed out"
	case out.err != nil && out.err.By == byUpstream:
		return "the server withdrew the question"
	case out.err != nil && out.err.By == byShutdown:
		return "the gateway is shutting down"
	}
	return "the request that asked has ended"
}
