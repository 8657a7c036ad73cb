package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/wire/envelope"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/transport"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A BackSender is a [Delivery].Back that carries requests, too, to the client of
// a [Session] and on the stream of the request that they relate to. Calls may
// overlap. The client's answer goes to [Session.Deliver].
type BackSender interface {
	protocol.Back
	// Send sends a request, or the notification that withdraws one, which must
	// go out even though the client has cancelled what it relates to. An error
	// means that the client cannot be reached.
	Send(ctx context.Context, m protocol.Message) error
}

// maxPendingPushes is how many questions one session may wait for at once. A
// round has a few; more than this nobody can answer.
const maxPendingPushes = 100

// withdrawTimeout limits the attempt to tell the client that a question is
// withdrawn.
const withdrawTimeout = time.Second

var (
	errTooManyPushes = errors.New("server: too many questions wait for the client")
	errWithdrawn     = errors.New("server: the request that asked has ended")
)

// A pushTable holds the questions of a session that the client has not answered.
// Its zero value is ready.
type pushTable struct {
	mu      sync.Mutex
	last    uint64
	pending map[protocol.ID]*pendingPush
	closed  bool
}

// A pendingPush is one question that the client has been sent. Its id is its
// progress token, too.
type pendingPush struct {
	id     protocol.ID
	pusher *pusher
	extend func()
	// answered is closed by completePush, and never for a question that its own Push
	// withdraws.
	answered chan struct{}

	// The answer, once there is one.
	result json.RawMessage
	err    error
}

// completePush hands the outcome to the goroutine in [pusher.Push]. Only who has removed the
// question from the table may call it, so that it is called once.
func (p *pendingPush) completePush(result json.RawMessage, err error) {
	p.result, p.err = result, err
	close(p.answered)
}

// addPush reserves an id for a question. Ids are strings, which no client mistakes
// for the integers that it counts its own requests with, and are never used again.
func (t *pushTable) addPush(from *pusher, extend func()) (*pendingPush, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, errSessionClosed
	case len(t.pending) >= maxPendingPushes:
		return nil, errTooManyPushes
	case t.pending == nil:
		t.pending = map[protocol.ID]*pendingPush{}
	}
	t.last++
	p := &pendingPush{id: pushID(t.last), pusher: from, extend: extend,
		answered: make(chan struct{})}
	t.pending[p.id] = p
	return p, nil
}

func pushID(n uint64) protocol.ID {
	var room [32]byte
	text := strconv.AppendUint(append(room[:0], `"server-`...), n, 10)
	id, _ := protocol.ParseID(append(text, '"')) // which is one
	return id
}

// removePush removes a question. It reports whether the question was in the table:
// only the one caller that gets true may complete it.
func (t *pushTable) removePush(id protocol.ID) (*pendingPush, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.pending[id]
	delete(t.pending, id)
	return p, ok
}

// deliverAnswer completes the question that r answers, for [Session.Deliver], and wakes the
// goroutine in [pusher.Push]. It reports false when there is no such question any more.
func (t *pushTable) deliverAnswer(r *protocol.Response) bool {
	p, ok := t.removePush(r.ID)
	if !ok {
		return false
	}
	if r.Error != nil {
		p.completePush(nil, r.Error)
	} else {
		p.completePush(bytes.Clone(r.Result), nil) // the message may alias a buffer
	}
	return true
}

// extendPush restarts the timeout of the question whose progress token is token.
func (t *pushTable) extendPush(token protocol.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.pending[token]; ok && p.extend != nil {
		p.extend()
	}
}

// failPushes fails all questions with errSessionClosed, those that are added
// later included.
func (t *pushTable) failPushes() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for id, p := range t.pending {
		delete(t.pending, id)
		p.completePush(nil, errSessionClosed)
	}
}

// removePushesOf removes and returns the questions of one request.
func (t *pushTable) removePushesOf(from *pusher) []*pendingPush {
	t.mu.Lock()
	defer t.mu.Unlock()
	var removed []*pendingPush
	for id, p := range t.pending {
		if p.pusher == from {
			delete(t.pending, id)
			removed = append(removed, p)
		}
	}
	return removed
}

// A pusher sends the questions of one request to the client, on the channel of
// that request, and waits for the answers. The funnel calls it as
// [roundtrip.Pusher].
type pusher struct {
	session *Session
	version protocol.Version
	channel *requestChannel
	back    BackSender
	// withdrawing is held for reading while one question is withdrawn.
	// withdrawRemaining, which ends the request, locks it and so waits until these
	// withdrawals are sent.
	withdrawing sync.RWMutex
}

var (
	_ roundtrip.Pusher         = (*pusher)(nil)
	_ roundtrip.VisitCompleter = (*pusher)(nil)
)

// CannotPush is asked by the funnel before a question: why none can go out now.
func (p *pusher) CannotPush() string {
	if c, ok := p.back.(transport.PushChecker); ok {
		return c.CannotPush()
	}
	return ""
}

// CompleteVisit implements [roundtrip.VisitCompleter].
func (p *pusher) CompleteVisit(ctx context.Context, elicitationID string) error {
	params, err := jsonx.Encode(protocol.ElicitationCompleted{ElicitationID: elicitationID})
	if err != nil {
		return err
	}
	return p.sendMessage(ctx, &protocol.Notification{Method: protocol.NotifyElicitationCompleted,
		Params: params})
}

// Push implements [roundtrip.Pusher]. It waits for one of three: the answer, which
// [Session.Deliver] brings on the goroutine of another message; the end of the session, which
// fails all questions; the end of ctx, by which the funnel means that nobody waits any more. What
// the stream of the request has taken counts as written, also where its client has to come back.
func (p *pusher) Push(ctx context.Context, question protocol.InputRequest, extend,
	written func()) (json.RawMessage, error) {
	asked, err := p.session.pushes.addPush(p, extend)
	if err != nil {
		return nil, err
	}
	if err := p.sendQuestion(ctx, asked.id, question); err != nil {
		p.session.pushes.removePush(asked.id)
		return nil, err
	}
	written()
	select {
	case <-asked.answered:
		return asked.result, asked.err
	case <-ctx.Done():
	}
	if p.withdrawPending(asked, context.Cause(ctx)) {
		return nil, context.Cause(ctx)
	}
	// Another goroutine has removed the question first and is about to complete it: the
	// answer came in time.
	<-asked.answered
	return asked.result, asked.err
}

// withdrawPending withdraws a question that has no answer yet, and reports whether
// it had none.
func (p *pusher) withdrawPending(asked *pendingPush, why error) bool {
	p.withdrawing.RLock()
	defer p.withdrawing.RUnlock()
	_, waiting := p.session.pushes.removePush(asked.id)
	if waiting {
		p.sendWithdrawal(asked, why)
	}
	return waiting
}

// sendWithdrawal tells the client that its answer is no longer wanted
// (basic/utilities/cancellation), on the stream of the question.
func (p *pusher) sendWithdrawal(asked *pendingPush, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	reason := "the request that asked has ended"
	if errors.Is(why, inflight.ErrCancelled) {
		reason = "the request that asked was cancelled"
	} else if errors.Is(why, waiting.ErrClosing) {
		reason = "the server is closing"
	}
	params, err := jsonx.Encode(protocol.Cancelled{RequestID: asked.id, Reason: reason})
	if err == nil {
		_ = p.sendMessage(ctx, &protocol.Notification{Method: protocol.NotifyCancelled,
			Params: params})
	}
}

// withdrawRemaining withdraws the questions that are pending when the request has
// been answered. Goroutines that the handler left behind asked them. p may be nil.
func (p *pusher) withdrawRemaining() {
	if p == nil {
		return
	}
	p.withdrawing.Lock()
	left := p.session.pushes.removePushesOf(p)
	p.withdrawing.Unlock()
	for _, asked := range left {
		p.sendWithdrawal(asked, errWithdrawn)
		asked.completePush(nil, errWithdrawn)
	}
}

// envelopeBytes is how much the request of a form takes beside its message and
// schema.
const envelopeBytes = 192

// questionBytes is enough for most questions of other kinds.
const questionBytes = 512

// estimateQuestionBytes returns the capacity for the text of a question, so that
// encoding allocates once in most cases. It is not generous: the text is kept
// until the question is answered.
func estimateQuestionBytes(question protocol.InputRequest) int {
	if form, ok := question.(*protocol.ElicitForm); ok {
		return envelopeBytes + len(form.Message) + len(form.Schema)
	}
	return questionBytes
}

// sendQuestion sends a question as a request that asks for progress reports.
func (p *pusher) sendQuestion(ctx context.Context, id protocol.ID,
	question protocol.InputRequest) error {
	question, meta := protocol.CopyInputRequest(question)
	var err error
	if *meta, err = addProgressToken(*meta, id); err != nil {
		return err
	}
	text, method := make([]byte, 0, estimateQuestionBytes(question)), question.Kind().Method()
	textSender, ok := p.back.(transport.TextSender)
	if ok {
		text = envelope.BeginRequest(text, id.String(), method)
	}
	if text, err = protocol.AppendInputParams(text, p.version, question); err != nil {
		return err
	}
	if !ok {
		return p.sendMessage(ctx, &protocol.Request{ID: id, Method: method, Params: text})
	}
	if err := p.channel.lockUnlessEnded(); err != nil {
		return err
	}
	defer p.channel.mu.Unlock()
	return textSender.SendText(ctx, append(text, '}'))
}

// sendMessage sends a message that relates to a question, in order with the
// notifications of the request.
func (p *pusher) sendMessage(ctx context.Context, m protocol.Message) error {
	if err := p.channel.lockUnlessEnded(); err != nil {
		return err
	}
	defer p.channel.mu.Unlock()
	return p.back.Send(ctx, m)
}

// lockUnlessEnded locks mu, which orders messages with the notifications of the
// request. It fails with [ErrEnded] after the response, and mu is not locked then.
func (o *requestChannel) lockUnlessEnded() error {
	o.mu.Lock()
	if o.ended {
		o.mu.Unlock()
		return ErrEnded
	}
	return nil
}

// addProgressToken returns meta with a progress token.
func addProgressToken(meta protocol.Meta, token protocol.ID) (protocol.Meta, error) {
	if len(meta) > 0 {
		return meta.With(protocol.MetaProgressToken, token)
	}
	return protocol.Meta(`{"` + protocol.MetaProgressToken + `":` + token.String() + `}`), nil
}
