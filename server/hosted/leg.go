package hosted

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/relay"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// A leg is one run of a handler of the hosted server. In revision 2026-07-28 it runs in each round,
// and the funnel answers its questions or defers them to the next round.
type leg struct {
	ctx      context.Context // context of the front's handler
	session  *session
	call     *server.Call  // nil if parked
	extra    protocol.Meta // of the request's _meta
	token    protocol.ID   // progress token; zero: no progress is wanted
	optional bool
	lenient  bool                        // unsolicited answers are passed on
	parked   *relay.Parked               // the handler runs once; nil: in each round
	askable  protocol.ClientCapabilities // capabilities of a parked handler's client
	asked    atomic.Bool
	over     atomic.Bool
	open     openQuestions
}

// An openQuestions tracks unanswered questions. A handler's result is withheld while any are open.
type openQuestions struct {
	mu    sync.Mutex
	count int
	why   error // why the last one failed
}

func (o *openQuestions) add(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count += n
}

func (o *openQuestions) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.why = err
}

// check returns an error if any question is open.
func (o *openQuestions) check() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.count == 0:
		return nil
	case o.why == nil:
		return errNotWaited
	}
	return fmt.Errorf("a question of this call has no answer: %v", o.why)
}

var errNotWaited = errors.New("the handler did not wait for the answer to its question")

func newLeg(ctx context.Context, s *session, call *server.Call) *leg {
	l := &leg{ctx: ctx, session: s, call: call, extra: call.Meta.Extra}
	if !call.Meta.ProgressToken.IsZero() {
		l.token = protocol.StringID(rand.Text())
	}
	return l
}

func (l *leg) run(method string, params protocol.Params) (protocol.Result, error) {
	defer l.over.Store(true)
	params, err := l.paramsOf(params)
	if err != nil {
		return nil, err
	}
	l.session.addLeg(l)
	defer l.session.removeLeg(l)
	response, err := l.session.handle(l.ctx, method, params, l)
	switch {
	case err != nil:
		return nil, explainFailure(err)
	case response.Error != nil:
		if no := l.refusalIn(response.Error.Message); no != nil {
			return nil, no
		}
		return nil, explainError(method, params, response.Error)
	}
	result, err := protocol.RelayResult(protocol.Latest, method, response.Result, nil)
	if err != nil {
		return nil, fmt.Errorf("hosted: the server sent a result that cannot be read: %w", err)
	}
	if asks, ok := result.(*protocol.InputRequiredResult); ok {
		return askReturned(asks), nil
	}
	if r, ok := result.(*protocol.CallToolResult); ok && r.IsError && len(r.Content) == 1 {
		if text, ok := r.Content[0].(*protocol.TextContent); ok {
			if no := l.refusalIn(text.Text); no != nil {
				return nil, no
			}
		}
	}
	if r, ok := result.(*protocol.CallToolResult); !ok || !r.IsError {
		if err := l.open.check(); err != nil && !l.optional {
			return nil, err
		}
	}
	l.finish(result)
	return result, nil
}

type passedOn struct {
	text string
	error
}

func (e passedOn) Error() string { return e.text }
func (e passedOn) Unwrap() error { return e.error }

// refusalIn returns the refusal in a text of a handler, or nil. The funnel then explains it.
func (l *leg) refusalIn(text string) error {
	no := roundtrip.RoundOf(l.ctx).RefusalIn(text)
	if no == nil {
		return nil
	}
	return passedOn{text, no}
}

// finish drops the hosted server's name, and the cache hints if a resource depends on answers.
func (l *leg) finish(result protocol.Result) {
	switch r := result.(type) {
	case *protocol.CallToolResult:
		r.Meta = r.Meta.Without(protocol.MetaServerInfo)
	case *protocol.GetPromptResult:
		r.Meta = r.Meta.Without(protocol.MetaServerInfo)
	case *protocol.ReadResourceResult:
		r.Meta = r.Meta.Without(protocol.MetaServerInfo)
		if l.asked.Load() || roundtrip.RoundOf(l.ctx).Number > 1 {
			r.Cache = protocol.CacheHints{}
		}
	}
}

// runRecovering is called on separate goroutines, where a panic must not end the process.
func (l *leg) runRecovering(method string, params protocol.Params) (
	result protocol.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			l.session.host.reportPanic(l.ctx, method, v)
			err = protocol.Errorf(protocol.CodeInternalError, "internal error")
		}
	}()
	return l.run(method, params)
}

// paramsOf returns the parameters for the hosted server.
func (l *leg) paramsOf(params protocol.Params) (own protocol.Params, err error) {
	switch p := params.(type) {
	case *protocol.CallToolParams:
		own = new(*p)
	case *protocol.GetPromptParams:
		own = new(*p)
	case *protocol.ReadResourceParams:
		own = new(*p)
	case *protocol.ListParams:
		own = new(*p)
	case *protocol.CompleteParams:
		own = new(*p)
	default:
		return nil, fmt.Errorf("hosted: %T cannot be passed on", params)
	}
	*own.RequestMetadata() = protocol.RequestMeta{ProgressToken: l.token, Extra: l.extra}
	if retry := protocol.RetryOf(own); retry != nil {
		*retry, err = l.retryOf(*retry)
	}
	return own, err
}

func explainFailure(err error) error {
	if errors.Is(err, protocol.ErrSessionGone) {
		return protocol.Errorf(protocol.CodeInternalError,
			"The server has closed the session of this call. What the call did is not known: "+
				"check before calling again")
	}
	return err
}

// explainError converts an error of the hosted server's session for all revisions.
func explainError(method string, params protocol.Params, e *protocol.Error) error {
	if visits, ok := e.URLElicitations(); ok {
		return &protocol.URLElicitationRequiredError{Message: e.Message, Elicitations: visits}
	}
	if p, ok := params.(*protocol.ReadResourceParams); ok &&
		method == protocol.MethodReadResource && e.Code == protocol.CodeResourceNotFound {
		missing := protocol.ResourceNotFound(p.URI)
		missing.Message = e.Message
		return missing
	}
	return e
}

var errOver = errors.New("hosted: the call has ended")

// Call implements [protocol.BackCaller]: it answers a question of the handler.
func (l *leg) Call(ctx context.Context, req *protocol.Request) (*protocol.Response, error) {
	if req.Method == protocol.MethodPing {
		return answerPing(req), nil
	}
	if l.over.Load() {
		return nil, errOver
	}
	l.open.add(1)
	question, err := protocol.DecodeInputRequest(req.Method, req.Params)
	if err != nil {
		l.open.fail(err)
		return &protocol.Response{ID: req.ID,
			Error: protocol.Errorf(protocol.CodeInvalidParams, "invalid params: %v", err)}, nil
	}
	ask := l.askInRound
	if l.parked != nil {
		ask = l.askParked
	}
	answer, err := ask(ctx, question)
	if err != nil {
		l.open.fail(err)
		return nil, err
	}
	l.open.add(-1)
	return &protocol.Response{ID: req.ID, Result: answer}, nil
}

// askInRound lets the funnel answer a question or defer it to the next round.
func (l *leg) askInRound(ctx context.Context, q protocol.InputRequest) (json.RawMessage, error) {
	var opts []roundtrip.QuestionOption
	if l.optional {
		opts = append(opts, roundtrip.IfPossible())
	}
	l.asked.Store(true)
	return roundtrip.AskUnkeyed(roundtrip.WithRoundOf(ctx, l.ctx), q, opts...)
}

// CloseStream closes the client's connection as [server.Call.CloseStream] does, for SDKs that can.
func (l *leg) CloseStream(ctx context.Context, retry time.Duration) error {
	if call := l.waitingCall(); call != nil {
		return call.CloseStream(ctx, retry)
	}
	return server.ErrCannotClose
}

// Notify implements [protocol.BackCaller]: it forwards notifications of the handler.
func (l *leg) Notify(ctx context.Context, n *protocol.Notification) error {
	switch n.Method {
	case protocol.NotifyToolsChanged, protocol.NotifyPromptsChanged,
		protocol.NotifyResourcesChanged, protocol.NotifyResourceUpdated,
		protocol.NotifyElicitationCompleted: // unrelated to requests
		return sessionBack{l.session}.Notify(context.WithoutCancel(ctx), n)
	}
	call := l.waitingCall()
	if l.over.Load() || call == nil {
		return errOver
	}
	switch n.Method {
	case protocol.NotifyProgress:
		var p protocol.Progress
		if err := jsonx.Decode(n.Params, &p); err != nil {
			return err
		}
		if p.Token != l.token {
			return nil
		}
		total := 0.0
		if p.Total != nil {
			total = *p.Total
		}
		// Progress that does not increase is dropped, as the specification requires.
		_ = call.Progress(ctx, p.Progress, total, p.Message)
		return nil
	case protocol.NotifyMessage:
		var m protocol.LogMessage
		if err := jsonx.Decode(n.Params, &m); err != nil {
			return err
		}
		return call.Log(ctx, m.Level, m.Logger, m.Data)
	}
	return call.Notify(ctx, n)
}
