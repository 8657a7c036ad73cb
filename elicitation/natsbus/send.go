package natsbus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rondo-mcp/rondo/elicitation"

	"github.com/rondo-mcp/rondo/internal/sleep"
)

// Send implements [elicitation.Bus]. If the connection of the owner is closed, the
// servers of NATS know at once that the owner is gone. If a network only loses
// packets, it is known within [Options].Lease.
//
// NATS delivers a message at most once. One that is lost while its owner lives, which
// can happen while the servers of a cluster lose or regain their routes, gets no answer:
// Send fails when ctx ends, or after 30 seconds, and whether the owner has handled the
// message is unknown. To try again earlier, give ctx a deadline of a few seconds: an
// owner answers from memory.
func (b *Bus) Send(ctx context.Context, key string, message []byte) ([]byte, error) {
	if err := b.checkMessage(ctx, key, message); err != nil {
		return nil, err
	}
	const maxMoves = 3 // of the claim, while this message is sent
	var watch absence
	for moves := 0; ; {
		id, revision, err := b.findOwner(ctx, key)
		if err != nil {
			return nil, err
		}
		if id == b.id {
			return b.answerLocally(ctx, key, message)
		}
		if id != watch.id {
			watch = absence{id: id}
		}
		answer, err := b.sendRequest(ctx, id, request{revision: revision, key: key}, message)
		switch {
		case err == nil:
			return answer, nil
		case errors.Is(err, errMoved) && moves < maxMoves:
			moves++
		case errors.Is(err, errNobody) && b.isGone(ctx, &watch):
			return nil, elicitation.ErrOwnerDead
		case !errors.Is(err, errNobody):
			return nil, b.wrapError("send", err)
		}
		if err := sleep.For(ctx, retryInterval); err != nil {
			return nil, b.wrapError("send", err)
		}
	}
}

// answerLocally has this replica's own router answer a message about a key that it has
// claimed.
func (b *Bus) answerLocally(ctx context.Context, key string, message []byte) ([]byte, error) {
	b.mu.Lock()
	_, ok := b.held[key]
	b.mu.Unlock()
	if !ok {
		return nil, elicitation.ErrNoOwner
	}
	return b.callHandler(ctx, key, message)
}

// callHandler has this replica's own router answer a message.
func (b *Bus) callHandler(ctx context.Context, key string, message []byte) ([]byte, error) {
	b.mu.Lock()
	handler := b.handler
	b.mu.Unlock()
	if handler == nil {
		return nil, elicitation.ErrOwnerDead
	}
	answer := handler(ctx, key, message)
	if len(answer) > elicitation.MaxBusMessage {
		return nil, fmt.Errorf("natsbus: send: %w", errNoAnswer)
	}
	return answer, nil
}

// A waiter is a request that has no response yet.
type waiter struct {
	done     chan result // has room for one
	assembly assembly    // used by the callback of responses alone
}

// A result is what a request ends with.
type result struct {
	answer []byte
	err    error
}

// sendRequest sends a message to one replica and waits for the answer.
func (b *Bus) sendRequest(
	ctx context.Context, to replicaID, r request, message []byte,
) (answer []byte, err error) {
	token := newReplicaID().String()
	w := &waiter{done: make(chan result, 1)}
	b.mu.Lock()
	b.waiting[token] = w
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.waiting, token)
		b.mu.Unlock()
	}()
	subject, reply := b.requestSubject(to), b.responseSubject(token)
	chunks := splitMessage(message, b.nc.MaxPayload())
	for i, chunk := range chunks {
		r.span, r.chunk = span{uint16(i), uint16(len(chunks))}, chunk
		m := &nats.Msg{Subject: subject, Reply: reply, Data: r.appendFrame(nil)}
		if err := b.nc.PublishMsg(m); err != nil {
			return nil, err
		}
	}
	return b.awaitResult(ctx, to, w)
}

// awaitResult waits for the end of a request. It gives up when the lease of the
// other replica has ended.
func (b *Bus) awaitResult(ctx context.Context, to replicaID, w *waiter) ([]byte, error) {
	limit := time.NewTimer(maxResponseTime)
	defer limit.Stop()
	look := time.NewTicker(b.opts.Lease / 2)
	defer look.Stop()
	for {
		select {
		case r := <-w.done:
			return r.answer, r.err
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-b.life.Done():
			return nil, elicitation.ErrBusClosed
		case <-limit.C:
			return nil, errSilent
		case <-look.C:
			if !b.hasLease(ctx, to) {
				return nil, errSilent
			}
		}
	}
}

// receiveResponse is the callback for responses. Calls do not overlap.
func (b *Bus) receiveResponse(m *nats.Msg) {
	token := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	b.mu.Lock()
	w := b.waiting[token]
	b.mu.Unlock()
	if w == nil {
		return // the request has ended, or there was none
	}
	if r, done := w.addResponse(m); done {
		select {
		case w.done <- r:
		default: // the request has a result already
		}
	}
}

// addResponse adds a response, and returns the result of the request if the
// response was the last one.
func (w *waiter) addResponse(m *nats.Msg) (r result, done bool) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return result{err: errNobody}, true // from the server: nobody subscribes
	}
	p, err := decodeResponse(m.Data)
	if err != nil {
		return result{err: err}, true
	}
	switch p.status {
	case statusMoved:
		return result{err: errMoved}, true
	case statusBusy:
		return result{err: errBusy}, true
	case statusRefused:
		return result{err: errRefused}, true
	case statusFailed:
		return result{err: errNoAnswer}, true
	}
	done, err = w.assembly.addPart(p.span, p.chunk)
	if err != nil {
		return result{err: err}, true
	}
	return result{answer: w.assembly.data}, done
}

// Why a message was not handled, or may not have been.
var (
	errNobody   = errors.New("nobody listens where the owner should be")
	errMoved    = errors.New("the claim is another one by now")
	errBusy     = errors.New("the owner has too much to do")
	errRefused  = errors.New("the owner refused the message")
	errNoAnswer = errors.New("the owner's answer cannot be sent")
	errSilent   = errors.New("the owner does not answer any more")
)
