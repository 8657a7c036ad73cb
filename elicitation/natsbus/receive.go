package natsbus

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rondo-mcp/rondo/elicitation"
)

// Bounds of the messages of which not all parts have arrived: enough for the
// longest messages of a small fleet, and few, because anybody who may publish on
// the bus can use them up.
const (
	maxPartials    = 16
	maxPartialTime = 10 * time.Second
)

// partials are the messages of which not all parts have arrived, by reply subject.
type partials map[string]*partial

type partial struct {
	assembly
	key      string // that all parts name
	revision uint64 // that all parts expect
	began    time.Time
}

var errTooMany = errors.New("too many messages in parts")

// addPart adds a part and returns the message when it is complete.
func (p partials) addPart(
	reply string, r request, now time.Time,
) (message []byte, done bool, err error) {
	if r.parts == 1 {
		return r.chunk, true, nil
	}
	a := p[reply]
	if a == nil {
		if r.part != 0 {
			return nil, false, errFrame
		}
		p.dropExpired(now)
		if len(p) >= maxPartials {
			return nil, false, errTooMany
		}
		a = &partial{key: r.key, revision: r.revision, began: now}
		p[reply] = a
	}
	if r.key != a.key || r.revision != a.revision {
		delete(p, reply)
		return nil, false, errFrame
	}
	done, err = a.assembly.addPart(r.span, r.chunk)
	if done || err != nil {
		delete(p, reply)
	}
	return a.data, done, err
}

func (p partials) dropExpired(now time.Time) {
	for reply, a := range p {
		if now.Sub(a.began) > maxPartialTime {
			delete(p, reply)
		}
	}
}

// receiveRequest is the callback for requests of other replicas. Calls for one subscription,
// which has partials of its own, do not overlap.
func (b *Bus) receiveRequest(incomplete partials, m *nats.Msg) {
	if !b.isResponseSubject(m.Reply) {
		return // a sender must not choose where else this replica publishes
	}
	r, err := decodeRequest(m.Data)
	if err != nil {
		b.respondStatus(m.Reply, statusRefused)
		return
	}
	message, done, err := incomplete.addPart(m.Reply, r, time.Now())
	switch {
	case errors.Is(err, errTooMany):
		b.respondStatus(m.Reply, statusBusy)
	case err != nil:
		b.respondStatus(m.Reply, statusRefused)
	case done && len(message) > elicitation.MaxBusMessage:
		b.respondStatus(m.Reply, statusRefused)
	case done:
		b.startHandler(m.Reply, r, message)
	}
}

// isResponseSubject accepts the subjects that responseSubject returns on any
// replica: two words of 32 hexadecimal digits after the prefix.
func (b *Bus) isResponseSubject(subject string) bool {
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

// startHandler has the router answer a message, in a goroutine of its own.
func (b *Bus) startHandler(reply string, r request, message []byte) {
	select {
	case b.slots <- struct{}{}:
	default:
		b.respondStatus(reply, statusBusy)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.checkRequestLocked(r); s != statusDone || b.closed {
		<-b.slots
		if !b.closed {
			b.respondStatus(reply, s)
		}
		return
	}
	// If the key is not held it was released a moment ago, and the router knows
	// the outcome of the question.
	handler := b.handler
	b.tasks.Go(func() {
		defer func() { <-b.slots }()
		ctx, cancel := context.WithTimeout(b.life, maxResponseTime)
		defer cancel()
		b.respondAnswer(reply, handler(ctx, r.key, message))
	})
}

// checkRequestLocked returns statusDone for a request that the router may handle, or why it
// may not.
func (b *Bus) checkRequestLocked(r request) status {
	// The revision may be newer than that of the held claim. Then the claim was
	// stored again and the acknowledgement lost; it is this replica's all the same.
	h, ok := b.held[r.key]
	switch {
	case b.handler == nil:
		return statusBusy // Listen has failed since the request arrived
	case ok && r.revision != noClaim && r.revision < h.revision:
		return statusMoved
	}
	return statusDone
}

// respondAnswer sends an answer, in parts if need be. If that fails the other
// replica gets no response.
func (b *Bus) respondAnswer(subject string, answer []byte) {
	if len(answer) > elicitation.MaxBusMessage {
		b.respondStatus(subject, statusFailed)
		return
	}
	chunks := splitMessage(answer, b.nc.MaxPayload())
	for i, chunk := range chunks {
		r := response{span{uint16(i), uint16(len(chunks))}, statusDone, chunk}
		_ = b.nc.Publish(subject, r.appendFrame(nil))
	}
}

func (b *Bus) respondStatus(subject string, s status) {
	r := response{span{0, 1}, s, nil}
	_ = b.nc.Publish(subject, r.appendFrame(nil))
}
