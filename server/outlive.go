package server

import (
	"context"
	"runtime/debug"

	"github.com/rondo-mcp/rondo/roundtrip"
)

// outlive is deferred where a panic has nobody above it who would recover. It
// belongs to what w is about and ends nothing else, least of all the process.
// Handlers do not come here; what does is hooks and observers. That an observer
// panics when it is told has nobody to go to.
func (s *Server) outlive(ctx context.Context, w roundtrip.Where) {
	v := recover()
	if v == nil {
		return
	}
	stack := debug.Stack()
	defer func() { _ = recover() }()
	s.opts.Observer.Observe(ctx, roundtrip.HandlerPanicked{Where: w, Value: v, Stack: stack})
}
