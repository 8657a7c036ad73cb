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

// outlive is deferred where a panic has nobody above it who would recover. It
// belongs to what w is about and ends nothing else, least of all the process.
func (s *Server) recoverAndReport(ctx context.Context, w roundtrip.Where) {
	if v := recover(); v != nil {
		s.ReportPanic(ctx, roundtrip.HandlerPanicked{Where: w, Value: v, Stack: debug.Stack()})
	}
}

// survive is deferred while a request is served, and makes of a panic the
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
	if in.session != nil {
		in.session.revertFailedOpen(in, response.Error)
	}
	s.ReportPanic(ctx, p)
	if in.Panicked != nil {
		in.Panicked(ctx, p)
	}
}

// leave is called after a panic, maybe of this very thing, so that nothing of
// the request follows its response.
func (s *Server) closeAfterPanic(ctx context.Context, in *Incoming) {
	defer s.recoverAndReport(ctx, in.eventWhere())
	defer in.channel.closeChannel()
	in.pusher.withdrawRemaining()
}
