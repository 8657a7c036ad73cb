package server

import (
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// ServesLegacy reports whether the server opens sessions for clients of
// revisions before 2026-07-28; see [Options].ModernOnly.
func (s *Server) ServesLegacy() bool { return !s.opts.ModernOnly }

// AdmitStateless is [Session.Admit] for a request of revision v that stands for
// itself, from a client of which nothing is known but that p speaks for it. An
// initialize is answered like any other request. What needs a session is
// refused: to be told of changes, to choose a log level, and, since no
// capability is known, to be asked anything. The function that is returned must
// be called once the request has been answered.
func (s *Server) AdmitStateless(req *protocol.Request, v protocol.Version, p roundtrip.Principal) (*Incoming, func()) {
	x := s.NewSession(p, nil)
	x.stateless = true
	if req != nil && req.Method != protocol.MethodInitialize {
		x.version = negotiate(v)
		x.client.Capabilities = &protocol.ClientCapabilities{}
		x.level = protocol.LevelEmergency
	}
	in := x.Admit(req)
	switch in.Request.Method {
	case protocol.MethodSubscribe, protocol.MethodUnsubscribe, protocol.MethodSetLevel:
		in.Refuse(protocol.Errorf(protocol.CodeMethodNotFound, "method not found: %s needs a session, which this server does not have", in.Request.Method))
	}
	return in, x.Close
}

// withoutSession leaves out what only a session can keep.
func withoutSession(c protocol.ServerCapabilities) protocol.ServerCapabilities {
	c = withoutAnnouncements(c)
	c.Logging = nil
	return c
}
