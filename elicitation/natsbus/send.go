package natsbus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rondo-mcp/rondo/elicitation"
)

// Why a message was not handled, or may not have been.
var (
	errNobody   = errors.New("nobody listens where the owner should be")
	errMovedOn  = errors.New("the claim is another one by now")
	errBusy     = errors.New("the owner has too much to do")
	errRefused  = errors.New("the owner refused the message")
	errNoAnswer = errors.New("the owner's answer cannot be sent")
	errSilent   = errors.New("the owner does not answer any more")
)

// Send implements [elicitation.Bus]. Whether the owner is gone is known at
// once from its connection, which the servers of NATS watch, and within
// [Options].Lease where a network only loses packets.
func (b *Bus) Send(ctx context.Context, key string, message []byte) ([]byte, error) {
	if err := b.usable(ctx, key); err != nil {
		return nil, err
	}
	if len(message) > elicitation.MaxBusMessage {
		return nil, fmt.Errorf("natsbus: send: message of %d bytes, more than %d", len(message), elicitation.MaxBusMessage)
	}
	const pause = 25 * time.Millisecond
	for began, moved := time.Now(), 0; ; {
		id, revision, err := b.owner(ctx, key)
		if err != nil {
			return nil, err
		}
		if id == b.id {
			return b.sendHere(ctx, key, message)
		}
		reply, err := b.ask(ctx, id, question{revision: revision, key: key}, message)
		switch {
		case err == nil:
			return reply, nil
		case errors.Is(err, errMovedOn) && moved < 3:
			moved++
		case errors.Is(err, errNobody) && (time.Since(began) >= b.opts.Grace || !b.alive(ctx, id)):
			return nil, elicitation.ErrOwnerGone
		case !errors.Is(err, errNobody):
			return nil, b.failure("send", err)
		}
		if err := wait(ctx, pause); err != nil {
			return nil, b.failure("send", err)
		}
	}
}

// sendHere answers a message to oneself.
func (b *Bus) sendHere(ctx context.Context, key string, message []byte) ([]byte, error) {
	b.mu.Lock()
	_, ok := b.held[key]
	answer := b.answer
	b.mu.Unlock()
	if !ok || answer == nil {
		return nil, elicitation.ErrUnclaimed
	}
	reply := answer(ctx, key, message)
	if len(reply) > elicitation.MaxBusMessage {
		return nil, fmt.Errorf("natsbus: send: %w", errNoAnswer)
	}
	return reply, nil
}

// A waiter is a message whose answer has not come.
type waiter struct {
	got  chan outcome // takes one
	data assembly     // used by the callback of answers alone
}

type outcome struct {
	reply []byte
	err   error
}

// ask sends a message to one replica and waits for its answer.
func (b *Bus) ask(ctx context.Context, to replicaID, q question, message []byte) ([]byte, error) {
	token := newReplicaID().String()
	w := &waiter{got: make(chan outcome, 1)}
	b.mu.Lock()
	b.waiting[token] = w
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.waiting, token)
		b.mu.Unlock()
	}()
	chunks := cut(message, b.nc.MaxPayload())
	for i, chunk := range chunks {
		q.span, q.chunk = span{uint16(i), uint16(len(chunks))}, chunk
		m := &nats.Msg{Subject: b.questionSubject(to), Reply: b.answerSubject(token), Data: q.append(nil)}
		if err := b.nc.PublishMsg(m); err != nil {
			return nil, err
		}
	}
	return b.await(ctx, to, w)
}

func (b *Bus) await(ctx context.Context, to replicaID, w *waiter) ([]byte, error) {
	limit := time.NewTimer(maxAnswerTime)
	defer limit.Stop()
	look := time.NewTicker(b.opts.Lease / 2)
	defer look.Stop()
	for {
		select {
		case o := <-w.got:
			return o.reply, o.err
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-b.life.Done():
			return nil, elicitation.ErrBusClosed
		case <-limit.C:
			return nil, errSilent
		case <-look.C:
			if !b.alive(ctx, to) {
				return nil, errSilent
			}
		}
	}
}

// onAnswer takes what comes back. Calls do not overlap.
func (b *Bus) onAnswer(m *nats.Msg) {
	token := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	b.mu.Lock()
	w := b.waiting[token]
	b.mu.Unlock()
	if w == nil {
		return // too late, or never asked for
	}
	if done, o := w.take(m); done {
		select {
		case w.got <- o:
		default: // one answer is enough
		}
	}
}

func (w *waiter) take(m *nats.Msg) (done bool, o outcome) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return true, outcome{err: errNobody}
	}
	a, err := decodeAnswer(m.Data)
	if err != nil {
		return true, outcome{err: err}
	}
	switch a.status {
	case statusMoved:
		return true, outcome{err: errMovedOn}
	case statusBusy:
		return true, outcome{err: errBusy}
	case statusRefused:
		return true, outcome{err: errRefused}
	case statusFailed:
		return true, outcome{err: errNoAnswer}
	}
	done, err = w.data.add(a.span, a.chunk)
	if err != nil {
		return true, outcome{err: err}
	}
	return done, outcome{reply: w.data.data}
}
