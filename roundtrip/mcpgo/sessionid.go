package mcpgo

import (
	"context"
	"errors"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// httpSession has what mcp-go's session of an HTTP request can do.
type httpSession interface {
	server.SessionWithLogging
	server.SessionWithTools
	server.SessionWithResources
	server.SessionWithResourceTemplates
	server.SessionWithClientInfo
	server.SessionWithElicitation
	server.SessionWithRoots
	server.SessionWithStreamableHTTPConfig
	server.SessionWithProtocolVersion
	server.SessionWithSampling
}

// namedSession is the session that handlers see in revision 2026-07-28 over HTTP. There
// mcp-go leaves the id of every caller empty, and what a server keeps by session would be
// that of whoever came first.
type namedSession struct {
	httpSession
	id     string
	warned func() // reports that a handler has read an id that is of this request alone
}

// SessionID returns the id.
func (s *namedSession) SessionID() string {
	if s.warned != nil {
		s.warned()
	}
	return s.id
}

func (s *namedSession) realSession() server.ClientSession { return s.httpSession }

var errSessionIDRead = errors.New("mcpgo: a handler reads the id of a session, but revision " +
	"2026-07-28 has none, and the caller has no principal: the id is of this request alone. " +
	"Set Options.Principal, and see \"What your server keeps per session\" in the README")

// withNamedSession returns a context in which the session has an id: the same for all calls
// of a principal, and another for each request of a caller without one. An id tells nothing
// about the principal, and cannot be guessed.
func (a *Adapter) withNamedSession(ctx context.Context, call *roundtrip.Call) context.Context {
	s, session := server.ServerFromContext(ctx), server.ClientSessionFromContext(ctx)
	real, ok := session.(httpSession)
	if s == nil || !ok || call.Version.Era() == protocol.Legacy || session.SessionID() != "" {
		return ctx
	}
	named := &namedSession{httpSession: real,
		id: quota.SessionName(a.sessionIDKey, call.Principal)}
	if call.Principal.Anonymous() {
		where := event.Where{Version: call.Version, Method: call.Method, Target: call.Target}
		named.warned = func() {
			a.sessionIDRead.Do(func() {
				// No report to tests of this process: it is one only if the server keeps something.
				a.opts.Observer.Observe(ctx, event.ServerBug{Where: where, Err: errSessionIDRead})
			})
		}
	}
	return s.WithContext(ctx, named)
}
