package server

import (
	"context"
	"runtime/debug"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// Report sends an event to the server's observer, for transports and extensions. It never panics: a
// panic of the observer is reported in turn, unless the event was itself a panic.
func (s *Server) Report(ctx context.Context, e event.Event) {
	if _, panicked := e.(event.HandlerPanicked); panicked {
		defer func() { _ = recover() }()
	} else {
		defer s.recoverAndReport(ctx, event.Where{})
	}
	s.opts.Observer.Observe(ctx, e)
}

// ReportEphemeralKey reports a key that only this process has, if there is one. Transports do so
// when they start, unless their clients are gone when the process is, as those of a line stream.
func (s *Server) ReportEphemeralKey(ctx context.Context) {
	if ring, ok := s.opts.Roundtrip.Sealer.(keys.Describer); ok && ring.Ephemeral() {
		s.Report(ctx, event.EphemeralKey{KeyID: ring.Primary()})
	}
}

// recoverAndReport is deferred on goroutines without other recovery.
func (s *Server) recoverAndReport(ctx context.Context, w event.Where) {
	if v := recover(); v != nil {
		s.Report(ctx, event.HandlerPanicked{Where: w, Value: v, Stack: debug.Stack()})
	}
}

// recoverToResponse is deferred by Serve. It answers panics of observers, encoders and response
// channels; runHandler recovers panics of handlers and middleware.
func (s *Server) recoverToResponse(ctx context.Context, a *Admission) {
	v := recover()
	if v == nil {
		return
	}
	request, response := &a.request, &a.response
	p := event.HandlerPanicked{Where: request.eventWhere(), Value: v, Stack: debug.Stack()}
	response.Result, response.Error = nil, rules.InternalError()
	s.closeAfterPanic(ctx, request)
	request.era.revertFailedOpen(request, response.Error)
	s.Report(ctx, p)
	if a.panicked != nil {
		a.panicked(ctx, p)
	}
}

// closeAfterPanic closes a request's channel: nothing follows its response. It recovers panics.
func (s *Server) closeAfterPanic(ctx context.Context, request *Request) {
	defer s.recoverAndReport(ctx, request.eventWhere())
	defer request.channel.closeChannel()
	request.pusher.withdrawRemaining()
}

// refuseAndReport reports the refusal e and returns it. transport is "stream", or empty if unknown.
func (s *Server) refuseAndReport(ctx context.Context, transport string,
	reason event.RefusalReason, id protocol.ID, e *protocol.Error) *protocol.Error {
	s.Report(ctx, event.RequestRefused{
		Transport: transport, Reason: reason, Code: e.Code, RequestID: id.String(), Err: e,
	})
	return e
}
