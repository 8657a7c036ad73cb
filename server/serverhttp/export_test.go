package serverhttp

import (
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// Tuning is what only tests set; 0 is the constant.
type Tuning struct {
	WriteTimeout, KeepAlive     time.Duration
	BytesPerSession, EventBytes int64
}

// Tune returns o with other constants.
func Tune(o *Options, t Tuning) *Options {
	o.tuning = tuning{t.WriteTimeout, t.KeepAlive, t.BytesPerSession, t.EventBytes}
	return o
}

// EventBytes returns how many bytes of events are kept for all sessions.
func EventBytes(h *Handler) int64 { return h.sessions.events.Used() }

// Sessions returns how many sessions are open.
func Sessions(h *Handler) int {
	h.sessions.mu.Lock()
	defer h.sessions.mu.Unlock()
	return len(h.sessions.byID)
}

// Owners returns how many principals have sessions.
func Owners(h *Handler) int {
	h.sessions.mu.Lock()
	defer h.sessions.mu.Unlock()
	owners := map[protocol.Principal]bool{}
	for _, s := range h.sessions.byID {
		owners[s.principal] = true
	}
	for p := range h.sessions.idleOf {
		owners[p] = true
	}
	return len(owners)
}

// CloseIdle closes the connections to other replicas.
func CloseIdle(h *Handler) {
	if h.forwarder != nil {
		h.forwarder.CloseIdle()
	}
}
