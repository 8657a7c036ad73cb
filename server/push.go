package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/envelope"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A BackSender is a way back ([Incoming].Back) that carries requests too, to
// the client of a [Session] and on the stream of the request that they relate
// to. Calls may overlap. The client's answer goes to [Session.Deliver].
type BackSender interface {
	protocol.Back
	// Send sends a request, or the notification that withdraws one, which must
	// go out even though the client has cancelled what it relates to. An error
	// means that the client cannot be reached.
	Send(ctx context.Context, m protocol.Message) error
}

// MaxPendingPushes is how many questions one session may wait for at once. A
// round has a few; more than this nobody can answer.
const MaxPendingPushes = 100

// withdrawTimeout bounds the attempt to tell the client that nobody waits for
// its answer any more.
const withdrawTimeout = time.Second

var (
	errTooManyPushes = errors.New("server: too many questions wait for the client")
	errWithdrawn     = errors.New("server: the request that asked has ended")
)

// pushTable holds what a client is being asked. Its zero value is ready.
type pushTable struct {
	mu      sync.Mutex
	last    uint64
	pending map[protocol.ID]*push
	closed  bool
}

// A push is one question under way. Its id is its progress token, too.
type push struct {
	id       protocol.ID
	asker    *pusher
	extend   func()
	answered chan struct{} // closed by whoever takes the push off the table

	// The answer, once there is one.
	result json.RawMessage
	err    error
}

func (p *push) answer(result json.RawMessage, err error) {
	p.result, p.err = result, err
	close(p.answered)
}

// add makes room for a question. Ids are strings, which no client mistakes for
// the integers that it counts its own requests with, and are never used again.
func (t *pushTable) add(asker *pusher, extend func()) (*push, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, ErrSessionClosed
	case len(t.pending) >= MaxPendingPushes:
		return nil, errTooManyPushes
	case t.pending == nil:
		t.pending = map[protocol.ID]*push{}
	}
	t.last++
	p := &push{id: pushID(t.last), asker: asker, extend: extend, answered: make(chan struct{})}
	t.pending[p.id] = p
	return p, nil
}

func pushID(n uint64) protocol.ID {
	var room [32]byte
	text := strconv.AppendUint(append(room[:0], `"server-`...), n, 10)
	id, _ := protocol.ParseID(append(text, '"')) // which is one
	return id
}

// take removes a question. It reports whether it was still there: exactly one
// caller gets to decide what becomes of it.
func (t *pushTable) take(id protocol.ID) (*push, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.pending[id]
	delete(t.pending, id)
	return p, ok
}

func (t *pushTable) deliver(r *protocol.Response) bool {
	p, ok := t.take(r.ID)
	if !ok {
		return false
	}
	if r.Error != nil {
		p.answer(nil, r.Error)
	} else {
		p.answer(bytes.Clone(r.Result), nil) // the message may alias a buffer
	}
	return true
}

func (t *pushTable) progress(token protocol.ProgressToken) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.pending[token]; ok && p.extend != nil {
		p.extend()
	}
}

// close fails everything that waits, and what would.
func (t *pushTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for id, p := range t.pending {
		delete(t.pending, id)
		p.answer(nil, ErrSessionClosed)
	}
}

// of removes and returns what one request asks.
func (t *pushTable) of(asker *pusher) []*push {
	t.mu.Lock()
	defer t.mu.Unlock()
	var mine []*push
	for id, p := range t.pending {
		if p.asker == asker {
			delete(t.pending, id)
			mine = append(mine, p)
		}
	}
	return mine
}

// A pusher asks on behalf of one request, on its stream.
type pusher struct {
	session *Session
	version protocol.Version
	outlet  *outlet
	back    BackSender
	// leaving is held for reading while a question is withdrawn, so that the
	// request is not over before the client knows.
	leaving sync.RWMutex
}

var (
	_ roundtrip.Pusher         = (*pusher)(nil)
	_ roundtrip.VisitCompleter = (*pusher)(nil)
)

// CompleteVisit implements [roundtrip.VisitCompleter].
func (p *pusher) CompleteVisit(ctx context.Context, elicitationID string) error {
	params, err := jsonx.Encode(protocol.ElicitationCompleted{ElicitationID: elicitationID})
	if err != nil {
		return err
	}
	return p.send(ctx, &protocol.Notification{Method: protocol.NotifyElicitationCompleted, Params: params})
}

// Push implements [roundtrip.Pusher].
func (p *pusher) Push(ctx context.Context, question protocol.InputRequest, extend func()) (json.RawMessage, error) {
	asked, err := p.session.pushes.add(p, extend)
	if err != nil {
		return nil, err
	}
	if err := p.ask(ctx, asked.id, question); err != nil {
		p.session.pushes.take(asked.id)
		return nil, err
	}
	select {
	case <-asked.answered:
		return asked.result, asked.err
	case <-ctx.Done():
	}
	if p.giveUp(asked, context.Cause(ctx)) {
		return nil, context.Cause(ctx)
	}
	// The answer came at the same moment; it is as good as any.
	<-asked.answered
	return asked.result, asked.err
}

// giveUp withdraws a question that is still waiting, and reports whether it
// was.
func (p *pusher) giveUp(asked *push, why error) bool {
	p.leaving.RLock()
	defer p.leaving.RUnlock()
	_, waiting := p.session.pushes.take(asked.id)
	if waiting {
		p.withdraw(asked, why)
	}
	return waiting
}

// withdraw tells the client that nobody waits for its answer
// (basic/utilities/cancellation). It is sent on the stream of the question.
func (p *pusher) withdraw(asked *push, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	reason := "the request that asked has ended"
	if errors.Is(why, errCancelled) {
		reason = "the request that asked was cancelled"
	} else if errors.Is(why, waiting.ErrClosing) {
		reason = "the server is closing"
	}
	params, err := jsonx.Encode(protocol.Cancelled{RequestID: asked.id, Reason: reason})
	if err == nil {
		_ = p.send(ctx, &protocol.Notification{Method: protocol.NotifyCancelled, Params: params})
	}
}

// end withdraws what is still being asked when the request has been answered:
// by goroutines that a handler left behind.
func (p *pusher) end() {
	if p == nil {
		return
	}
	p.leaving.Lock()
	left := p.session.pushes.of(p)
	p.leaving.Unlock()
	for _, asked := range left {
		p.withdraw(asked, errWithdrawn)
		asked.answer(nil, errWithdrawn)
	}
}

// envelopeBytes is room for what a form has as a request beside its message and
// schema.
const envelopeBytes = 192

// questionBytes is room for a question of another kind, as a rule.
const questionBytes = 512

// roomFor returns how much room to make for the text of a question, so that encoding it
// allocates once, as a rule, and little is left over: the text is kept until the
// question is answered.
func roomFor(question protocol.InputRequest) int {
	if form, ok := question.(*protocol.ElicitForm); ok {
		return envelopeBytes + len(form.Message) + len(form.Schema)
	}
	return questionBytes
}

// A textSender is a [BackSender] that takes the JSON text of a request as it goes
// over the wire, and keeps it.
type textSender interface {
	SendText(ctx context.Context, request []byte) error
}

// ask sends a question as a request that asks for progress reports.
func (p *pusher) ask(ctx context.Context, id protocol.ID, question protocol.InputRequest) error {
	question, err := withToken(question, id)
	if err != nil {
		return err
	}
	text, method := make([]byte, 0, roomFor(question)), question.Kind().Method()
	whole, ok := p.back.(textSender)
	if ok {
		text = envelope.BeginRequest(text, id.String(), method)
	}
	if text, err = protocol.AppendInputParams(text, p.version, question); err != nil {
		return err
	}
	if !ok {
		return p.send(ctx, &protocol.Request{ID: id, Method: method, Params: text})
	}
	if err := p.outlet.enterOrder(); err != nil {
		return err
	}
	defer p.outlet.mu.Unlock()
	return whole.SendText(ctx, append(text, '}'))
}

// send sends what relates to a question.
func (p *pusher) send(ctx context.Context, m protocol.Message) error {
	if err := p.outlet.enterOrder(); err != nil {
		return err
	}
	defer p.outlet.mu.Unlock()
	return p.back.Send(ctx, m)
}

// enterOrder takes the mutex, which puts what is sent in order with the
// notifications of the request, unless that has ended.
func (o *outlet) enterOrder() error {
	o.mu.Lock()
	if o.ended {
		o.mu.Unlock()
		return ErrEnded
	}
	return nil
}

// withToken returns a copy of the question with a progress token of ours.
func withToken(question protocol.InputRequest, token protocol.ProgressToken) (out protocol.InputRequest, err error) {
	switch q := question.(type) {
	case *protocol.ElicitForm:
		c := *q
		c.Meta, err = tokenMeta(c.Meta, token)
		return &c, err
	case *protocol.ElicitURL:
		c := *q
		c.Meta, err = tokenMeta(c.Meta, token)
		return &c, err
	case *protocol.CreateMessage:
		c := *q
		c.Meta, err = tokenMeta(c.Meta, token)
		return &c, err
	case *protocol.ListRoots:
		c := *q
		c.Meta, err = tokenMeta(c.Meta, token)
		return &c, err
	}
	return question, nil
}

// tokenMeta returns meta with a progress token: nothing else, as a rule.
func tokenMeta(meta protocol.Meta, token protocol.ProgressToken) (protocol.Meta, error) {
	if len(meta) > 0 {
		return meta.With(protocol.MetaProgressToken, token)
	}
	return protocol.Meta(`{"` + protocol.MetaProgressToken + `":` + token.String() + `}`), nil
}
