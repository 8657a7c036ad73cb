package gateway

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/relay"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// A flowState is a call's sealed state between rounds, bound to the caller and the request.
type flowState struct {
	relay.State
	// Questions has a modern upstream's questions of the last round, by the upstream's keys.
	Questions map[string]*elicitation.Relayed `json:"questions,omitempty"`
	Login     *loginState                     `json:"login,omitempty"` // the pending login
}

// callUpstream relays one leg of a client's request. params are for the upstream, without answers.
func (g *Gateway) callUpstream(
	ctx context.Context, u *upstream, call *server.Call, params protocol.Params,
) (protocol.Result, error) {
	state, resumed := roundtrip.State[flowState](ctx)
	if resumed && state.Parked != "" {
		return g.park.Resume(ctx, call, &state.State)
	}
	if state.Login != nil {
		if again, err := g.awaitLogin(ctx, u, call, state); again != nil || err != nil {
			return again, err
		}
		state.Login = nil
	}
	result, err := g.callOnce(ctx, u, call, params, &state)
	if needed, ok := errors.AsType[*loginNeeded](err); ok {
		return g.askLogin(ctx, u, call, state, needed)
	}
	return result, err
}

func (g *Gateway) callOnce(ctx context.Context, u *upstream, call *server.Call,
	params protocol.Params, state *flowState,
) (protocol.Result, error) {
	resumed := state.Asked != nil || state.Peer != nil
	if !resumed && g.park.IsClosed() {
		return nil, quota.Refuse(quota.None, time.Second, "the gateway is shutting down")
	}
	// If the upstream is known to push, a call over the limit opens no connection.
	u.mu.Lock()
	reserved := !resumed && u.legacy
	u.mu.Unlock()
	if reserved {
		if err := g.park.Reserve(call.Principal); err != nil {
			return nil, err
		}
	}
	defer func() {
		if reserved {
			g.park.Release(call.Principal)
		}
	}()
	conn, release, err := g.connect(ctx, u, call)
	if err != nil {
		if said, ok := protocol.AsError(err); !ok || said.Code != protocol.CodeBusy {
			g.noteFailedCall(ctx, u, err, err) // reaching a limit is not a failure
		}
		return nil, err
	}
	if conn.modern() {
		defer release(true)
		return g.relayLeg(ctx, u, conn, call, params, state)
	}
	if resumed { // the upstream was modern when the call began
		release(true)
		return nil, relay.ErrForeignLeg()
	}
	if !reserved {
		if err := g.park.Reserve(call.Principal); err != nil {
			release(true)
			return nil, err
		}
	}
	reserved = false // the parked call has the slot
	return g.parkCall(ctx, u, conn, release, call, params)
}

// relayLeg sends one leg to a modern upstream, with its own state and the answers.
func (g *Gateway) relayLeg(ctx context.Context, u *upstream, conn *connection, call *server.Call,
	params protocol.Params, state *flowState,
) (protocol.Result, error) {
	retry, err := state.Retry(ctx)
	if err != nil {
		return nil, err
	}
	request := requestFrom(ctx)
	err = request.completeQuestions(call, conn, state.Questions, retry.InputResponses)
	if err != nil {
		return nil, err
	}
	state.Questions = nil // a login may come between, and keeps this state
	*protocol.RetryOf(params) = retry
	upstream, done := g.detach(ctx)
	defer done()
	upstream = context.WithValue(upstream, callKey{}, call) // for logs
	caller := func() *server.Call { return call }
	result, pending, err := conn.client.Begin(
		withProgress(upstream, wantsProgress(call), caller), params)
	page := waiting.PageOf(ctx)
	page.Acted = page.Acted || !isA[*loginNeeded](err)
	if err != nil {
		shown := u.explainLack(call, u.explainCall(err))
		g.noteFailedCall(ctx, u, err, shown)
		return nil, shown
	}
	if pending == nil {
		return u.publishResult(result), nil
	}
	return u.askClient(request, conn, call, pending, roundtrip.RoundOf(ctx).Number)
}

func (u *upstream) askClient(request *request, conn *connection, call *server.Call,
	pending *client.Pending, round int,
) (protocol.Result, error) {
	// A modern upstream may reuse a key in a later round; the gateway's keys are new in each.
	questions, state := relay.NoteReturned(pending.Questions(), pending.State(),
		func(number int, _ string) string {
			return "round-" + strconv.Itoa(round) + "-question-" + strconv.Itoa(number)
		})
	next := flowState{State: state, Questions: map[string]*elicitation.Relayed{}}
	for i, q := range questions {
		if q.Request.Kind().Method() != protocol.MethodElicit {
			continue
		}
		opened, err := request.openQuestion(call, conn, q.Key, q.Request)
		if err != nil {
			return nil, u.refuseReturned(request.ctx, call, q.Request, err)
		}
		next.Questions[state.Asked[i].Peer] = opened
	}
	return relay.Ask(questions, next), nil
}

type askedUndeclared struct {
	refused *elicitation.Error
	needs   protocol.ClientCapabilities
}

func (e askedUndeclared) MissingCapabilities() protocol.ClientCapabilities { return e.needs }

func (e askedUndeclared) Error() string { return e.refused.Error() }

// refuseReturned returns why the client is not asked a question that a modern upstream returned.
// Only the client gets the error: the upstream keeps no state of the call.
func (u *upstream) refuseReturned(
	ctx context.Context, call *server.Call, q protocol.InputRequest, err error,
) error {
	shown := err
	refused, ok := errors.AsType[*elicitation.Error](err)
	if ok && errors.Is(refused, elicitation.ReasonCapability) {
		var none protocol.ClientCapabilities
		err = askedUndeclared{refused, none.Missing(q)}
		shown = u.explainLack(call, err)
	}
	u.gateway.noteFailedCall(ctx, u, err, shown)
	return shown
}

// parkCall calls a legacy upstream once, in the caller's slot, and waits for the first outcome.
func (g *Gateway) parkCall(ctx context.Context, u *upstream, conn *connection,
	release func(reuse bool), call *server.Call, params protocol.Params,
) (protocol.Result, error) {
	g.metrics.parked.Add(1)
	// Do not retain the first leg's call and its HTTP request.
	wanted := wantsProgress(call)
	var life context.Context
	request := requestFrom(ctx)
	session, info, ended := request.session, clientOf(call), request.ctx.Done()
	if g.page { // another session of the user may go on
		session = nil
	}
	// The context of run has only the span of the client's request.
	run := func(ctx context.Context, parked *relay.Parked) (result protocol.Result, err error) {
		life = ctx
		_, end, err := g.begin(ctx, session, info, conn,
			&asker{gateway: g, parked: parked, ended: ended})
		if err != nil {
			return nil, err
		}
		defer end()
		conn.parked.Store(parked)
		defer conn.parked.Store(nil)
		defer g.recoverPanic(&err)
		return conn.call(withProgress(ctx, wanted, parked.WaitingCaller), params)
	}
	return g.park.Run(ctx, g.carrySpan(ctx), call, run,
		func(result protocol.Result, err error) (protocol.Result, error) {
			// Questions of a cancelled call may still come on its connection.
			broken := isBroken(err)
			release(life.Err() == nil && !broken)
			if life.Err() == nil && broken {
				u.dropIdle()
			}
			g.metrics.parked.Add(-1)
			if err != nil {
				shown := u.explainCall(err)
				g.noteFailedCall(life, u, err, shown)
				return nil, shown
			}
			return u.publishResult(result), nil
		})
}

// call calls a legacy upstream, in a new session if the last one is over.
func (c *connection) call(ctx context.Context, params protocol.Params) (protocol.Result, error) {
	if _, err := c.client.Negotiate(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", protocol.ErrNotRun, err)
	}
	switch p := params.(type) {
	case *protocol.CallToolParams:
		return resultOf(c.client.CallToolParams(ctx, p))
	case *protocol.GetPromptParams:
		return resultOf(c.client.GetPromptParams(ctx, p))
	case *protocol.ReadResourceParams:
		return resultOf(c.client.ReadResourceParams(ctx, p))
	}
	return nil, fmt.Errorf("gateway: unexpected parameters %T", params)
}

var errPanicked = errors.New("gateway: panic")

func (g *Gateway) recoverPanic(err *error) {
	if v := recover(); v != nil {
		failure, stack := fmt.Errorf("%w: %v", errPanicked, v), string(debug.Stack())
		*err = failure
		g.log(event.LevelError, "gateway.panic", func(out event.Encoder) {
			out.AddString("error", failure.Error())
			out.AddString("stack", stack)
		})
	}
}

// resultOf avoids a typed nil in the interface.
func resultOf[R protocol.Result](result R, err error) (protocol.Result, error) {
	if err != nil {
		return nil, err
	}
	return result, nil
}

// watchRequests counts requests, chooses catalogs, and ends parked calls that cannot resume.
func (g *Gateway) watchRequests(next server.Handler) server.Handler {
	return func(ctx context.Context, req *server.Request) (protocol.Result, error) {
		views := g.chooseCatalogs(ctx, req)
		switch p := req.Params.(type) {
		case *protocol.SubscribeParams:
			return g.watchSession(ctx, req, p.URI, views, next)
		case *protocol.ListenParams:
			return g.watchListener(ctx, req, *p, views, next)
		}
		if !protocol.MultiRoundTrip(req.Message.Method) {
			return next(ctx, req)
		}
		g.requests.Add(1)
		defer g.requests.Add(-1)
		r := &request{gateway: g, session: req.Session()}
		var result protocol.Result
		err := errPanicked // unless it ends otherwise
		defer func() {
			r.endQuestions(req, result, err)
			if r.session != nil {
				g.lastEnded.Store(time.Now().UnixNano())
			}
		}()
		result, err = g.park.WatchRequest(r.withQuestions(ctx), req,
			func(ctx context.Context, req *server.Request) (protocol.Result, error) {
				defer func() { r.kept = !waiting.PageOf(ctx).Kept.IsZero() }()
				return next(ctx, req)
			})
		return result, err
	}
}

func wantsProgress(call *server.Call) bool { return !call.Meta.ProgressToken.IsZero() }

// withProgress returns a context whose calls report progress to the waiting request, if wanted.
func withProgress(ctx context.Context, wanted bool, caller func() *server.Call) context.Context {
	if !wanted {
		return client.WithProgress(ctx, nil)
	}
	return client.WithProgress(ctx, func(ctx context.Context, p *protocol.Progress) {
		if call := caller(); call != nil {
			var total float64
			if p.Total != nil {
				total = *p.Total
			}
			_ = call.Progress(ctx, p.Progress, total, p.Message) // fails if the request is gone
		}
	})
}

// explain returns an upstream's error for the client: its own unchanged, any other as a sentence.
func (u *upstream) explain(err error) error {
	if isMalformed(err) {
		return &upstreamError{u.config.Name, "sent a response that cannot be read", err}
	}
	if said, ok := protocol.AsError(err); ok {
		return said
	}
	if question, ok := errors.AsType[*client.QuestionError](err); ok {
		return &upstreamError{u.config.Name, "asks something that may not be passed on", question}
	}
	if isA[*loginNeeded](err) {
		return &upstreamError{u.config.Name, "wants you to log in there: call one of its tools", err}
	}
	if isA[*unhandled](err) {
		return &upstreamError{u.config.Name, "refuses the credentials of this caller", err}
	}
	return &upstreamError{u.config.Name, "cannot be reached", err}
}

// explainCall is explain for a call that was sent and may have had effects.
func (u *upstream) explainCall(err error) error {
	explained, ok := u.explain(err).(*upstreamError)
	malformed, unreachable := isMalformed(err), ok && explained.what == "cannot be reached"
	switch {
	case errors.Is(err, protocol.ErrNotRun) && (!ok || malformed || unreachable):
		unrun := &upstreamError{u.config.Name, "has lost its session, or is down. Nothing ran", err}
		if !ok { // else the client would get the refusal of a new session
			unrun.cause = protocol.ErrSessionGone
		}
		return unrun
	case malformed:
		explained.what += ". " + waiting.UnknownEffect
		return explained
	case !unreachable:
		return u.explain(err)
	}
	explained.what = "did not answer. " + waiting.UnknownEffect
	if relay.IsAbandoned(err) || errors.Is(err, errClosed) {
		explained.what = "timed out or was cancelled. " + waiting.UnknownEffect
	}
	return explained
}

// explainLack returns the error for missing capabilities, except those the gateway refuses.
func (u *upstream) explainLack(call *server.Call, err error) error {
	lack, asks := errors.AsType[undeclared](err)
	said, _ := protocol.AsError(err)
	needed, needs := said.RequiredCapabilities()
	switch {
	case asks:
		needed = lack.MissingCapabilities()
	case !needs:
		return err
	}
	missing := call.Capabilities().Lacks(needed)
	switch kept := u.capabilities(needed).declare().Lacks(needed); {
	case !kept.IsZero():
		return &upstreamError{u.config.Name,
			fmt.Sprintf("needs %s, which this gateway does not let it use", kept), nil}
	case missing.IsZero():
		return err
	case call.Version.Era() == protocol.Legacy: // legacy revisions have no code for it
		return protocol.Errorf(protocol.CodeCannotAsk,
			"the client does not support: %s; use a client that does", missing)
	}
	return protocol.MissingCapabilities(missing)
}

// An upstreamError tells the client which upstream failed; the cause is for the log.
type upstreamError struct {
	upstream, what string
	cause          error
}

func (e *upstreamError) Error() string { return "The upstream server " + e.upstream + " " + e.what }
func (e *upstreamError) Unwrap() error { return e.cause }
