package server

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/rondo-mcp/rondo/internal/bugsink"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/publicerror"
	"github.com/rondo-mcp/rondo/internal/requestid"
	"github.com/rondo-mcp/rondo/internal/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Handle serves a request that arrives in process, as sent by the principal of ctx
// (see [WithPrincipal]): it checks the parameters strictly, admits the request and
// serves it. Cancelling ctx abandons the request. The error is always nil: errors
// of the server are in the response.
func (s *Server) Handle(ctx context.Context, req *protocol.Request,
	back protocol.Back) (*protocol.Response, error) {
	var malformed *protocol.Error
	if req != nil && req.Params != nil {
		// Transports check whole messages; here nobody has.
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
	d := Delivery{Principal: principalFrom(ctx), Back: back}
	return s.Serve(ctx, s.admitRequest(req, &d, malformed)), nil
}

func targetOf(p protocol.Params) string {
	switch p := p.(type) {
	case *protocol.CallToolParams:
		return p.Name
	case *protocol.GetPromptParams:
		return p.Name
	case *protocol.ReadResourceParams:
		return p.URI
	}
	return ""
}

// Serve runs an admitted request through the middleware and returns the
// response to it, never nil, with the id of the request. Panics, of observers
// and other hooks as well as of handlers, are answered with an internal error;
// see [Delivery].Panicked. Serve itself panics when the server has not admitted
// the request, or has served it already.
func (s *Server) Serve(ctx context.Context, a *Admission) (response *protocol.Response) {
	in := &a.request
	if in.server != s || a.served {
		panic("server: Serve needs a request that this server has admitted and not served yet")
	}
	a.served = true
	if in.RequestID == "" && s.opts.observed {
		in.RequestID = requestid.New()
	}
	response = &a.response
	response.ID = in.Message.ID
	ctx = a.task.Start(ctx, nil)
	if s.requests.Begin(&a.task, &a.task) != nil {
		a.task.Cancel(nil)
		s.refuseClosing(ctx, response)
		return response
	}
	defer s.endRequest(a)
	a.channel.back = in.back
	in.channel = &a.channel
	in.era.beginRequest(a)
	defer in.era.endRequest(a, in.Message.ID)
	defer s.recoverToResponse(ctx, a)
	result, err := s.runHandler(ctx, in)
	s.completeResponse(ctx, in, response, result, err)
	return response
}

func (s *Server) endRequest(a *Admission) {
	a.task.Cancel(nil)
	s.requests.End(&a.task, &a.task)
}

// refuseClosing answers a request that arrived after Close or Shutdown.
//
//go:noinline
func (s *Server) refuseClosing(ctx context.Context, response *protocol.Response) {
	response.Error = s.refuseAndReport(ctx, "", event.RefusedClosing, response.ID,
		waiting.RefuseClosing())
}

// completeResponse encodes the result, or the error, into the response and closes
// the channel of the request. It is not inlined into Serve, whose frame lies under
// a call that waits and would grow by 400 bytes.
//
//go:noinline
func (s *Server) completeResponse(ctx context.Context, in *Request, response *protocol.Response,
	result protocol.Result, err error) {
	in.pusher.withdrawRemaining()
	in.channel.closeChannel()
	if err == nil {
		response.Result, err = s.encodeResult(in, result)
		if err != nil {
			err = s.reportBug(ctx, in, err)
		}
	}
	if err != nil {
		response.Result, response.Error = nil, s.publicError(ctx, in, err)
	}
	in.era.revertFailedOpen(in, err)
	response.Error = in.era.spellError(ctx, in, response.Error)
}

// runHandler calls the middleware and the handler, and recovers their panics.
func (s *Server) runHandler(ctx context.Context, in *Request) (result protocol.Result, err error) {
	in.pusher = in.era.newPusher(in)
	if p, ok := in.Params.(*protocol.CallToolParams); ok {
		in.checkedArguments = p.Arguments // what middleware puts there instead is another matter
	}
	defer func() {
		if v := recover(); v != nil {
			s.opts.Observer.Observe(ctx,
				event.HandlerPanicked{Where: in.eventWhere(), Value: v, Stack: debug.Stack()})
			result, err = nil, publicerror.Internal()
		}
	}()
	return s.handler(ctx, in)
}

// dispatchRequest is the innermost [Handler].
func (s *Server) dispatchRequest(ctx context.Context, in *Request) (protocol.Result, error) {
	if in.refusal != nil {
		return nil, in.refusal
	}
	if result, err, ok := in.era.answerOwnMethod(ctx, in); ok {
		return result, err
	}
	switch p := in.Params.(type) {
	case *protocol.CallToolParams:
		return s.callTool(ctx, in, p)
	case *protocol.GetPromptParams:
		return s.getPrompt(ctx, in, p)
	case *protocol.ReadResourceParams:
		return s.readResource(ctx, in, p)
	case *protocol.ListParams:
		return s.answerList(in, p)
	case *protocol.CompleteParams:
		return s.answerComplete(ctx, in, p)
	}
	return nil, protocol.Errorf(protocol.CodeMethodNotFound, "method not found: %s",
		clipQuoted(in.Message.Method))
}

// publicError returns the error that the client gets for err.
func (s *Server) publicError(ctx context.Context, in *Request, err error) *protocol.Error {
	if e, ok := protocol.AsError(err); ok {
		return e
	}
	return s.reportBug(ctx, in, fmt.Errorf("middleware: %w", err))
}

// reportBug reports a mistake of the server to the observer and returns the error
// that the client gets.
func (s *Server) reportBug(ctx context.Context, in *Request, err error) *protocol.Error {
	s.opts.Observer.Observe(ctx, event.ServerBug{Where: in.eventWhere(), Err: err})
	bugsink.Report(ctx, err)
	return publicerror.Internal()
}
