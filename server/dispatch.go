package server

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Handle serves an in-process request of the principal of ctx (see [WithPrincipal]). Cancelling ctx
// abandons it: the error is the cause. Errors of the server are in the response.
func (s *Server) Handle(ctx context.Context, req *protocol.Request,
	back protocol.Back) (*protocol.Response, error) {
	var malformed *protocol.Error
	if req != nil && req.Params != nil {
		// Transports have checked whole messages; in-process requests are unchecked.
		if err := jsonx.Check(req.Params); err != nil {
			malformed = protocol.Errorf(protocol.CodeParseError, "parse error: %v", err)
		} else if jsonx.KindOf(req.Params) != jsonx.Object {
			malformed = protocol.Errorf(protocol.CodeInvalidRequest,
				"invalid request: params must be an object")
		}
	}
	if malformed != nil {
		req = &protocol.Request{ID: req.ID, Method: req.Method}
	}
	ctx = waiting.WithoutWire(ctx)
	d := Delivery{Principal: principalFrom(ctx), Back: back}
	d.Access = s.accessFrom(ctx, d.Principal)
	admitted := s.admitRequest(req, &d, malformed)
	admitted.request.inTask = rpc.IsTaskRun(ctx)
	response := s.Serve(ctx, admitted)
	if ctx.Err() != nil && !admitted.request.inTask { // a task's run may have completed
		return nil, fmt.Errorf("server: the request was abandoned: %w", context.Cause(ctx))
	}
	return response, nil
}

func targetOf(p protocol.Params) string {
	switch p := p.(type) {
	case *protocol.CallToolParams:
		return p.Name
	case *protocol.GetPromptParams:
		return p.Name
	case *protocol.ReadResourceParams:
		return p.URI
	case *protocol.TaskParams:
		return p.TaskID
	}
	return ""
}

// Serve runs an admitted request through the middleware and returns the response, never nil, with
// the id of the request. Panics of handlers, observers and hooks become internal errors; see
// [Delivery].Panicked. Serve panics if this server did not admit the request or already served it.
func (s *Server) Serve(ctx context.Context, a *Admission) (response *protocol.Response) {
	request := &a.request
	if request.server != s || a.served {
		panic("server: Serve needs a request that this server has admitted and not served yet")
	}
	a.served = true
	if request.RequestID == "" && s.opts.observed {
		request.RequestID = rpc.NewRequestID()
	}
	response = &a.response
	response.ID = request.Message.ID
	ctx = a.task.Start(ctx, nil)
	if s.requests.Begin(&a.task, &a.task) != nil {
		a.task.Cancel(nil)
		s.refuseClosing(ctx, response)
		return response
	}
	defer s.endRequest(a)
	a.channel.back = request.back
	request.channel = &a.channel
	request.era.beginRequest(a)
	defer request.era.endRequest(a, request.Message.ID)
	defer s.recoverToResponse(ctx, a)
	result, err := s.runHandler(ctx, request)
	s.completeResponse(ctx, request, response, result, err)
	return response
}

func (s *Server) endRequest(a *Admission) {
	a.task.Cancel(nil)
	s.requests.End(&a.task, &a.task)
}

// refuseClosing refuses a request after Close or Shutdown.
//
//go:noinline
func (s *Server) refuseClosing(ctx context.Context, response *protocol.Response) {
	response.Error = s.refuseAndReport(ctx, "", words.RefusedClosing, response.ID,
		waiting.RefuseClosing())
}

// completeResponse encodes the result or the error into the response and closes the request's
// channel. Not inlined: Serve's frame, which lies under waiting calls, would grow by 400 bytes.
//
//go:noinline
func (s *Server) completeResponse(ctx context.Context, request *Request,
	response *protocol.Response, result protocol.Result, err error) {
	request.pusher.withdrawRemaining()
	request.channel.closeChannel()
	if request.droppedMeta {
		s.opts.Observer.Observe(ctx, event.QuotaExceeded{
			Where: request.eventWhere(), Resource: "meta", Limit: "request"})
	}
	if err == nil {
		response.Result, err = s.encodeResult(request, result)
		if err != nil {
			err = s.reportBug(ctx, request, err)
		}
	}
	if err != nil {
		err = request.spellLack(err) // an error of middleware
		response.Result, response.Error = nil, s.publicError(ctx, request, err)
	}
	request.era.revertFailedOpen(request, err)
	response.Error = request.era.spellError(ctx, request, response.Error)
	if request.onWritten != nil {
		if _, says := request.back.(interface{ OnWritten(f func()) }); !says {
			request.onWritten()
		}
	}
}

// runHandler calls middleware and handler, and recovers their panics.
func (s *Server) runHandler(ctx context.Context, request *Request) (result protocol.Result,
	err error) {
	request.pusher = request.era.newPusher(request)
	if p, ok := request.Params.(*protocol.CallToolParams); ok {
		request.checkedArguments = p.Arguments
	}
	if request.Message.Repaired {
		s.reportRepair(ctx, request)
	}
	defer func() {
		if v := recover(); v != nil {
			s.opts.Observer.Observe(ctx,
				event.HandlerPanicked{Where: request.eventWhere(), Value: v, Stack: debug.Stack()})
			result, err = nil, rules.InternalError()
		}
	}()
	return s.handler(ctx, request)
}

func (s *Server) dispatchRequest(ctx context.Context, request *Request) (protocol.Result, error) {
	if request.refusal != nil {
		return nil, request.refusal
	}
	if result, err, ok := request.era.answerOwnMethod(ctx, request); ok {
		return result, err
	}
	if m := s.extensionMethod(request.Message.Method); m != nil {
		return s.callExtension(ctx, request, m)
	}
	switch p := request.Params.(type) {
	case *protocol.CallToolParams:
		return s.callTool(ctx, request, p)
	case *protocol.GetPromptParams:
		return s.getPrompt(ctx, request, p)
	case *protocol.ReadResourceParams:
		return s.readResource(ctx, request, p)
	case *protocol.ListParams:
		return s.answerList(request, p)
	case *protocol.CompleteParams:
		return s.answerComplete(ctx, request, p)
	}
	return nil, protocol.Errorf(protocol.CodeMethodNotFound, "method not found: %s",
		clipQuoted(request.Message.Method))
}

func (s *Server) publicError(ctx context.Context, request *Request, err error) *protocol.Error {
	if e, ok := protocol.AsError(err); ok {
		return e
	}
	return s.reportBug(ctx, request, fmt.Errorf("middleware: %w", err))
}

// reportBug reports a server bug to the observer and returns the client's error.
func (s *Server) reportBug(ctx context.Context, request *Request, err error) *protocol.Error {
	s.opts.Observer.Observe(ctx, event.ServerBug{Where: request.eventWhere(), Err: err})
	rpc.ReportError(ctx, err)
	return rules.InternalError()
}
