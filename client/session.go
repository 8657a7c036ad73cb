package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A session is a connection of a legacy revision: opened by initialize, and
// used by both sides (basic/lifecycle of revision 2025-11-25). It is the way
// back for whatever belongs to no request.
type session struct {
	client      *Client
	peer        protocol.LegacySession
	agreed      *protocol.InitializeResult // nil until the server has answered
	pushes      pushHandler
	subscribers subscribers

	mu      sync.Mutex
	running map[protocol.ID]runningLeg
}

// A running leg has been sent and not been answered.
type runningLeg struct {
	ctx      context.Context // of the call, for what turns up on another stream
	receiver *sessionReceiver
}

var _ protocol.BackCaller = (*session)(nil)

// initialize opens a session. It offers the newest legacy revision and takes
// what the server chooses, if this client speaks it.
func (c *Client) openSession(ctx context.Context, peer protocol.LegacyPeer) (*connection, error) {
	s := &session{client: c, running: map[protocol.ID]runningLeg{}}
	s.pushes.session = s
	s.subscribers.session = s
	caps := c.caps
	caps.Extensions = nil // younger than every legacy revision
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
	return &connection{version: s.agreed.ProtocolVersion, peer: opened, session: s}, nil
}

// accept takes the server's choice and says that the session may begin.
func (s *session) finishHandshake(
	ctx context.Context, req *protocol.Request, resp *protocol.Response,
) error {
	c := s.client
	result, err := c.decodeResponse(protocol.V20251125, req, resp)
	if err != nil {
		return err
	}
	agreed, ok := result.(*protocol.InitializeResult)
	if !ok || s.peer == nil {
		return &ResponseError{req.Method, fmt.Errorf("unexpected result %T", result)}
	}
	if v := agreed.ProtocolVersion; !v.Known() || v.Era() != protocol.Legacy {
		err := fmt.Errorf("server chooses revision %.32q, which this client does not speak", v)
		return &ResponseError{req.Method, err}
	}
	s.mu.Lock()
	s.agreed = agreed
	s.mu.Unlock()
	ready := &protocol.Notification{Method: protocol.NotifyInitialized}
	if err := s.peer.Notify(ctx, ready); err != nil {
		return &TransportError{protocol.NotifyInitialized, err}
	}
	if c.opts.LogLevel == "" || agreed.Capabilities.Logging == nil {
		return nil
	}
	// A server that refuses sends what it likes; that is no reason to fail.
	level := &protocol.SetLevelParams{Level: c.opts.LogLevel}
	_, err = s.sendRequest(ctx, protocol.MethodSetLevel, level)
	if _, said := protocol.AsError(err); said {
		return nil
	}
	return err
}

// version is empty until the server has chosen.
func (s *session) agreedVersion() protocol.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agreed == nil {
		return ""
	}
	return s.agreed.ProtocolVersion
}

// request sends a request of the session's own.
func (s *session) sendRequest(
	ctx context.Context, method string, p protocol.Params,
) (protocol.Result, error) {
	return s.sendLeg(ctx, leg{method: method, params: p}, nil)
}

// send sends one request as legacy revisions spell it.
func (s *session) sendLeg(
	ctx context.Context, l leg, back *sessionReceiver,
) (protocol.Result, error) {
	params, err := protocol.EncodeParams(l.params)
	if err != nil {
		return nil, errPrefix.Errorf("%s: %w", l.method, err)
	}
	version := s.agreedVersion()
	req := &protocol.Request{
		ID: s.client.nextID(), Method: l.method, Params: params,
		Mirror: protocol.Mirror{Version: version},
	}
	if back == nil {
		back = &sessionReceiver{session: s, leg: l}
	}
	s.addRunning(req.ID, runningLeg{ctx, back})
	defer s.removeRunning(req.ID)
	resp, err := s.peer.Handle(ctx, req, back)
	if failed := back.notifications.firstError(); failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, &TransportError{l.method, err}
	}
	return s.client.decodeResponse(version, req, resp)
}

func (s *session) addRunning(id protocol.ID, r runningLeg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[id] = r
}

func (s *session) removeRunning(id protocol.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
}

// origin returns what a push that comes by itself belongs to, as far as that is
// beyond doubt: the one request that runs.
func (s *session) soleOrigin() (o Origin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.running) == 1 {
		for _, r := range s.running {
			o.Method, o.Target = r.receiver.leg.method, r.receiver.leg.target
		}
	}
	return o
}

// reported returns the leg that n reports the progress of, if it runs. Some
// servers send such reports on the stream that is for what belongs to no
// request.
func (s *session) findByProgress(n *protocol.Notification) (r runningLeg, ok bool) {
	var p protocol.Progress
	if n.Method != protocol.NotifyProgress || jsonx.Decode(n.Params, &p) != nil || p.Token.IsZero() {
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

// sendLegacy sends one leg in a session, as often as it takes until the person
// has visited what the server wants visited.
func (c *Client) sendInSession(
	ctx context.Context, conn *connection, l leg,
) (protocol.Result, error) {
	s := conn.session
	if l.method == protocol.MethodDiscover {
		return s.discoverResult(), nil
	}
	if err := s.stripModernFields(l.params); err != nil {
		return nil, err
	}
	meta := l.params.RequestMetadata()
	progress := c.progressHandler(ctx)
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
			// Legacy revisions have no such hints, whatever a result says.
			if hints := cacheHintsOf(result); hints != nil {
				*hints = protocol.CacheHints{}
			}
			return result, nil
		}
		said, _ := protocol.AsError(err)
		visits, asked := said.URLElicitations()
		if !asked || conn.version < protocol.V20251125 || round > c.opts.MaxRounds {
			return nil, err
		}
		origin := Origin{Method: l.method, Target: l.target, Round: round}
		if failed := c.visitURLs(ctx, origin, visits, visited, err); failed != nil {
			return nil, failed
		}
	}
}

// visit has the person visit what the server wants visited before it serves a
// request (-32042; client/elicitation of revision 2025-11-25, "URL Elicitation
// Required Error"). The same visit is not asked for twice: who did not get there
// the first time must call again.
func (c *Client) visitURLs(
	ctx context.Context, origin Origin, visits []*protocol.ElicitURL, visited map[string]bool,
	said error,
) error {
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
	c.humanClock.startQuestion()
	answers, err := c.questions.answerQuestions(ctx, origin, questions)
	c.humanClock.endQuestion()
	if err != nil {
		return err
	}
	for _, a := range answers {
		r, err := protocol.DecodeElicitResult(a.Result)
		if err != nil || r.Action != protocol.ActionAccept {
			return errPrefix.Errorf("person would not visit a URL: %w", said)
		}
	}
	return nil
}

// strip takes off what legacy revisions do not know. A retry cannot be sent:
// they have none.
func (s *session) stripModernFields(p protocol.Params) error {
	var retry protocol.Retry
	switch p := p.(type) {
	case *protocol.CallToolParams:
		retry = p.Retry
	case *protocol.GetPromptParams:
		retry = p.Retry
	case *protocol.ReadResourceParams:
		retry = p.Retry
	}
	if _, state := retry.RequestState.Text(); state || retry.InputResponses != nil {
		return errPrefix.Errorf(
			"answers and state cannot be sent: server speaks revision %s", s.agreedVersion(),
		)
	}
	meta := p.RequestMetadata()
	meta.Version, meta.ClientInfo, meta.Capabilities, meta.LogLevel = "", nil, nil, ""
	return nil
}

// discovered says what is known of the server in the form of the answer to
// server/discover, which legacy revisions do not have.
func (s *session) discoverResult() *protocol.DiscoverResult {
	a := s.agreed
	meta, err := protocol.Meta(nil).With(protocol.MetaServerInfo, a.ServerInfo)
	if err != nil {
		meta = nil
	}
	return &protocol.DiscoverResult{
		SupportedVersions: []protocol.Version{a.ProtocolVersion},
		Capabilities:      a.Capabilities,
		Instructions:      a.Instructions,
		Meta:              meta,
	}
}

// Notify takes what the server says outside of any request.
func (s *session) Notify(ctx context.Context, n *protocol.Notification) error {
	if n == nil {
		return errors.New("client: nil notification")
	}
	if s.handleOwnNotification(n) {
		return nil
	}
	if r, ok := s.findByProgress(n); ok {
		_ = r.receiver.Notify(r.ctx, n) // a failure is the call's, and not the stream's
		return nil
	}
	back := s.client.newReceiver(protocol.ID{}, nil, nil)
	if back == nil {
		return nil
	}
	return back.Notify(ctx, n)
}

// take handles what belongs to the session wherever it is said. It reports
// false for all else.
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

// Call answers what the server asks outside of any request.
func (s *session) Call(ctx context.Context, req *protocol.Request) (*protocol.Response, error) {
	return s.pushes.answerPush(ctx, s.soleOrigin(), req)
}

// legacyBack is the way back for one request of a session.
type sessionReceiver struct {
	session       *session
	leg           leg
	notifications *notificationReceiver // nil: nobody listens

	mu        sync.Mutex
	questions int
}

var _ protocol.BackCaller = (*sessionReceiver)(nil)

// Notify implements [protocol.Back].
func (b *sessionReceiver) Notify(ctx context.Context, n *protocol.Notification) error {
	if n != nil && b.session.handleOwnNotification(n) {
		return nil
	}
	if b.notifications == nil {
		return nil
	}
	return b.notifications.Notify(ctx, n)
}

// Call implements [protocol.BackCaller].
func (b *sessionReceiver) Call(
	ctx context.Context, req *protocol.Request,
) (*protocol.Response, error) {
	b.mu.Lock()
	b.questions++
	origin := Origin{Method: b.leg.method, Target: b.leg.target, Round: b.questions}
	b.mu.Unlock()
	return b.session.pushes.answerPush(ctx, origin, req)
}
