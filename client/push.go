package client

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/rondo-mcp/rondo/internal/earlycancel"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// errCancelledByServer is the cause with which the context of a handler ends
// when the server withdraws its question.
var errCancelledByServer = errors.New("client: server has withdrawn the question")

// pushes are the requests that a legacy server has sent and that are being
// answered. They go to the same handlers as the questions of modern servers,
// past the same checks.
type pushes struct {
	session *session

	mu      sync.Mutex
	running map[protocol.ID]context.CancelCauseFunc
	early   earlycancel.Set // withdrawals that came before their questions
}

// call answers one request. An error means that no answer is to be sent.
func (p *pushes) call(ctx context.Context, origin Origin, req *protocol.Request) (*protocol.Response, error) {
	if req == nil || req.ID.IsZero() {
		return nil, errors.New("client: request without id")
	}
	if req.Method == protocol.MethodPing {
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(`{}`)}, nil
	}
	refuse := func(e *protocol.Error) (*protocol.Response, error) {
		return &protocol.Response{ID: req.ID, Error: e}, nil
	}
	c := p.session.client
	origin.Key = idText(req.ID)
	t, refusal, err := p.read(origin, req)
	if err != nil {
		c.pushFailed(ctx, err)
	}
	if refusal != nil {
		return refuse(refusal)
	}
	ctx, done, refusal := p.begin(ctx, req.ID)
	if refusal != nil {
		return refuse(refusal)
	}
	defer done()
	var result json.RawMessage
	t.run(ctx, func(r json.RawMessage, e error) { result, err = r, e })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // whatever came of it, nobody wants it
	}
	if err != nil {
		c.pushFailed(ctx, err)
		return refuse(unanswered(err))
	}
	return &protocol.Response{ID: req.ID, Result: result}, nil
}

// idText is an id as a key: the text of a string, the digits of a number.
func idText(id protocol.ID) string {
	if text, err := jsonx.Text([]byte(id.String())); err == nil {
		return text
	}
	return id.String()
}

// unanswered is what a server hears about a question that got no answer. What
// a handler failed with is the business of this side alone, unless it is an
// error of the protocol, which was made to be sent.
func unanswered(err error) *protocol.Error {
	if said, ok := protocol.AsError(err); ok {
		if _, panicked := errors.AsType[*PanicError](err); !panicked {
			return said
		}
	}
	return protocol.Errorf(protocol.CodeInternalError, "internal error: question could not be answered")
}

// pushFailed tells whoever wants to know. A panic there has nobody to go to.
func (c *Client) pushFailed(ctx context.Context, err error) {
	if c.opts.PushFailed == nil {
		return
	}
	defer func() { _ = recover() }()
	c.opts.PushFailed(ctx, err)
}

// read checks a request and binds it to its handler. A refusal is for the
// server, the error beside it for whoever is behind the client.
func (p *pushes) read(origin Origin, req *protocol.Request) (t task, refusal *protocol.Error, err error) {
	c := p.session.client
	version := p.session.version()
	if !c.takes(version, req.Method) {
		return t, protocol.Errorf(protocol.CodeMethodNotFound, "method not found: %.64q", req.Method), nil
	}
	q, err := protocol.DecodeInputRequest(req.Method, req.Params)
	if err != nil {
		return t, protocol.Errorf(protocol.CodeInvalidParams, "invalid params: %v", err), nil
	}
	if u, ok := q.(*protocol.ElicitURL); ok {
		switch {
		case version < protocol.V20251125:
			return t, protocol.Errorf(protocol.CodeInvalidParams, "invalid params: mode: revision %s has no URL mode", version), nil
		case u.ElicitationID == "":
			return t, protocol.Errorf(protocol.CodeInvalidParams, "invalid params: elicitationId: must be present"), nil
		}
	}
	t, err = c.prepare(origin, q)
	if err != nil {
		// Modes that were not declared are invalid parameters, and so is what
		// nobody may be shown (client/elicitation, "Error Handling").
		return t, protocol.Errorf(protocol.CodeInvalidParams, "invalid params: %v", err),
			&QuestionError{Key: origin.Key, Kind: q.Kind(), Err: err}
	}
	return t, nil, nil
}

// takes reports whether a method is one that was declared, in a revision that
// has it. Before the server has chosen a revision it may only ping.
func (c *Client) takes(v protocol.Version, method string) bool {
	switch method {
	case protocol.MethodElicit:
		return c.caps.Elicitation != nil && v >= protocol.V20250618
	case protocol.MethodCreateMessage:
		return c.caps.Sampling != nil && v != ""
	case protocol.MethodListRoots:
		return c.caps.Roots != nil && v != ""
	}
	return false
}

// begin counts a request as running under its id.
func (p *pushes) begin(ctx context.Context, id protocol.ID) (context.Context, func(), *protocol.Error) {
	c := p.session.client
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, taken := p.running[id]; taken {
		return nil, nil, protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: a request with id %s is running", id)
	}
	if p.early.Take(id) {
		// Answered, lest a server wait that uses its ids more than once.
		return nil, nil, protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: it was cancelled before it began")
	}
	if len(p.running) >= c.opts.MaxPushes {
		return nil, nil, protocol.Errorf(protocol.CodeBusy, "too many questions at the same time: at most %d", c.opts.MaxPushes)
	}
	if p.running == nil {
		p.running = map[protocol.ID]context.CancelCauseFunc{}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { cancel(ErrClosed) })
	p.running[id] = cancel
	c.asking.enter()
	return ctx, func() {
		p.mu.Lock()
		delete(p.running, id)
		p.mu.Unlock()
		c.asking.leave()
		stop()
		cancel(nil)
	}, nil
}

// cancelled ends the handler of a question that the server withdraws. Others
// are not touched by what cannot be read.
func (p *pushes) cancelled(params []byte) {
	var said protocol.Cancelled
	if jsonx.Decode(params, &said) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel := p.running[said.RequestID]; cancel != nil {
		cancel(errPrefix.Errorf("%w: %.200q", errCancelledByServer, said.Reason))
	} else {
		p.early.Note(said.RequestID) // it may be waiting for its turn
	}
}
