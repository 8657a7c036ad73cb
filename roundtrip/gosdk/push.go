//lint:file-ignore SA1019 sampling, roots and logging are deprecated, but supported

package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// pusher pushes the funnel's questions to a legacy client, over its session.
type pusher struct{ call *call }

// pushedQuestion is carried by the context of a question that the funnel pushes, to the
// sending middleware.
type pushedQuestion struct {
	session *mcp.ServerSession
	params  mcp.Params
}

type pushedQuestionKey struct{}

// Push sends the question in the funnel's encoding. The SDK's methods validate answers
// against the schema, and fail where one is not valid; the funnel validates itself, and
// asks again. Push therefore calls them with a question that has no schema, and the
// sending middleware puts the real one in its place.
func (p pusher) Push(ctx context.Context, q protocol.InputRequest,
	extend, _ func()) (json.RawMessage, error) {
	asked, err := encodeQuestion(p.call.Version, q)
	if err != nil {
		return nil, err
	}
	p.call.askedByPush.Store(true)
	token := uuid.NewString()
	p.call.adapter.extendByToken.Store(token, extend)
	defer p.call.adapter.extendByToken.Delete(token)
	params, ok := asked.(interface {
		mcp.Params
		SetProgressToken(any)
	})
	if !ok {
		return nil, fmt.Errorf("push: the question is a %T", asked)
	}
	params.SetProgressToken(token)
	session := p.call.session
	if p.call.sdkSaysModern { // it refuses to push
		if session, err = p.call.adapter.connectShadow(&handlerRun{call: p.call, ctx: ctx},
			p.call.Version); err != nil {
			return nil, err
		}
		defer p.call.adapter.closeShadow(session)
	}
	ctx = context.WithValue(p.call.sendingContext(ctx), pushedQuestionKey{},
		&pushedQuestion{p.call.session, params})
	var result any
	switch asked := asked.(type) {
	case *mcp.ElicitParams:
		result, err = session.Elicit(ctx,
			&mcp.ElicitParams{Mode: asked.Mode, Message: asked.Message})
	case *mcp.CreateMessageWithToolsParams:
		result, err = session.CreateMessageWithTools(ctx, asked)
	case *mcp.ListRootsParams:
		result, err = session.ListRoots(ctx, asked)
	}
	if err != nil {
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code != 0 {
			return nil, &protocol.Error{Code: e.Code, Message: e.Message, Data: e.Data}
		}
		return nil, err
	}
	return json.Marshal(result)
}

// CompleteVisit implements [roundtrip.VisitCompleter].
func (p pusher) CompleteVisit(ctx context.Context, elicitationID string) error {
	return p.call.session.NotifyElicitationComplete(p.call.sendingContext(ctx),
		&mcp.ElicitationCompleteParams{ElicitationID: elicitationID})
}

// extendQuestion extends the time for the answer to a pushed question, on whose token the
// client reports progress.
func (a *Adapter) extendQuestion(req mcp.Request) {
	params, ok := req.GetParams().(*mcp.ProgressNotificationParams)
	if !ok || params == nil {
		return
	}
	if token, ok := params.ProgressToken.(string); ok {
		if extend, ok := a.extendByToken.Load(token); ok {
			extend.(func())()
		}
	}
}

// sendToClient is the sending middleware. Messages of sessions pass it unless they are
//
//   - progress on the token of a call, which goes through its reports;
//   - what a handler sends over a shadow session, which the client's session forwards;
//   - questions of the funnel, whose parameters it replaces;
//   - questions of the SDK's bridge, which it stops;
//   - questions that a handler pushes itself: over a shadow session they are asked in
//     the round; over the client's they are checked, and the call waits.
func (a *Adapter) sendToClient(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		session, ok := req.GetSession().(*mcp.ServerSession)
		if !ok {
			return next(ctx, method, req)
		}
		if r, params := a.findReports(ctx, method, req, session); r != nil {
			return r.sendReport(params, func(params mcp.Params) (mcp.Result, error) {
				return next(ctx, method, &mcp.ServerRequest[mcp.Params]{Session: r.session,
					Params: params})
			})
		}
		behind, shadow := a.shadows.Load(session)
		if !isQuestionMethod(method) {
			if shadow {
				return behind.(*handlerRun).forwardMessage(ctx, method, req, next)
			}
			return next(ctx, method, req)
		}
		if p, ok := ctx.Value(pushedQuestionKey{}).(*pushedQuestion); ok {
			return next(ctx, method, &mcp.ServerRequest[mcp.Params]{Session: p.session,
				Params: p.params})
		}
		if run := runFrom(ctx); run != nil && calledByBridge() {
			run.recordBridge()
			return nil, errBridgeStopped
		}
		if shadow {
			return behind.(*handlerRun).answerPush(ctx, method, req.GetParams())
		}
		if refusal := refuseURL(a.opts.AllowURL, req.GetParams()); refusal != nil {
			a.reportEvent(ctx, event.ServerBug{Err: refusal})
			a.reportFailedPush(ctx, req.GetParams(), refusal)
			return nil, encodeError(refusal.Wire())
		}
		send := next
		if run := runFrom(ctx); run != nil && a.funnel != nil { // nil in the self-test
			if text := run.call.unreachableText(); text != "" {
				err := errors.New(text)
				a.reportFailedPush(ctx, req.GetParams(), err)
				return nil, err
			}
			ctx, send = run.call.sendingContext(ctx), run.waitWhileSending(next)
		}
		result, err := send(ctx, method, req)
		if err == nil {
			return result, nil
		}
		a.reportFailedPush(ctx, req.GetParams(), err)
		if e, ok := errors.AsType[*protocol.Error](err); ok { // from the funnel
			err = encodeError(e)
		}
		return nil, err
	}
}

// waitWhileSending wraps next for a question that a handler pushes to its legacy client
// with the SDK's own methods. While it is open the call waits, with the limits and events
// of every wait.
func (run *handlerRun) waitWhileSending(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result,
		err error) {
		run.call.askedByPush.Store(true)
		err = run.call.adapter.funnel.WaitWhile(ctx, run.call.Call,
			func(ctx context.Context) (err error) {
				result, err = next(ctx, method, req)
				return err
			})
		return result, err
	}
}

// isQuestionMethod reports whether requests of the method ask the client.
func isQuestionMethod(method string) bool {
	return method == protocol.MethodElicit || method == protocol.MethodCreateMessage ||
		method == protocol.MethodListRoots
}
