package server

import (
	"context"
	"runtime/debug"

	"github.com/rondo-mcp/rondo/internal/wire/revision"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// ReportPanic reports a panic that was recovered to the observer of the server,
// for transports, which call hooks of their own. It never panics: a panic of the
// observer itself is dropped.
func (s *Server) ReportPanic(ctx context.Context, p event.HandlerPanicked) {
	defer func() { _ = recover() }()
	s.opts.Observer.Observe(ctx, p)
}

// ReportEviction reports a session that was evicted to make room for another to
// the observer of the server, for transports that keep sessions. It never panics.
func (s *Server) ReportEviction(ctx context.Context, evicted event.SessionEvicted) {
	defer func() {
		if v := recover(); v != nil {
			s.ReportPanic(ctx, event.HandlerPanicked{Value: v, Stack: debug.Stack()})
		}
	}()
	s.opts.Observer.Observe(ctx, evicted)
}

// ReportForward reports a request that was passed on to another replica to the observer
// of the server, for transports that do so. It never panics.
func (s *Server) ReportForward(ctx context.Context, forwarded event.RequestForwarded) {
	defer func() {
		if v := recover(); v != nil {
			s.ReportPanic(ctx, event.HandlerPanicked{Value: v, Stack: debug.Stack()})
		}
	}()
	s.opts.Observer.Observe(ctx, forwarded)
}

// recoverAndReport is deferred on goroutines that nothing else recovers. It
// reports the panic as one of w, which is the only thing that the panic ends.
func (s *Server) recoverAndReport(ctx context.Context, w event.Where) {
	if v := recover(); v != nil {
		s.ReportPanic(ctx, event.HandlerPanicked{Where: w, Value: v, Stack: debug.Stack()})
	}
}

// recoverToResponse is deferred by Serve and turns a panic into the response.
// runHandler recovers the panics of handlers and middleware; the ones that arrive
// here are of observers, of types that cannot be encoded and of response channels.
func (s *Server) recoverToResponse(ctx context.Context, a *Admission) {
	v := recover()
	if v == nil {
		return
	}
	request, response := &a.request, &a.response
	p := event.HandlerPanicked{Where: request.eventWhere(), Value: v, Stack: debug.Stack()}
	response.Result, response.Error = nil, revision.InternalError()
	s.closeAfterPanic(ctx, request)
	request.era.revertFailedOpen(request, response.Error)
	s.ReportPanic(ctx, p)
	if a.panicked != nil {
		a.panicked(ctx, p)
	}
}

// closeAfterPanic closes the channel of a request after a panic, so that nothing
// follows its response. The panic may have come from closing the channel, so a
// second one is recovered, too.
func (s *Server) closeAfterPanic(ctx context.Context, request *Request) {
	defer s.recoverAndReport(ctx, request.eventWhere())
	defer request.channel.closeChannel()
	request.pusher.withdrawRemaining()
}

// ReportRefusal reports a request that was refused before any middleware saw it to
// the observer of the server, for transports, which refuse most of them. It never
// panics.
func (s *Server) ReportRefusal(ctx context.Context, refused event.RequestRefused) {
	defer func() {
		if v := recover(); v != nil {
			s.ReportPanic(ctx, event.HandlerPanicked{Value: v, Stack: debug.Stack()})
		}
	}()
	s.opts.Observer.Observe(ctx, refused)
}

// refuseAndReport reports a request that is refused with e to the observer, and
// returns e. transport is "stream", or empty where the server does not know it.
func (s *Server) refuseAndReport(ctx context.Context, transport string,
	reason event.RefusalReason, id protocol.ID, e *protocol.Error) *protocol.Error {
	s.ReportRefusal(ctx, event.RequestRefused{
		Transport: transport, Reason: reason, Code: e.Code, RequestID: id.String(), Err: e,
	})
	return e
}
