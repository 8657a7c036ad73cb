package server

import (
	"context"
	"runtime/debug"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// ReportPanic tells the observer of the server of a panic that was recovered,
// for transports, which call hooks of their own. It never panics: an observer
// that does when it is told has nobody to go to.
func (s *Server) ReportPanic(ctx context.Context, p roundtrip.HandlerPanicked) {
	defer func() { _ = recover() }()
	s.opts.Observer.Observe(ctx, p)
}

// ReportEviction tells the observer of the server of a session that made room for
// another, for transports that keep sessions. It never panics.
func (s *Server) ReportEviction(ctx context.Context, evicted roundtrip.SessionEvicted) {
	defer func() {
		if v := recover(); v != nil {
			s.ReportPanic(ctx, roundtrip.HandlerPanicked{Value: v, Stack: debug.Stack()})
		}
	}()
	s.opts.Observer.Observe(ctx, evicted)
}

// recoverAndReport is deferred where a panic has nobody above it who would recover. It
// belongs to what w is about and ends nothing else, least of all the process.
func (s *Server) recoverAndReport(ctx context.Context, w roundtrip.Where) {
	if v := recover(); v != nil {
		s.ReportPanic(ctx, roundtrip.HandlerPanicked{Where: w, Value: v, Stack: debug.Stack()})
	}
}

// recoverToResponse is deferred while a request is served, and makes of a panic the
// response to it. Those of handlers and of middleware do not come here; what
// does is observers, types that cannot be encoded, and ways back.
func (s *Server) recoverToResponse(ctx context.Context, in *Incoming, response *protocol.Response) {
	v := recover()
	if v == nil {
		return
	}
	p := roundtrip.HandlerPanicked{Where: in.eventWhere(), Value: v, Stack: debug.Stack()}
	response.Result, response.Error = nil, internalError()
	s.closeAfterPanic(ctx, in)
	in.era.revertFailedOpen(in, response.Error)
	s.ReportPanic(ctx, p)
	if in.Panicked != nil {
		in.Panicked(ctx, p)
	}
}

// closeAfterPanic is called after a panic, maybe of this very thing, so that nothing of
// the request follows its response.
func (s *Server) closeAfterPanic(ctx context.Context, in *Incoming) {
	defer s.recoverAndReport(ctx, in.eventWhere())
	defer in.channel.closeChannel()
	in.pusher.withdrawRemaining()
}

// ReportRefusal tells the observer of the server of a request that was refused
// before any middleware saw it, for transports, which refuse most of them. It
// never panics.
func (s *Server) ReportRefusal(ctx context.Context, refused roundtrip.RequestRefused) {
	defer func() {
		if v := recover(); v != nil {
			s.ReportPanic(ctx, roundtrip.HandlerPanicked{Value: v, Stack: debug.Stack()})
		}
	}()
	s.opts.Observer.Observe(ctx, refused)
}

// refuseAndReport tells the observer of a request that is refused with e, and returns e.
// Transport is "stream", or empty where the server does not know.
func (s *Server) refuseAndReport(ctx context.Context, transport string, reason roundtrip.RefusalReason, id protocol.ID, e *protocol.Error) *protocol.Error {
	s.ReportRefusal(ctx, roundtrip.RequestRefused{
		Transport: transport, Reason: reason, Code: e.Code, RequestID: id.String(), Err: e,
	})
	return e
}

// refuseLine tells the observer of a line that is refused, and returns the response
// to it.
func (st *lineStream) refuseLine(ctx context.Context, reason roundtrip.RefusalReason, id protocol.ID, e *protocol.Error) *protocol.Response {
	return &protocol.Response{ID: id, Error: st.server.refuseAndReport(ctx, "stream", reason, id, e)}
}
