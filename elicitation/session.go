package elicitation

import (
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/protocol"
)

// A SessionInfo describes the session of a client.
type SessionInfo struct {
	// ID is the host's id of the session, unique among attached sessions. "": a random one.
	ID string
	// Principal opened the session.
	Principal protocol.Principal
	// Capabilities are those that the client declared.
	Capabilities protocol.ClientCapabilities
	// Version is the revision of the session, for which questions are encoded. "": 2025-11-25. From
	// 2026-07-28 on servers send no requests, so questions by [ViaFrames] are refused.
	Version protocol.Version
	// LogName stands for the session in logs. "": ID. Set it if the id is a credential.
	LogName string
	// Notify carries notifications that belong to no request, such as the end of a visit to a URL.
	// Nil: there is no such stream.
	Notify FrameDeliverer
}

// A Session is a connected client, from Attach to Detach. All methods may be called concurrently.
type Session struct {
	router  *Router
	info    SessionInfo
	logName string

	// Guarded by router.mu.
	calls    map[*Call]struct{}
	urls     *recent.Map[urlKey, *urlElicitation]
	detached bool
}

// Attach adds the session of a client that has connected. It fails if the id is taken or the
// version unknown, and with an [*Error] that is [ReasonShutdown] after [Router.Shutdown].
func (r *Router) Attach(info SessionInfo) (*Session, error) {
	if info.ID == "" {
		info.ID = newID()
	}
	if info.Version == "" {
		info.Version = protocol.V20251125
	}
	if !info.Version.Known() {
		version := escapeForLog(string(info.Version))
		return nil, fmt.Errorf("elicitation session: Version %q is not a revision", version)
	}
	s := &Session{
		router: r, info: info, logName: info.LogName, calls: make(map[*Call]struct{}),
		urls: recent.New[urlKey, *urlElicitation](maxURLsPerSession, 0),
	}
	if s.logName == "" {
		s.logName = info.ID
	}
	s.logName = escapeForLog(s.logName)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.draining:
		return nil, shutdownError()
	case r.sessions[info.ID] != nil:
		return nil, errors.New("elicitation session: the id is attached already")
	}
	if !info.Principal.Anonymous() {
		// Before it asks, anonymous callers may have left no room.
		r.slots.questions.ReserveForAuthenticated()
	}
	r.sessions[info.ID] = s
	return s, nil
}

// Detach removes the session. Its pending questions, and later ones of calls that are still in
// flight, end with [ReasonNoSession]. It may be called again.
func (s *Session) Detach() {
	for _, p := range s.router.removeSession(s) {
		p.finishCancelled(bySession, nil)
	}
}

// ID returns the host's id of the session.
func (s *Session) ID() string { return s.info.ID }

// Sender returns the sender of messages that arrive on this session. A host that authenticates each
// message uses the principal of the message instead.
func (s *Session) Sender() Sender { return Sender{Session: s.info.ID, Principal: s.info.Principal} }

// A Sender is the session and principal of a message, as the host has authenticated them. Neither
// is taken from the message itself.
type Sender struct {
	Session   string
	Principal protocol.Principal
}
