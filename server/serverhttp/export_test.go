package serverhttp

import (
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

type Tuning struct {
	WriteTimeout, KeepAlive     time.Duration
	BytesPerSession, EventBytes int64
}

func Tune(o *Options, t Tuning) *Options {
	o.tuning = tuning{t.WriteTimeout, t.KeepAlive, t.BytesPerSession, t.EventBytes}
	return o
}

// EventBytes returns the bytes of events kept for all sessions.
func EventBytes(h *Handler) int64 { return h.sessions.events.Used() }

// Sessions returns the number of open sessions.
func Sessions(h *Handler) int {
	h.sessions.mu.Lock()
	defer h.sessions.mu.Unlock()
	return len(h.sessions.byID)
}

// Owners returns the number of principals with sessions.
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

// CloseIdle closes connections to other replicas.
func CloseIdle(h *Handler) {
	if h.forwarder != nil {
		h.forwarder.CloseIdle()
	}
}

var AcceptedForms = acceptedForms
