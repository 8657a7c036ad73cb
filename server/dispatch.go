package server

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/requestid"
	"github.com/rondo-mcp/rondo/internal/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Handle serves a request that arrives in process, as sent by the principal of
// ctx (see [WithPrincipal]): it checks the parameters strictly, admits and
// serves the request. Cancelling ctx abandons it. The error is always nil: what
// the server has to say is in the response.
func (s *Server) Handle(ctx context.Context, req *protocol.Request, back protocol.Back) (*protocol.Response, error) {
	var malformed *protocol.Error
	if req != nil && req.Params != nil {
		// Transports check whole messages; here nobody has.
		if err := jsonx.Check(req.Params); err != nil {
			malformed = protocol.Errorf(protocol.CodeParseError, "parse error: %v", err)
		} else if jsonx.KindOf(req.Params) != jsonx.Object {
			malformed = protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: params must be an object")
		}
	}
	if malformed != nil {
		req = &protocol.Request{ID: req.ID, Method: req.Method}
	}
	in := s.admit(req, malformed)
	in.Principal = principalFrom(ctx)
	in.Back = back
	return s.Serve(ctx, in), nil
}

// Admit decodes the parameters of a request and checks what can be checked
// before anything is dispatched: that the request declares its version and
// capabilities, that the version is supported, and that the method exists and
// is offered. It never fails: a request that may not pass carries its refusal.
// The message must have been read by [protocol.DecodeMessage].
func (s *Server) Admit(req *protocol.Request) *Incoming { return s.admit(req, nil) }

func (s *Server) admit(req *protocol.Request, malformed *protocol.Error) *Incoming {
	in := newIncoming()
	in.Request, in.Version, in.Principal, in.server = req, protocol.Latest, roundtrip.Local(), s
	in.DraftErrorCodes = s.opts.DraftErrorCodes
	if req == nil {
		in.Request = &protocol.Request{}
		malformed = protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: nil")
	}
	in.Refuse(malformed)
	params, err := protocol.DecodeParams(in.Request.Method, in.Request.Params)
	if err == nil {
		in.Params, in.Target, in.Meta = params, target(params), params.RequestMetadata()
		in.Refuse(s.checkRequest(in.Request.Method, in.Meta))
		return in
	}
	// What cannot be read may have a version that explains why. The parameters
	// of discover are nothing but _meta.
	meta, metaErr := protocol.DecodeParams(protocol.MethodDiscover, in.Request.Params)
	if metaErr != nil && in.Request.Method != protocol.MethodInitialize {
		in.Meta = &protocol.RequestMeta{}
		in.Refuse(asError(metaErr))
		return in
	}
	in.Meta = meta.RequestMetadata()
	in.Refuse(s.checkRequest(in.Request.Method, in.Meta))
	in.Refuse(asError(err))
	return in
}

func target(p protocol.Params) string {
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

// supported are the revisions that this server speaks.
func supported() []protocol.Version { return []protocol.Version{protocol.V20260728} }

// checkRequest returns why a request may not be dispatched, nil if it may. The
// version comes first: what a method or a key means depends on it.
func (s *Server) checkRequest(method string, meta *protocol.RequestMeta) *protocol.Error {
	switch {
	case method == protocol.MethodInitialize:
		return refuseInitialize()
	case meta.Version == "":
		return protocol.Errorf(protocol.CodeInvalidParams, "invalid params: _meta: %s: must be present", protocol.MetaProtocolVersion)
	case meta.Version != protocol.V20260728:
		return protocol.UnsupportedVersion(string(meta.Version), supported())
	case !s.offers(method):
		return protocol.Errorf(protocol.CodeMethodNotFound, "method not found: %s", clip(method))
	case meta.Capabilities == nil:
		return protocol.Errorf(protocol.CodeInvalidParams, "invalid params: _meta: %s: must be present", protocol.MetaClientCapabilities)
	}
	return nil
}

// refuseInitialize is the one thing that a legacy client can be told where there
// are no sessions (basic/versioning).
func refuseInitialize() *protocol.Error {
	e := protocol.Errorf(protocol.CodeMethodNotFound, "method not found: initialize; this server supports %v", supported())
	return e.WithData(struct {
		Supported []protocol.Version `json:"supported"`
	}{supported()})
}

// Serve runs an admitted request through the middleware and returns the
// response to it, never nil, with the id of the request. Panics, of observers
// and other hooks as well as of handlers, are answered with an internal error;
// see [Incoming].Panicked.
func (s *Server) Serve(ctx context.Context, in *Incoming) (response *protocol.Response) {
	l := in.take()
	if in.RequestID == "" && s.opts.observed {
		in.RequestID = requestid.New()
	}
	response = &l.response
	response.ID = in.Request.ID
	if !s.running.begin(ctx, l) {
		s.refuseClosing(ctx, response)
		return response
	}
	defer s.running.end(l)
	ctx = &l.ctx
	l.outlet.begin(in.Back)
	in.outlet = &l.outlet
	if in.session != nil {
		in.session.begin(l, in)
		defer in.session.finished(l, in.Request.ID)
	}
	defer s.survive(ctx, in, response)
	result, err := s.run(ctx, in)
	s.respond(ctx, in, response, result, err)
	return response
}

// refuseClosing answers a request that came too late.
//
//go:noinline
func (s *Server) refuseClosing(ctx context.Context, response *protocol.Response) {
	response.Error = s.refuse(ctx, "", roundtrip.RefusedClosing, response.ID, waiting.RefuseClosing())
}

// respond makes the response of what the handler returned. It is no part of the
// stack of a call that waits, where it would take 400 bytes.
//
//go:noinline
func (s *Server) respond(ctx context.Context, in *Incoming, response *protocol.Response, result protocol.Result, err error) {
	in.pusher.end()
	in.outlet.end()
	if err == nil {
		response.Result, err = s.encode(in, result)
		if err != nil {
			err = s.bug(ctx, in, err)
		}
	}
	if err != nil {
		response.Result, response.Error = nil, s.publicError(ctx, in, err)
	}
	if in.session != nil {
		in.session.settle(in, err)
		response.Error = s.spellError(ctx, in, response.Error)
	} else if s.opts.DraftErrorCodes {
		response.Error = response.Error.Draft()
	}
}

// run calls the middleware, which must not bring the process down.
func (s *Server) run(ctx context.Context, in *Incoming) (result protocol.Result, err error) {
	if back, ok := in.Back.(BackSender); ok && in.session != nil {
		in.pusher = &pusher{session: in.session, version: in.Version, outlet: in.outlet, back: back}
	}
	if p, ok := in.Params.(*protocol.CallToolParams); ok {
		in.checked = p.Arguments // what middleware puts there instead is another matter
	}
	defer func() {
		if v := recover(); v != nil {
			s.opts.Observer.Observe(ctx, roundtrip.HandlerPanicked{Where: in.where(), Value: v, Stack: debug.Stack()})
			result, err = nil, internalError()
		}
	}()
	return s.handler(ctx, in)
}

// dispatch is the innermost handler.
func (s *Server) dispatch(ctx context.Context, in *Incoming) (protocol.Result, error) {
	if in.refusal != nil {
		return nil, in.refusal
	}
	if in.session != nil {
		if result, err, ok := in.session.legacy(in); ok {
			return result, err
		}
	}
	switch p := in.Params.(type) {
	case *protocol.CallToolParams:
		return s.callTool(ctx, in, p)
	case *protocol.GetPromptParams:
		return s.getPrompt(ctx, in, p)
	case *protocol.ReadResourceParams:
		return s.readResource(ctx, in, p)
	case *protocol.ListParams:
		return s.list(in, p)
	case *protocol.DiscoverParams:
		return s.discover(in), nil
	case *protocol.CompleteParams:
		return s.complete(ctx, in, p)
	case *protocol.ListenParams:
		return s.listen(ctx, in, p)
	}
	return nil, protocol.Errorf(protocol.CodeMethodNotFound, "method not found: %s", clip(in.Request.Method))
}

// publicError is what the client learns of an error.
func (s *Server) publicError(ctx context.Context, in *Incoming, err error) *protocol.Error {
	if e, ok := protocol.AsError(err); ok {
		return e
	}
	return s.bug(ctx, in, fmt.Errorf("middleware: %w", err))
}

// bug reports a mistake of the server and returns what the client learns.
func (s *Server) bug(ctx context.Context, in *Incoming, err error) *protocol.Error {
	s.opts.Observer.Observe(ctx, roundtrip.ServerBug{Where: in.where(), Err: err})
	return internalError()
}
