package gosdk

import (
	"runtime"
	"sync"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A host is what the peers of one function share.
type host struct {
	opts *Options
	runs sync.Map // *run by the *mcp.RequestExtra of its request

	mu        sync.Mutex
	installed map[weak.Pointer[mcp.Server]]struct{} // that have the middleware
	styles    map[string]style                      // of handlers, by method and name
}

func newHost(opts *Options) *host {
	if opts == nil {
		opts = &Options{}
	}
	return &host{opts: opts, installed: map[weak.Pointer[mcp.Server]]struct{}{},
		styles: map[string]style{}}
}

// peerFor returns a peer of the server, and adds the middleware to the server unless it is there.
func (h *host) peerFor(s *mcp.Server) *peer {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := weak.Make(s)
	if _, has := h.installed[key]; !has {
		h.installed[key] = struct{}{}
		s.AddReceivingMiddleware(h.runHandlers)
		runtime.AddCleanup(s, h.forgetServer, key)
	}
	return &peer{host: h, server: s, sessions: map[*session]struct{}{}}
}

func (h *host) forgetServer(key weak.Pointer[mcp.Server]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.installed, key)
}

// A style is how a handler asks.
type style int

const (
	pushes     style = iota // on its own goroutine, as far as is known
	pushesElse              // on other goroutines
	returns                 // its questions, in the result
)

// maxStyles bounds what is remembered of handlers: the names of resources come from clients. A
// handler that is forgotten runs once more than needed.
const maxStyles = 10_000

func (h *host) styleOf(name string) style {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.styles[name]
}

func (h *host) noteStyle(name string, s style) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.styles) >= maxStyles {
		clear(h.styles)
	}
	h.styles[name] = s
}
