package server

import (
	"context"
	"runtime/debug"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

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

// refuse tells the observer of a request that is refused with e, and returns e.
// Transport is "stream", or empty where the server does not know.
func (s *Server) refuseAndReport(ctx context.Context, transport string, reason roundtrip.RefusalReason, id protocol.ID, e *protocol.Error) *protocol.Error {
	s.ReportRefusal(ctx, roundtrip.RequestRefused{
		Transport: transport, Reason: reason, Code: e.Code, RequestID: id.String(), Err: e,
	})
	return e
}

// refuse tells the observer of a line that is refused, and returns the response
// to it.
func (st *lineStream) refuseLine(ctx context.Context, reason roundtrip.RefusalReason, id protocol.ID, e *protocol.Error) *protocol.Response {
	return &protocol.Response{ID: id, Error: st.server.refuseAndReport(ctx, "stream", reason, id, e)}
}
