package server

import (
	"github.com/rondo-mcp/rondo/internal/lazyctx"
	"github.com/rondo-mcp/rondo/internal/waiting"
	"github.com/rondo-mcp/rondo/protocol"
)

// A leg is what one request takes from its arrival to its answer, in one piece
// of memory.
type leg struct {
	incoming Incoming
	ctx      lazyctx.Context
	watch    waiting.Watch // in ctx
	outlet   outlet
	response protocol.Response
	request  sessionRequest // in use where there is a session
}

// newIncoming returns a request that has a leg to be served in.
func newIncoming() *Incoming {
	l := &leg{}
	l.incoming.leg = l
	return &l.incoming
}

// take returns the leg to serve a request in, once. One that no server admitted,
// or that is served again, has none yet.
func (in *Incoming) take() *leg {
	l := in.leg
	if in.leg = nil; l == nil {
		l = &leg{}
	}
	return l
}
