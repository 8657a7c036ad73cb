package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A session is a connection of a legacy revision (basic/lifecycle of revision 2025-11-25). As the
// peer's [protocol.BackCaller] it receives messages that belong to no request.
type session struct {
	client      *Client
	peer        protocol.LegacySession
	agreed      atomic.Pointer[protocol.InitializeResult] // nil until initialize was answered
	pushes      pushHandler
	subscribers subscribers

	mu      sync.Mutex
	running map[protocol.ID]runningLeg // by request id
}

type runningLeg struct {
	ctx      context.Context // the call's context, for progress on another stream
	receiver *sessionReceiver
}

var _ protocol.BackCaller = (*session)(nil)

// openSession opens a session. It offers the newest legacy revision and accepts all others.
func (c *Client) openSession(ctx context.Context, peer protocol.LegacyPeer) (*connection, error) {
	s := &session{client: c, running: map[protocol.ID]runningLeg{}}
	s.pushes.session = s
	s.subscribers = subscribers{session: s, uriCounts: map[string]int{}}
	caps := c.caps
	// Legacy revisions define no extensions, but MCP Apps servers read them. Tasks are different.
	caps.Extensions = maps.Clone(caps.Extensions)
	if delete(caps.Extensions, protocol.ExtensionTasks); len(caps.Extensions) == 0 {
		caps.Extensions = nil
	}
	params, err := protocol.EncodeParams(&protocol.InitializeParams{
		ProtocolVersion: protocol.V20251125, Capabilities: caps, ClientInfo: c.opts.Info,
	})
	if err != nil {
		return nil, errPrefix.Errorf("%s: %w", protocol.MethodInitialize, err)
	}
	req := &protocol.Request{ID: c.nextID(), Method: protocol.MethodInitialize, Params: params}
	opened, resp, err := peer.OpenSession(ctx, req, s)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &TransportError{req.Method, err}
	}
	s.peer = opened
	if err := s.finishHandshake(ctx, req, resp); err != nil {
		if opened != nil {
			_ = opened.Close()
		}
		return nil, err
	}
	return &connection{version: s.agreedVersion(), peer: opened, session: s}, nil
}

// finishHandshake checks the revision, sends notifications/initialized and sets the log level.
func (s *session) finishHandshake(ctx context.Context, req *protocol.Request,
	resp *protocol.Response) error {
	c := s.client
	result, err := c.decodeResponse(ctx, protocol.V20251125, req, resp)
	if err != nil {
		return err
	}
	agreed, ok := result.(*protocol.InitializeResult)
	if !ok || s.peer == nil {
		return unexpectedResult(req.Method, result)
	}
	if v := agreed.ProtocolVersion; !v.Known() || v.Era() != protocol.Legacy {
		err := fmt.Errorf("server chooses revision %.32q, which this client does not speak", v)
		return &ResponseError{req.Method, err}
	}
	s.agreed.Store(agreed)
	ready := &protocol.Notification{Method: protocol.NotifyInitialized}
	if err := s.peer.Notify(ctx, ready); err != nil {
		return &TransportError{protocol.NotifyInitialized, err}
	}
	if c.opts.LogLevel == "" || agreed.Capabilities.Logging == nil {
		return nil
	}
	// If the server refuses, it chooses the level itself.
	_, err = s.sendLeg(ctx, leg{method: protocol.MethodSetLevel,
		params: &protocol.SetLevelParams{Level: c.opts.LogLevel}}, nil)
	if _, said := protocol.AsError(err); said {
		return nil
	}
	return err
}

func (s *session) agreedVersion() protocol.Version {
	if agreed := s.agreed.Load(); agreed != nil {
		return agreed.ProtocolVersion
	}
	return ""
}

// sendLeg sends one request in legacy form. A nil back handles no notifications.
func (s *session) sendLeg(ctx context.Context, l leg,
	back *sessionReceiver) (protocol.Result, error) {
	params, err := protocol.EncodeParams(l.params)
	if err != nil {
		return nil, errPrefix.Errorf("%s: %w", l.method, err)
	}
	version := s.agreedVersion()
	req := &protocol.Request{
		ID: s.client.nextID(), Method: l.method, Params: params,
		Mirror: protocol.Mirror{Version: version, Name: l.target},
	}
	if back == nil {
		back = &sessionReceiver{session: s, leg: l}
	}
	s.mu.Lock()
	s.running[req.ID] = runningLeg{ctx, back}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, req.ID)
	}()
	resp, err := s.peer.Handle(ctx, req, back)
	if failed := back.notifications.firstError(); failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, &TransportError{l.method, err}
	}
	return s.client.decodeResponse(ctx, version, req, resp)
}

// soleOrigin returns the only running request, for questions outside any request. If there are
// several, it returns the zero value.
func (s *session) soleOrigin() (o QuestionOrigin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.running) == 1 {
		for _, r := range s.running {
			o.Method, o.Target = r.receiver.leg.method, r.receiver.leg.target
		}
	}
	return o
}

// findByProgress returns a progress notification's leg. Some arrive on the session's stream.
func (s *session) findByProgress(n *protocol.Notification) (r runningLeg, ok bool) {
	var p protocol.Progress
	if n.Method != protocol.NotifyProgress || jsonx.Decode(n.Params, &p) != nil ||
		p.Token.IsZero() {
		return runningLeg{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.running {
		if b := r.receiver.notifications; b != nil && b.token == p.Token {
			return r, true
		}
	}
	return runningLeg{}, false
}

// sendInSession sends one leg, and sends it again after a visit that the server requires (-32042).
func (c *Client) sendInSession(ctx context.Context, conn *connection,
	l leg) (protocol.Result, error) {
	s := conn.session
	if l.method == protocol.MethodDiscover {
		return s.discoverResult(), nil
	}
	if err := s.stripModernFields(l.params); err != nil {
		return nil, err
	}
	meta := l.params.RequestMetadata()
	progress := progressHandler(ctx)
	if progress != nil && meta.ProgressToken.IsZero() {
		meta.ProgressToken = protocol.StringID("p" + c.nextID().String())
	}
	visited := map[string]bool{}
	for round := 1; ; round++ {
		back := &sessionReceiver{
			session: s, leg: l, notifications: c.newReceiver(meta.ProgressToken, progress, nil),
		}
		result, err := s.sendLeg(ctx, l, back)
		back.notifications.stopReceiving()
		if err == nil {
			// Legacy revisions have no cache hints: ignore members that look like hints.
			clearCacheHints(result)
			return result, nil
		}
		said, _ := protocol.AsError(err)
		visits, asked := said.URLElicitations()
		if !asked || conn.version < protocol.V20251125 || round > c.opts.MaxRounds {
			return nil, err
		}
		origin := QuestionOrigin{Method: l.method, Target: l.target, Round: round}
		if failed := c.visitURLs(ctx, origin, visits, visited, err); failed != nil {
			return nil, failed
		}
	}
}

// visitURLs asks for the visits that the server requires (-32042; client/elicitation of revision
// 2025-11-25, "URL Elicitation Required Error"). If visited (the call's earlier visits) has one of
// them, the user did not complete it: visitURLs returns said, and the program must call again.
func (c *Client) visitURLs(ctx context.Context, origin QuestionOrigin, visits []*protocol.ElicitURL,
	visited map[string]bool, said error) error {
	questions := make(protocol.InputRequests, len(visits))
	for i, v := range visits {
		if v.ElicitationID == "" {
			err := fmt.Errorf("elicitations[%d].elicitationId: must be present", i)
			return &ResponseError{origin.Method, err}
		}
		if visited[v.ElicitationID] {
			return said
		}
		visited[v.ElicitationID] = true
		questions[i] = protocol.KeyedRequest{Key: v.ElicitationID, Request: v}
	}
	c.humanClock.Begin()
	answers, err := c.questions.answerQuestions(ctx, origin, questions)
	c.humanClock.End()
	if err != nil {
		return err
	}
	for _, a := range answers {
		r, err := protocol.DecodeElicitResult(a.Result)
		if err != nil || r.Action != protocol.ActionAccept {
			return errPrefix.Errorf("user did not visit a URL: %w", said)
		}
	}
	return nil
}

func (s *session) stripModernFields(p protocol.Params) error {
	if retry := protocol.RetryOf(p); retry != nil {
		if _, state := retry.RequestState.Text(); state || retry.InputResponses != nil {
			return errPrefix.Errorf("answers and state cannot be sent: server speaks revision %s",
				s.agreedVersion())
		}
	}
	meta := p.RequestMetadata()
	meta.Version, meta.ClientInfo, meta.Capabilities, meta.LogLevel = "", nil, nil, ""
	return nil
}

func (s *session) discoverResult() *protocol.DiscoverResult {
	a := s.agreed.Load()
	meta, _ := protocol.Meta(nil).With(protocol.MetaServerInfo, a.ServerInfo)
	return &protocol.DiscoverResult{
		SupportedVersions: []protocol.Version{a.ProtocolVersion},
		Capabilities:      a.Capabilities,
		Instructions:      a.Instructions,
		Meta:              meta,
	}
}

// Notify implements [protocol.Back] for notifications outside of any request.
func (s *session) Notify(ctx context.Context, n *protocol.Notification) error {
	if n == nil {
		return errors.New("client: nil notification")
	}
	if s.handleOwnNotification(n) {
		return nil
	}
	if r, ok := s.findByProgress(n); ok {
		_ = r.receiver.Notify(r.ctx, n) // the call reports the error; the stream continues
		return nil
	}
	back := s.client.newReceiver(protocol.ID{}, nil, nil)
	if back == nil {
		return nil
	}
	return back.Notify(ctx, n)
}

// handleOwnNotification handles the session's notifications on any stream: withdrawn questions and
// changes. It returns false for another kind, or a change without a subscriber.
func (s *session) handleOwnNotification(n *protocol.Notification) bool {
	switch n.Method {
	case protocol.NotifyCancelled:
		s.pushes.cancelPush(n.Params)
		return true
	case protocol.NotifyToolsChanged, protocol.NotifyPromptsChanged,
		protocol.NotifyResourcesChanged, protocol.NotifyResourceUpdated:
		return s.subscribers.publishNotification(n)
	}
	return false
}

// Call implements [protocol.BackCaller] for questions outside of any request.
func (s *session) Call(ctx context.Context, req *protocol.Request) (*protocol.Response, error) {
	return s.pushes.answerPush(ctx, s.soleOrigin(), req)
}

type sessionReceiver struct {
	session       *session
	leg           leg
	notifications *notificationReceiver // nil without handlers

	mu        sync.Mutex
	questions int // number of pushed questions so far
}

var _ protocol.BackCaller = (*sessionReceiver)(nil)

func (b *sessionReceiver) Notify(ctx context.Context, n *protocol.Notification) error {
	if n != nil && b.session.handleOwnNotification(n) {
		return nil
	}
	if b.notifications == nil {
		return nil
	}
	return b.notifications.Notify(ctx, n)
}

func (b *sessionReceiver) Call(ctx context.Context,
	req *protocol.Request) (*protocol.Response, error) {
	b.mu.Lock()
	b.questions++
	origin := QuestionOrigin{Method: b.leg.method, Target: b.leg.target, Round: b.questions}
	b.mu.Unlock()
	return b.session.pushes.answerPush(ctx, origin, req)
}

func clearCacheHints(r protocol.Result) {
	none := protocol.CacheHints{}
	switch r := r.(type) {
	case *protocol.ListToolsResult:
		r.Cache = none
	case *protocol.ListPromptsResult:
		r.Cache = none
	case *protocol.ListResourcesResult:
		r.Cache = none
	case *protocol.ListResourceTemplatesResult:
		r.Cache = none
	case *protocol.ReadResourceResult:
		r.Cache = none
	}
}
