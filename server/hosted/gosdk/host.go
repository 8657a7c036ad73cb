package gosdk

import (
	"runtime"
	"sync"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A host has the shared data of the peers that one function of this package made.
type host struct {
	opts *Options
	runs sync.Map // *run by the *mcp.RequestExtra of its request

	mu        sync.Mutex
	installed map[weak.Pointer[mcp.Server]]struct{} // servers that have the middleware
}

func newHost(opts *Options) *host {
	if opts == nil {
		opts = &Options{}
	}
	return &host{opts: opts, installed: map[weak.Pointer[mcp.Server]]struct{}{}}
}

// peerFor adds the middleware to the server once.
func (h *host) peerFor(s *mcp.Server) *peer {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := weak.Make(s)
	if _, has := h.installed[key]; !has {
		h.installed[key] = struct{}{}
		s.AddReceivingMiddleware(h.runHandlers)
		runtime.AddCleanup(s, h.forgetServer, key)
	}
	return &peer{host: h, server: s, sessions: map[*session]struct{}{},
		styles: map[string]style{}}
}

func (h *host) forgetServer(key weak.Pointer[mcp.Server]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.installed, key)
}
