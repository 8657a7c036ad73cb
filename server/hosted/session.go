package hosted

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// A session is a session of the hosted server.
type session struct {
	host    *Server
	caller  *Caller // who opened it
	peer    Peer
	legacy  protocol.LegacySession
	offers  *protocol.InitializeResult
	catalog *server.Catalog // its subscribers see changes; nil before there is a front
	front   *server.Session // the client's session; nil in revision 2026-07-28
	ids     atomic.Int64
	uris    subscriptions
	tools   annotatedTools // tools of a server for this session only

	mu   sync.Mutex
	legs map[*leg]struct{} // running
}

func (s *session) addLeg(l *leg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.legs[l] = struct{}{}
}

func (s *session) removeLeg(l *leg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.legs, l)
}

func (s *session) annotated() *annotatedTools {
	if _, shared := s.peer.(sharedPeer); shared {
		return &s.host.tools
	}
	return &s.tools
}

func newCaller() *Caller { return &Caller{SessionID: rand.Text()} }

// callerOf returns the sender of a request, without a session.
func callerOf(ctx context.Context, req *server.Request) *Caller {
	header, _ := ctx.Value(headersKey{}).(http.Header)
	c := &Caller{Principal: req.Principal, Header: header, Version: req.Version}
	if info := req.Meta.ClientInfo; info != nil {
		c.Client = *info
	}
	c.Capabilities = req.Capabilities()
	return c
}

// openSession opens a session. ctx belongs to the request that needs it: a hosted server may use
// its values for upstream clients. The peer hides them from handlers.
func (h *Server) openSession(
	ctx context.Context, caller *Caller, front *server.Session,
) (s *session, err error) {
	defer func() {
		if v := recover(); v != nil {
			s, err = nil, fmt.Errorf("hosted: panic while a session was opened: %v", v)
		}
	}()
	s = &session{host: h, caller: caller, front: front, legs: map[*leg]struct{}{},
		uris: subscriptions{count: map[string]int{}}}
	if h.front != nil {
		s.catalog = h.front.NewCatalog(nil)
	}
	opening, cancel := context.WithTimeout(WithCaller(ctx, caller), openTimeout)
	defer cancel()
	if h.life != nil {
		defer context.AfterFunc(h.life, cancel)()
	}
	if s.peer, err = h.source(opening, caller); err != nil {
		return nil, err
	}
	if shared, ok := s.peer.(sharedPeer); ok {
		h.shared.Store(&shared)
	}
	initialize, err := encodeInitialize(caller)
	if err != nil {
		s.close()
		return nil, err
	}
	legacy, response, err := s.peer.OpenSession(opening, initialize, sessionBack{s})
	if err == nil {
		s.legacy = legacy
		s.offers, err = readOffers(response)
	}
	if err == nil {
		err = legacy.Notify(opening, &protocol.Notification{Method: protocol.NotifyInitialized})
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("hosted: the session of the hosted server was not opened: %w", err)
	}
	return s, nil
}

func encodeInitialize(caller *Caller) (*protocol.Request, error) {
	params, err := protocol.EncodeParams(&protocol.InitializeParams{
		ProtocolVersion: protocol.V20251125, Capabilities: caller.Capabilities,
		ClientInfo: caller.Client,
	})
	return &protocol.Request{ID: protocol.IntID(0), Method: protocol.MethodInitialize,
		Params: params}, err
}

func readOffers(response *protocol.Response) (*protocol.InitializeResult, error) {
	if response.Error != nil {
		return nil, response.Error
	}
	result, err := protocol.DecodeResult(protocol.V20251125, protocol.MethodInitialize,
		response.Result)
	if err != nil {
		return nil, err
	}
	return result.(*protocol.InitializeResult), nil
}

// close ends the session, and its peer unless shared.
func (s *session) close() {
	if s.legacy != nil {
		_ = s.legacy.Close()
	}
	if _, shared := s.peer.(sharedPeer); !shared && s.peer != nil {
		_ = s.peer.Close()
	}
}

func (s *session) isOver() bool {
	select {
	case <-s.legacy.Done():
		return true
	default:
		return false
	}
}

// send sends a request of this package. A panic of the hosted server becomes an error.
func (s *session) send(
	ctx context.Context, method string, params protocol.Params,
) (result json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("hosted: panic in %s: %v", method, v)
		}
	}()
	response, err := s.handle(WithCaller(ctx, s.caller), method, params, sessionBack{s})
	if err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, response.Error
	}
	return response.Result, nil
}

func (s *session) handle(ctx context.Context, method string, params protocol.Params,
	back protocol.BackCaller) (*protocol.Response, error) {
	raw, err := protocol.EncodeParams(params)
	if err != nil {
		return nil, err
	}
	request := &protocol.Request{ID: protocol.IntID(s.ids.Add(1)), Method: method, Params: raw}
	response, err := s.legacy.Handle(ctx, request, back)
	if err == nil && response == nil {
		err = fmt.Errorf("hosted: the server has not answered %s", method)
	}
	return response, err
}

// sessionBack receives messages of the hosted server unrelated to requests.
type sessionBack struct{ *session }

// Call refuses a question of any running request: no request then completes without an answer.
func (s sessionBack) Call(_ context.Context, req *protocol.Request) (*protocol.Response, error) {
	if req.Method == protocol.MethodPing {
		return answerPing(req), nil
	}
	refusal := protocol.Errorf(protocol.CodeMethodNotFound, "No client session available: the "+
		"question belongs to no call; ask with the context of the handler")
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.legs {
		l.open.add(1)
		l.open.fail(refusal)
	}
	return &protocol.Response{ID: req.ID, Error: refusal}, nil
}

func answerPing(req *protocol.Request) *protocol.Response {
	return &protocol.Response{ID: req.ID, Result: json.RawMessage("{}")}
}

func (s sessionBack) Notify(ctx context.Context, n *protocol.Notification) error {
	if s.catalog == nil {
		return nil
	}
	switch n.Method {
	case protocol.NotifyToolsChanged:
		s.annotated().forget()
		s.catalog.ListChanged(server.KindTool)
	case protocol.NotifyPromptsChanged:
		s.catalog.ListChanged(server.KindPrompt)
	case protocol.NotifyResourcesChanged:
		s.catalog.ListChanged(server.KindResource)
	case protocol.NotifyResourceUpdated:
		var updated struct {
			URI string `json:"uri"`
		}
		if err := jsonx.Decode(n.Params, &updated); err != nil {
			return err
		}
		s.catalog.ResourceUpdated(updated.URI)
	case protocol.NotifyProgress: // of an ended request
	default:
		if s.front != nil && s.isWanted(n) {
			return s.front.Send(ctx, n)
		}
	}
	return nil
}

func (s sessionBack) isWanted(n *protocol.Notification) bool {
	switch n.Method {
	case protocol.NotifyElicitationCompleted:
		return s.front.Version() == protocol.V20251125
	case protocol.NotifyMessage:
		var m protocol.LogMessage
		return jsonx.Decode(n.Params, &m) == nil &&
			m.Level.Severity() >= s.front.LogLevel().Severity()
	}
	return true
}
