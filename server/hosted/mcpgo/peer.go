package mcpgo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// Peer returns a server of mcp-go as a peer, for a custom [hosted.Source]. It replaces the server's
// hooks by an extended copy, so s must not serve yet, and later hooks must be added to those that
// GetHooks returns. Further calls for s change nothing.
func Peer(s *server.MCPServer) hosted.Peer {
	addHooks(s)
	return &peer{server: s, sessions: map[*session]struct{}{}}
}

type peer struct {
	server *server.MCPServer

	mu       sync.Mutex
	sessions map[*session]struct{}
	closed   bool
}

func (p *peer) OpenSession(ctx context.Context, initialize *protocol.Request,
	back protocol.BackCaller) (protocol.LegacySession, *protocol.Response, error) {
	x := newSession(p, hosted.CallerFrom(ctx), back)
	cleanUp := x.end
	defer func() { cleanUp() }() // runs even if a hook of the server panics
	if err := p.server.RegisterSession(ctx, x); err != nil {
		cleanUp = x.cancel // another session has this id
		return nil, nil, fmt.Errorf("mcpgo: %w", err)
	}
	if !p.add(x) {
		return nil, nil, errGone
	}
	response, err := x.Handle(ctx, initialize, back)
	if err != nil || response.Error != nil {
		return nil, response, err
	}
	cleanUp = func() {}
	return x, response, nil
}

// add reports whether the peer is open.
func (p *peer) add(x *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.sessions[x] = struct{}{}
	}
	return !p.closed
}

func (p *peer) remove(x *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, x)
}

func (p *peer) Close() error {
	p.mu.Lock()
	p.closed = true
	open := maps.Clone(p.sessions)
	p.mu.Unlock()
	var errs []error
	for x := range open {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}
