package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Session returns the client's own session where ctx has one that stands for it
// ([Options].UnmodifiedHandlers), and the session of ctx otherwise. Use it before a type
// assertion to a concrete session type. Its id is mcp-go's, empty in revision 2026-07-28.
func Session(ctx context.Context) server.ClientSession {
	session := server.ClientSessionFromContext(ctx)
	for {
		s, ok := session.(interface{ realSession() server.ClientSession })
		if !ok {
			return session
		}
		session = s.realSession()
	}
}

// hostAsker handles the calls with which handlers ask in mcp-go.
type hostAsker interface {
	server.ElicitationHandler
	server.SamplingHandler
	server.RootsHandler
}

// withShadow returns a context with a shadow session, through which mcp-go's own calls
// ask in rounds. It is for the self-test.
func withShadow(ctx context.Context) context.Context {
	return withShadowOf(ctx, &shadowAsker{})
}

// withClientShadow returns the context of an unmodified handler, with a shadow of the
// client's session. In older revisions, and within the process, where calls reach the
// client in every revision, the shadow relays calls to the client's session and reports
// those that fail.
func (a *Adapter) withClientShadow(ctx context.Context, call roundtrip.Call) context.Context {
	real := server.ClientSessionFromContext(ctx)
	_, inProcess := real.(*server.InProcessSession)
	failures := &pushFailures{adapter: a, call: call}
	if inProcess || call.Version.Era() == protocol.Legacy && !a.opts.MustAsk {
		return withShadowOf(ctx, &relayAsker{pushFailures: failures,
			server: server.ServerFromContext(ctx), real: real})
	}
	return withShadowOf(ctx, &shadowAsker{failures: failures})
}

// withShadowOf returns a context with a shadow of the client's session, whose calls asker
// handles.
func withShadowOf(ctx context.Context, asker hostAsker) context.Context {
	s := server.ServerFromContext(ctx)
	session := server.ClientSessionFromContext(ctx)
	if s == nil || session == nil {
		return ctx
	}
	base := &shadowSession{server.NewInProcessSessionWithHandlers("", asker, asker, asker), session}
	if _, ok := session.(server.SessionWithTools); ok {
		return s.WithContext(ctx, &shadowSessionWithTools{base})
	}
	return s.WithContext(ctx, base)
}

// shadowSession is the session that an unmodified handler sees. It embeds mcp-go's
// session within the process, because mcp-go lets only that type ask in modern revisions.
// All its other methods delegate to the client's own session.
type shadowSession struct {
	*server.InProcessSession
	real server.ClientSession
}

func (s *shadowSession) realSession() server.ClientSession { return s.real }

// SessionID, and the methods below, delegate to the client's session.
func (s *shadowSession) SessionID() string { return s.real.SessionID() }

// Initialize does nothing in most sessions.
func (s *shadowSession) Initialize() { s.real.Initialize() }

// Initialized reports whether notifications can be sent.
func (s *shadowSession) Initialized() bool { return s.real.Initialized() }

// NotificationChannel returns the client's queue.
func (s *shadowSession) NotificationChannel() chan<- mcp.JSONRPCNotification {
	return s.real.NotificationChannel()
}

// UpgradeToSSEWhenReceiveNotification lets notifications be sent before the response, on
// transports that have to be told.
func (s *shadowSession) UpgradeToSSEWhenReceiveNotification() {
	if real, ok := s.real.(server.SessionWithStreamableHTTPConfig); ok {
		real.UpgradeToSSEWhenReceiveNotification()
	}
}

// SetLogLevel sets the client's level.
func (s *shadowSession) SetLogLevel(level mcp.LoggingLevel) {
	if real, ok := s.real.(server.SessionWithLogging); ok {
		real.SetLogLevel(level)
	}
}

// GetLogLevel returns the client's level.
func (s *shadowSession) GetLogLevel() mcp.LoggingLevel {
	if real, ok := s.real.(server.SessionWithLogging); ok {
		return real.GetLogLevel()
	}
	return mcp.LoggingLevelError
}

// GetClientInfo returns who the client says it is.
func (s *shadowSession) GetClientInfo() mcp.Implementation {
	if real, ok := s.real.(server.SessionWithClientInfo); ok {
		return real.GetClientInfo()
	}
	return mcp.Implementation{}
}

// SetClientInfo sets it.
func (s *shadowSession) SetClientInfo(info mcp.Implementation) {
	if real, ok := s.real.(server.SessionWithClientInfo); ok {
		real.SetClientInfo(info)
	}
}

// GetClientCapabilities returns what the client can do.
func (s *shadowSession) GetClientCapabilities() mcp.ClientCapabilities {
	if real, ok := s.real.(server.SessionWithClientInfo); ok {
		return real.GetClientCapabilities()
	}
	return mcp.ClientCapabilities{}
}

// SetClientCapabilities sets it.
func (s *shadowSession) SetClientCapabilities(capabilities mcp.ClientCapabilities) {
	if real, ok := s.real.(server.SessionWithClientInfo); ok {
		real.SetClientCapabilities(capabilities)
	}
}

// ProtocolVersion is that of the client's session.
func (s *shadowSession) ProtocolVersion() string {
	if real, ok := s.real.(server.SessionWithProtocolVersion); ok {
		return real.ProtocolVersion()
	}
	return ""
}

// shadowSessionWithTools is the shadow of a session with tools of its own. Such sessions
// mostly have resources and templates, too; where one does not, these are empty.
type shadowSessionWithTools struct{ *shadowSession }

// GetSessionTools returns the session's own tools.
func (s *shadowSessionWithTools) GetSessionTools() map[string]server.ServerTool {
	return s.real.(server.SessionWithTools).GetSessionTools()
}

// SetSessionTools sets them.
func (s *shadowSessionWithTools) SetSessionTools(tools map[string]server.ServerTool) {
	s.real.(server.SessionWithTools).SetSessionTools(tools)
}

// GetSessionResources returns the session's own resources.
func (s *shadowSessionWithTools) GetSessionResources() map[string]server.ServerResource {
	if real, ok := s.real.(server.SessionWithResources); ok {
		return real.GetSessionResources()
	}
	return nil
}

// SetSessionResources sets them.
func (s *shadowSessionWithTools) SetSessionResources(resources map[string]server.ServerResource) {
	if real, ok := s.real.(server.SessionWithResources); ok {
		real.SetSessionResources(resources)
	}
}

// sessionTemplates are the resource templates of one session by their URI templates.
type sessionTemplates = map[string]server.ServerResourceTemplate

// GetSessionResourceTemplates returns the session's own templates.
func (s *shadowSessionWithTools) GetSessionResourceTemplates() sessionTemplates {
	if real, ok := s.real.(server.SessionWithResourceTemplates); ok {
		return real.GetSessionResourceTemplates()
	}
	return nil
}

// SetSessionResourceTemplates sets them.
func (s *shadowSessionWithTools) SetSessionResourceTemplates(templates sessionTemplates) {
	if real, ok := s.real.(server.SessionWithResourceTemplates); ok {
		real.SetSessionResourceTemplates(templates)
	}
}

// shadowAsker asks in the round of one run of a handler. Calls of mcp-go have no key; see
// [roundtrip.AskUnkeyed] for what an answer belongs to.
type shadowAsker struct {
	failures *pushFailures // nil: in a check of mcp-go
}

// Elicit asks the person.
func (a *shadowAsker) Elicit(ctx context.Context,
	request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	raw, err := a.askUnkeyed(ctx, elicitInput(request))
	if err != nil {
		return nil, err
	}
	result, ok := decodeJSON[mcp.ElicitationResult](raw)
	if !ok {
		return nil, fmt.Errorf("the answer is none of mcp-go's")
	}
	return &result, nil
}

// CreateMessage asks the client's model.
func (a *shadowAsker) CreateMessage(ctx context.Context,
	request mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	raw, err := a.askUnkeyed(ctx, mcp.NewSamplingInputRequest(request.CreateMessageParams))
	if err != nil {
		return nil, err
	}
	return decodeMessage(raw)
}

// ListRoots asks for directories.
func (a *shadowAsker) ListRoots(ctx context.Context,
	_ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	raw, err := a.askUnkeyed(ctx, mcp.NewRootsInputRequest())
	if err != nil {
		return nil, err
	}
	result, ok := decodeJSON[mcp.ListRootsResult](raw)
	if !ok {
		return nil, fmt.Errorf("the answer is none of mcp-go's")
	}
	return &result, nil
}

// askUnkeyed asks a question, unless the client has not declared that it can be asked.
func (a *shadowAsker) askUnkeyed(ctx context.Context, q mcp.InputRequest) (json.RawMessage, error) {
	if err := a.failures.checkDeclared(ctx, q); err != nil {
		return nil, err
	}
	request, err := decodeQuestion(q)
	if err != nil {
		return nil, err
	}
	raw, err := roundtrip.AskUnkeyed(ctx, request)
	if err != nil {
		return nil, &askError{err}
	}
	return raw, nil
}
