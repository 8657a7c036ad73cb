package elicitation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

type outcome struct {
	Result *protocol.ElicitResult
	Err    error
}

func (o outcome) Response(id protocol.ID) *protocol.Response {
	if wire, ok := protocol.AsError(o.Err); ok {
		return &protocol.Response{ID: id, Error: wire}
	}
	raw, _ := o.Result.MarshalJSON()
	return &protocol.Response{ID: id, Result: raw}
}

// The type offered is a question of a call begun with byHand: the test delivers and ends it.
type offered struct {
	call      *elicitation.Call
	request   *protocol.Request
	delivered func()
	failed    chan error
	cancel    context.CancelFunc
	ended     chan struct{} // closed when Elicit has returned
	outcome   outcome
}

func (o *offered) Request() *protocol.Request { return o.request }
func (o *offered) Call() *elicitation.Call    { return o.call }
func (o *offered) ConfirmDelivery()           { o.delivered() }
func (o *offered) Cancel()                    { o.cancel(); <-o.ended }

// FailDelivery does nothing for a question that has ended.
func (o *offered) FailDelivery(err error) {
	select {
	case o.failed <- err:
	case <-o.ended:
	}
	<-o.ended
}

var hands = struct {
	offering sync.Mutex // one question is being offered

	mu   sync.Mutex
	next chan *offered
	byID map[protocol.ID]*offered
}{byID: map[protocol.ID]*offered{}}

// byHand is the Via of questions that a test delivers by hand.
func byHand() elicitation.Via { return elicitation.ViaAsker(hand{}) }

type hand struct{}

// Ask implements [elicitation.Asker].
func (hand) Ask(ctx context.Context, q elicitation.Question, delivered func()) (json.RawMessage,
	error) {
	o := &offered{delivered: delivered, failed: make(chan error), request: &protocol.Request{
		ID: protocol.StringID(q.ID), Method: protocol.MethodElicit, Params: q.Params}}
	hands.mu.Lock()
	next := hands.next
	hands.mu.Unlock()
	next <- o
	select {
	case err := <-o.failed:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// offer asks, and returns once the router wants the question delivered. done may be nil.
func offer(c *elicitation.Call, ctx context.Context, params json.RawMessage,
	done func(outcome)) (*offered, error) {
	hands.offering.Lock()
	defer hands.offering.Unlock()
	next := make(chan *offered, 1)
	hands.mu.Lock()
	hands.next = next
	hands.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var out outcome
	returned, ended, taken := make(chan struct{}), make(chan struct{}), make(chan *offered, 1)
	go func() {
		defer cancel()
		out = elicit(ctx, c, params)
		close(returned)
		if o := <-taken; o != nil {
			o.outcome = out
			if done != nil {
				done(out)
			}
		}
		close(ended)
	}()
	select {
	case o := <-next:
		o.call, o.cancel, o.ended = c, cancel, ended
		hands.mu.Lock()
		hands.byID[o.request.ID] = o
		hands.mu.Unlock()
		taken <- o
		return o, nil
	case <-returned:
		taken <- nil
		return nil, out.Err
	}
}

func elicit(ctx context.Context, c *elicitation.Call, params json.RawMessage) (out outcome) {
	defer func() {
		if p := recover(); p != nil {
			out.Err = fmt.Errorf("panic: %v", p)
		}
	}()
	out.Result, out.Err = c.Elicit(ctx, params)
	return out
}

// HandleReply returns once a question that the reply ended has its outcome.
func (r *rig) HandleReply(
	from elicitation.Sender, reply *protocol.Response,
) elicitation.Disposition {
	d := r.Router.HandleReply(from, reply)
	if d == elicitation.Accepted || d == elicitation.Invalid {
		hands.mu.Lock()
		o := hands.byID[reply.ID]
		delete(hands.byID, reply.ID)
		hands.mu.Unlock()
		if o != nil {
			<-o.ended
		}
	}
	return d
}
