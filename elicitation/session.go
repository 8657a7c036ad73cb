package elicitation

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/protocol"
)

// A SessionInfo describes a client's session.
type SessionInfo struct {
	ID           string                      // unique among attached sessions; random if empty
	Principal    protocol.Principal          // who opened the session
	Capabilities protocol.ClientCapabilities // declared by the client
	// Version of the session, for which questions are encoded. Empty means 2025-11-25. From
	// 2026-07-28 on servers send no requests, so questions by [ViaFrames] are refused.
	Version protocol.Version
	// LogName stands for the session in logs. Empty means ID. Set it if the id is a credential.
	LogName string
	// Notify sends notifications without a request, such as a visit's completion. May be nil.
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
	info.Version = cmp.Or(info.Version, protocol.V20251125)
	if !info.Version.Known() {
		version := escapeForLog(string(info.Version))
		return nil, fmt.Errorf("elicitation session: Version %q is not a revision", version)
	}
	s := &Session{
		router: r, info: info, logName: escapeForLog(cmp.Or(info.LogName, info.ID)),
		calls: make(map[*Call]struct{}),
		urls:  recent.New[urlKey, *urlElicitation](maxURLsPerSession, 0),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.draining:
		return nil, shutdownError()
	case r.sessions[info.ID] != nil:
		return nil, errors.New("elicitation session: the id is attached already")
	}
	if !info.Principal.Anonymous() {
		// Reserve before the first question, or anonymous callers may take everything.
		r.slots.questions.ReserveForAuthenticated()
	}
	r.sessions[info.ID] = s
	return s, nil
}

// Detach removes the session. Its pending questions, and later ones of calls still in flight, end
// with [ReasonNoSession]. It may be called again.
func (s *Session) Detach() {
	r := s.router
	var pending []*pendingQuestion
	r.mu.Lock()
	if !s.detached {
		s.detached = true
		delete(r.sessions, s.info.ID)
		for _, u := range s.urls.All() {
			r.forgetURLLocked(u)
		}
		for c := range s.calls {
			pending = append(pending, c.questions...)
		}
	}
	r.mu.Unlock()
	for _, p := range pending {
		p.finishCancelled(bySession, nil)
	}
}

// ID returns the host's id of the session.
func (s *Session) ID() string { return s.info.ID }

// Sender returns the session and its principal. A host that authenticates messages uses theirs.
func (s *Session) Sender() Sender { return Sender{Session: s.info.ID, Principal: s.info.Principal} }

// A Sender is a message's session and principal as authenticated by the host, not as claimed in it.
type Sender struct {
	Session   string
	Principal protocol.Principal
}
