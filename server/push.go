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
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A BackSender is a [Delivery].Back that also sends requests to the client of a [Session], on the
// stream of the request that they relate to. Calls may overlap. Answers go to [Session.Deliver].
type BackSender interface {
	protocol.Back
	// Send sends a request, or the notification that withdraws one, even if the client has
	// cancelled the related request. It fails if the client is unreachable.
	Send(ctx context.Context, m protocol.Message) error
}

const maxPendingPushes = 100 // open questions of a session; a round has a few

const withdrawTimeout = time.Second // for sending a withdrawal

var (
	errTooManyPushes = errors.New("server: too many questions wait for the client")
	errWithdrawn     = errors.New("server: the request that asked has ended")
)

type pushTable struct {
	mu      sync.Mutex
	last    uint64
	pending map[protocol.ID]*pendingPush
	closed  bool
}

// A pendingPush is one question that was sent. Its id is also its progress token.
type pendingPush struct {
	id     protocol.ID
	pusher *pusher
	extend func()
	// The channel answered is closed by completePush, unless the question's own Push withdraws it.
	answered chan struct{}

	// set before answered is closed
	result json.RawMessage
	err    error
}

// completePush passes the outcome to [pusher.Push]. Only the remover of the question calls it.
func (p *pendingPush) completePush(result json.RawMessage, err error) {
	p.result, p.err = result, err
	close(p.answered)
}

// addPush reserves a unique id: a string, which clients do not confuse with their own integers.
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
	id, _ := protocol.ParseID(append(text, '"')) // the text is a valid id
	return id
}

// removePush removes a question. Only the caller that gets true may complete it.
func (t *pushTable) removePush(id protocol.ID) (*pendingPush, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.pending[id]
	delete(t.pending, id)
	return p, ok
}

// deliverAnswer completes the question that r answers. It reports false if there is none.
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

// extendPush restarts the timeout of the question with that progress token.
func (t *pushTable) extendPush(token protocol.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.pending[token]; ok && p.extend != nil {
		p.extend()
	}
}

// failPushes fails all questions, including later ones, with errSessionClosed.
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

// A pusher sends the questions of one request on its channel and waits for the answers.
type pusher struct {
	session *Session
	version protocol.Version
	channel *requestChannel
	back    BackSender
	// withdrawing is read-locked by a withdrawal; withdrawRemaining locks it to wait for them.
	withdrawing sync.RWMutex
}

var (
	_ roundtrip.Pusher         = (*pusher)(nil)
	_ roundtrip.VisitCompleter = (*pusher)(nil)
)

// CannotPush returns why no question can be sent now, or "".
func (p *pusher) CannotPush() string {
	if c, ok := p.back.(rpc.PushChecker); ok {
		return c.CannotPush()
	}
	return ""
}

func (p *pusher) CompleteVisit(ctx context.Context, elicitationID string) error {
	params, err := jsonx.Encode(protocol.ElicitationCompleted{ElicitationID: elicitationID})
	if err != nil {
		return err
	}
	return p.sendMessage(ctx, &protocol.Notification{Method: protocol.NotifyElicitationCompleted,
		Params: params})
}

// Push implements [roundtrip.Pusher]. It waits for the answer, which [Session.Deliver] brings, for
// the end of the session, which fails all questions, or for the end of ctx, which withdraws the
// question. A question counts as written once the stream has it, even if the client must reconnect.
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
	// Another goroutine has removed the question and will complete it.
	<-asked.answered
	return asked.result, asked.err
}

// withdrawPending withdraws a question unless it was answered, and reports whether it did.
func (p *pusher) withdrawPending(asked *pendingPush, why error) bool {
	p.withdrawing.RLock()
	defer p.withdrawing.RUnlock()
	_, waiting := p.session.pushes.removePush(asked.id)
	if waiting {
		p.sendWithdrawal(asked, why)
	}
	return waiting
}

// sendWithdrawal sends notifications/cancelled (basic/utilities/cancellation).
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

// withdrawRemaining withdraws questions that the handler left pending. p may be nil.
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

const envelopeBytes = 192 // of a form's request besides message and schema

const questionBytes = 512 // fits most questions of other kinds

// estimateQuestionBytes returns a capacity for encoding a question, usually in one allocation. It
// is tight because the text is kept until the answer.
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
	textSender, ok := p.back.(rpc.TextSender)
	if ok {
		text = rpc.BeginRequest(text, id.String(), method)
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

// sendMessage sends a message in order with the notifications of the request.
func (p *pusher) sendMessage(ctx context.Context, m protocol.Message) error {
	if err := p.channel.lockUnlessEnded(); err != nil {
		return err
	}
	defer p.channel.mu.Unlock()
	return p.back.Send(ctx, m)
}

// lockUnlessEnded locks mu, or fails with [ErrEnded] after the response.
func (o *requestChannel) lockUnlessEnded() error {
	o.mu.Lock()
	if o.ended {
		o.mu.Unlock()
		return ErrEnded
	}
	return nil
}

func addProgressToken(meta protocol.Meta, token protocol.ID) (protocol.Meta, error) {
	if len(meta) > 0 {
		return meta.With(protocol.MetaProgressToken, token)
	}
	return protocol.Meta(`{"` + protocol.MetaProgressToken + `":` + token.String() + `}`), nil
}
