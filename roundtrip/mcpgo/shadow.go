package mcpgo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Session returns the client's own session where the handler's context holds
// the one that stands in for it ([Options].UnmodifiedHandlers), and the one in
// the context otherwise. Use it before an assertion to a concrete session type.
func Session(ctx context.Context) server.ClientSession {
	session := server.ClientSessionFromContext(ctx)
	if s, ok := session.(interface{ realSession() server.ClientSession }); ok {
		return s.realSession()
	}
	return session
}

// hostAsker answers mcp-go's calls to the client.
type hostAsker interface {
	server.ElicitationHandler
	server.SamplingHandler
	server.RootsHandler
}

// withShadow gives the handler a session through which mcp-go's own calls ask
// in rounds.
func withShadow(ctx context.Context) context.Context {
	return withShadowOf(ctx, &shadowAsker{seen: map[string]int{}})
}

// withClientShadow gives a handler that is not changed a session in front of the client's.
// Toward older revisions the calls go on to the client's session, and so they do
// within the process, where they reach their handler without a message in every
// revision: only failures are looked at.
func (a *Adapter) withClientShadow(ctx context.Context, call roundtrip.Call) context.Context {
	real := server.ClientSessionFromContext(ctx)
	_, inProcess := real.(*server.InProcessSession)
	failures := &pushFailures{adapter: a, call: call}
	if inProcess || call.Version.Era() == protocol.Legacy && !a.opts.MustAsk {
		return withShadowOf(ctx, &relayAsker{pushFailures: failures, server: server.ServerFromContext(ctx), real: real})
	}
	return withShadowOf(ctx, &shadowAsker{seen: map[string]int{}, failures: failures})
}

// withShadowOf puts a session in front of the client's.
func withShadowOf(ctx context.Context, asker hostAsker) context.Context {
	s := server.ServerFromContext(ctx)
	session := server.ClientSessionFromContext(ctx)
	if s == nil || session == nil {
		return ctx
	}
	base := &shadowSession{server.NewInProcessSessionWithHandlers(session.SessionID(), asker, asker, asker), session}
	if _, ok := session.(server.SessionWithTools); ok {
		return s.WithContext(ctx, &shadowSessionWithTools{base})
	}
	return s.WithContext(ctx, base)
}

// shadowSession is the session in front of a handler that is not changed. It embeds
// mcp-go's session within the process for one thing, the mark which lets calls
// to the client through in modern revisions; whatever else can be seen is that
// of the client's own session.
type shadowSession struct {
	*server.InProcessSession
	real server.ClientSession
}

func (s *shadowSession) realSession() server.ClientSession { return s.real }

// Initialize, and the methods below, are those of the client's session.
func (s *shadowSession) Initialize() { s.real.Initialize() }

// Initialized reports whether notifications can be sent.
func (s *shadowSession) Initialized() bool { return s.real.Initialized() }

// NotificationChannel leads to the client.
func (s *shadowSession) NotificationChannel() chan<- mcp.JSONRPCNotification {
	return s.real.NotificationChannel()
}

// UpgradeToSSEWhenReceiveNotification lets notifications out while the request
// runs, on transports that have to be told.
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

// shadowSessionWithTools stands in for sessions that have tools of their own, and then
// mostly resources and templates too. What the client's session lacks of these
// is empty and stays so.
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

// GetSessionResourceTemplates returns the session's own templates.
func (s *shadowSessionWithTools) GetSessionResourceTemplates() map[string]server.ServerResourceTemplate {
	if real, ok := s.real.(server.SessionWithResourceTemplates); ok {
		return real.GetSessionResourceTemplates()
	}
	return nil
}

// SetSessionResourceTemplates sets them.
func (s *shadowSessionWithTools) SetSessionResourceTemplates(templates map[string]server.ServerResourceTemplate) {
	if real, ok := s.real.(server.SessionWithResourceTemplates); ok {
		real.SetSessionResourceTemplates(templates)
	}
}

// shadowAsker answers mcp-go's calls to the client from the round of one run of
// a handler. The caller names no key, so it is what is asked for, and how often
// that was before in this run; the wording is left to the journal, which ends a
// flow whose questions change from run to run. Once a question is pending the
// run is over but for its end, and nothing more is asked in it.
type shadowAsker struct {
	failures *pushFailures // nil: in a check of mcp-go
	mu       sync.Mutex
	seen     map[string]int
	pending  bool
}

// Elicit asks the person.
func (a *shadowAsker) Elicit(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	raw, err := a.askOnce(ctx, elicitInput(request))
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
func (a *shadowAsker) CreateMessage(ctx context.Context, request mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	raw, err := a.askOnce(ctx, mcp.NewSamplingInputRequest(request.CreateMessageParams))
	if err != nil {
		return nil, err
	}
	return decodeMessage(raw)
}

// ListRoots asks for directories.
func (a *shadowAsker) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	raw, err := a.askOnce(ctx, mcp.NewRootsInputRequest())
	if err != nil {
		return nil, err
	}
	result, ok := decodeJSON[mcp.ListRootsResult](raw)
	if !ok {
		return nil, fmt.Errorf("the answer is none of mcp-go's")
	}
	return &result, nil
}

// askOnce asks one question at a time.
func (a *shadowAsker) askOnce(ctx context.Context, q mcp.InputRequest) (json.RawMessage, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending {
		return nil, roundtrip.ErrPending
	}
	if err := a.failures.checkDeclared(ctx, q); err != nil {
		return nil, err
	}
	key, err := a.deriveKey(q)
	if err != nil {
		return nil, err
	}
	raw, err := askInRound(ctx, key, q, nil)
	a.pending = err != nil
	return raw, err
}

// deriveKey is the same in every run that asks for the same, kind by kind and form by
// form, in the same order.
func (a *shadowAsker) deriveKey(q mcp.InputRequest) (string, error) {
	request, err := decodeQuestion(q)
	if err != nil {
		return "", err
	}
	kind := string(request.Kind())
	if form, ok := request.(*protocol.ElicitForm); ok {
		canonical, err := jsonx.AppendCanonical(nil, form.Schema)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(canonical)
		kind += "-" + hex.EncodeToString(sum[:16])
	}
	a.seen[kind]++
	return fmt.Sprintf("%s-%d", kind, a.seen[kind]), nil
}
