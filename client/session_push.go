package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// errQuestionWithdrawn is the cause with which a handler's context ends.
var errQuestionWithdrawn = errors.New("client: server has withdrawn the question")

// A pushHandler answers the requests that a legacy server pushes while a call runs.
type pushHandler struct {
	session *session

	// mu orders addPush and cancelPush, so that no withdrawal is lost between the two.
	mu      sync.Mutex
	running inflight.Set[protocol.ID]
	early   inflight.EarlyCancels // withdrawals that arrived before their questions
}

// answerPush answers one request of the server. If it returns an error, no response is sent.
func (p *pushHandler) answerPush(ctx context.Context, origin QuestionOrigin,
	req *protocol.Request) (*protocol.Response, error) {
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
	t, refusal, err := p.preparePush(origin, req)
	if err != nil {
		c.opts.warn(ctx, err)
	}
	if refusal != nil {
		return refuse(refusal)
	}
	ctx, done, refusal := p.beginPush(ctx, req.ID)
	if refusal != nil {
		return refuse(refusal)
	}
	defer done()
	var result json.RawMessage
	t.runHandler(ctx, func(r json.RawMessage, e error) { result, err = r, e })
	if ctx.Err() != nil {
		// The question was withdrawn, or the client or the connection is closing.
		return nil, context.Cause(ctx)
	}
	if err != nil {
		c.opts.warn(ctx, err)
		return refuse(errorForServer(err))
	}
	return &protocol.Response{ID: req.ID, Result: result}, nil
}

// idText returns an id as a question key: a string's text, or a number's digits.
func idText(id protocol.ID) string {
	if text, err := jsonx.Text([]byte(id.String())); err == nil {
		return text
	}
	return id.String()
}

// errorForServer returns the error for an unanswered question. It passes on protocol errors only.
func errorForServer(err error) *protocol.Error {
	if said, ok := protocol.AsError(err); ok {
		if _, panicked := errors.AsType[*PanicError](err); !panicked {
			return said
		}
	}
	return protocol.Errorf(protocol.CodeInternalError,
		"internal error: question could not be answered")
}

// preparePush checks a request and binds it to its handler. A refusal goes to the server. err goes
// to Options.Warn, and is nil for malformed or undeclared requests.
func (p *pushHandler) preparePush(origin QuestionOrigin,
	req *protocol.Request) (t questionTask, refusal *protocol.Error, err error) {
	c := p.session.client
	relay := c.opts.RelayElicit
	if relay != nil && req.Method == protocol.MethodElicit &&
		p.session.agreedVersion() >= protocol.V20250618 {
		params := bytes.Clone(req.Params) // the message may alias a buffer
		return questionTask{origin, protocol.KindElicitForm,
			func(ctx context.Context) (json.RawMessage, error) {
				result, err := relay(ctx, params)
				if err != nil {
					return nil, err
				}
				return result.MarshalJSON()
			}}, nil, nil
	}
	version := p.session.agreedVersion()
	if !c.questions.declaresMethod(version, req.Method) {
		return t, protocol.Errorf(protocol.CodeMethodNotFound, "method not found: %.64q",
			req.Method), nil
	}
	q, err := protocol.DecodeInputRequest(req.Method, req.Params)
	if err != nil {
		return t, protocol.Errorf(protocol.CodeInvalidParams, "invalid params: %v", err), nil
	}
	if u, ok := q.(*protocol.ElicitURL); ok {
		switch {
		case version < protocol.V20251125:
			return t, protocol.Errorf(
				protocol.CodeInvalidParams, "invalid params: mode: revision %s has no URL mode",
				version,
			), nil
		case u.ElicitationID == "":
			return t, protocol.Errorf(protocol.CodeInvalidParams,
				"invalid params: elicitationId: must be present"), nil
		}
	}
	t, err = c.questions.prepareQuestion(origin, q)
	if err != nil {
		// Undeclared modes and forbidden questions (client/elicitation, "Error Handling").
		return t, protocol.Errorf(protocol.CodeInvalidParams, "invalid params: %v", err),
			&QuestionError{Key: origin.Key, Kind: q.Kind(), Err: err}
	}
	return t, nil, nil
}

// declaresMethod reports whether the client declared the capability for a method of v (or "").
func (h *questionHandlers) declaresMethod(v protocol.Version, method string) bool {
	switch method {
	case protocol.MethodElicit:
		return h.caps.Elicitation != nil && v >= protocol.V20250618
	case protocol.MethodCreateMessage:
		return h.caps.Sampling != nil && v != ""
	case protocol.MethodListRoots:
		return h.caps.Roots != nil && v != ""
	}
	return false
}

// beginPush counts a request as running. Call the returned function after the answer.
func (p *pushHandler) beginPush(ctx context.Context,
	id protocol.ID) (context.Context, func(), *protocol.Error) {
	c := p.session.client
	push := &inflight.Request{}
	ctx = push.Start(ctx, nil)
	if refusal := p.addPush(id, push); refusal != nil {
		push.Cancel(nil)
		return nil, nil, refusal
	}
	stop := context.AfterFunc(c.life, func() { push.Cancel(ErrClosed) })
	c.humanClock.Begin()
	return ctx, func() {
		p.running.End(id.Value(), push)
		c.humanClock.End()
		stop()
		push.Cancel(nil)
	}, nil
}

func (p *pushHandler) addPush(id protocol.ID, push *inflight.Request) *protocol.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running.Begin(id.Value(), push) != nil { // the id is in use
		return protocol.Errorf(protocol.CodeInvalidRequest,
			"invalid request: a request with id %s is running", id)
	}
	if p.early.Take(id.Value()) {
		p.running.End(id.Value(), push)
		// The server gets a response, in case it reuses ids and waits for one.
		return protocol.Errorf(protocol.CodeInvalidRequest,
			"invalid request: it was cancelled before it began")
	}
	if p.running.Len() > maxQuestions {
		p.running.End(id.Value(), push)
		return protocol.Errorf(protocol.CodeBusy, "too many questions at the same time: at most %d",
			maxQuestions)
	}
	return nil
}

func (p *pushHandler) cancelPush(params []byte) {
	var said protocol.Cancelled
	if jsonx.Decode(params, &said) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	why := errPrefix.Errorf("%w: %.200q", errQuestionWithdrawn, said.Reason)
	if !p.running.Cancel(said.RequestID, why) {
		p.early.Note(said.RequestID) // the question may still arrive
	}
}
