// Package mcpgo puts rondo in front of a server built on mcp-go (github.com/mark3labs/mcp-go,
// v1.2.0 or later), whose handlers stay unchanged:
//
//	front, err := mcpgo.New(mcpServer, nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	handler, err := front.Handler(nil) // or front.Server().ServeStdio(ctx)
//
// See package hosted for what clients and handlers see. Handlers of tools and prompts may return
// questions to every client, so their session's revision is 2026-07-28.
package mcpgo

import (
	"context"
	"errors"
	"sync"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/server/hosted"
)

// New returns rondo's server in front of s, which serves all callers, must not be nil, and must not
// serve yet, see [Peer]; opts may be nil. It fails as [hosted.New] does.
func New(s *server.MCPServer, opts *hosted.Options) (*hosted.Server, error) {
	if s == nil {
		return nil, errors.New("mcpgo: the server is nil")
	}
	return hosted.New(hosted.One(Peer(s)), opts)
}

// NewEach returns rondo's server in front of servers from makeServer: one for each session of the
// hosted server, see [hosted.Caller].SessionID and [hosted.Options].PerRequest. makeServer gets the
// context of the request that needs it, and may return the same server again. Calls may overlap.
func NewEach(
	makeServer func(ctx context.Context, caller *hosted.Caller) (*server.MCPServer, error),
	opts *hosted.Options,
) (*hosted.Server, error) {
	var hooking sync.Mutex
	return hosted.New(func(ctx context.Context, caller *hosted.Caller) (
		hosted.Peer, error) {
		s, err := makeServer(ctx, caller)
		if err != nil {
			return nil, err
		}
		if s == nil {
			return nil, errors.New("mcpgo: no server for this caller")
		}
		hooking.Lock()
		defer hooking.Unlock()
		return Peer(s), nil
	}, opts)
}
