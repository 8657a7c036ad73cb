package natsbus

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rondo-mcp/rondo/elicitation"
)

// What may wait for its last part: enough for the longest messages of a small
// fleet, and little enough to be filled by whoever may.
const (
	maxPartial     = 16
	maxPartialTime = 10 * time.Second
)

// partials are messages of which not all parts have come, by reply subject.
type partials map[string]*partial

type partial struct {
	assembly
	began time.Time
}

var errTooMany = errors.New("too many messages in parts")

// add takes a part and returns the message when it is complete.
func (p partials) add(reply string, q question, now time.Time) (message []byte, done bool, err error) {
	if q.parts == 1 {
		return q.chunk, true, nil
	}
	a := p[reply]
	if a == nil {
		if q.part != 0 {
			return nil, false, errFrame
		}
		for other, a := range p {
			if now.Sub(a.began) > maxPartialTime {
				delete(p, other)
			}
		}
		if len(p) >= maxPartial {
			return nil, false, errTooMany
		}
		a = &partial{began: now}
		p[reply] = a
	}
	done, err = a.assembly.add(q.span, q.chunk)
	if done || err != nil {
		delete(p, reply)
	}
	return a.data, done, err
}

// onQuestion takes what other replicas send. Calls do not overlap.
func (b *Bus) onQuestion(m *nats.Msg) {
	if !b.isReply(m.Reply) {
		return // whoever that is must not choose where this replica publishes
	}
	q, err := decodeQuestion(m.Data)
	if err != nil {
		b.tell(m.Reply, statusRefused)
		return
	}
	message, done, err := b.partial.add(m.Reply, q, time.Now())
	switch {
	case errors.Is(err, errTooMany):
		b.tell(m.Reply, statusBusy)
	case err != nil:
		b.tell(m.Reply, statusRefused)
	case done && len(message) > elicitation.MaxBusMessage:
		b.tell(m.Reply, statusRefused)
	case done:
		b.handle(m.Reply, q, message)
	}
}

// isReply accepts the reply subjects that a bus makes: two words of 32
// hexadecimal digits after the prefix.
func (b *Bus) isReply(subject string) bool {
	rest, ok := strings.CutPrefix(subject, b.opts.Prefix+".a.")
	if !ok || len(rest) != 2*32+1 || rest[32] != '.' {
		return false
	}
	for _, c := range []byte(rest[:32] + rest[33:]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// handle has a message answered in a goroutine of its own.
func (b *Bus) handle(reply string, q question, message []byte) {
	select {
	case b.slots <- struct{}{}:
	default:
		b.tell(reply, statusBusy)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// A newer revision is that of a claim made again whose acknowledgement got
	// lost: the directory names this end all the same.
	if h, ok := b.held[q.key]; b.closed || ok && q.revision < h.revision {
		<-b.slots
		if !b.closed {
			b.tell(reply, statusMoved)
		}
		return
	}
	// A key that is not held was released a moment ago: the router says what
	// became of it.
	answer := b.answer
	b.tasks.Go(func() {
		defer func() { <-b.slots }()
		ctx, cancel := context.WithTimeout(b.life, maxAnswerTime)
		defer cancel()
		b.reply(reply, answer(ctx, q.key, message))
	})
}

// reply sends an answer, in parts if need be. What goes wrong here the other
// side sees as silence.
func (b *Bus) reply(subject string, data []byte) {
	if len(data) > elicitation.MaxBusMessage {
		b.tell(subject, statusFailed)
		return
	}
	chunks := cut(data, b.nc.MaxPayload())
	for i, chunk := range chunks {
		a := answer{span{uint16(i), uint16(len(chunks))}, statusDone, chunk}
		_ = b.nc.Publish(subject, a.append(nil))
	}
}

func (b *Bus) tell(subject string, s status) {
	a := answer{span{0, 1}, s, nil}
	_ = b.nc.Publish(subject, a.append(nil))
}
