package attack

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/rondo-mcp/rondo/protocol"
)

// PlayLegacy plays the flow in a session of revision 2025-11-25. There questions have no keys, and
// are matched with modern's by text and order. A flow with Fill has no modern.
func (s *Target) PlayLegacy(flow Flow, modern *Played) (*Played, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout())
	defer cancel()
	peer, err := s.Connect("")
	if err != nil {
		return nil, err
	}
	defer peer.Close() // the connection is no longer needed
	p, err := newPlayed(flow, modern)
	if err != nil {
		return nil, err
	}
	params, err := p.next.encode(protocol.RequestMeta{})
	if err != nil {
		return nil, err
	}
	person := &person{played: p, effects: s.Effects}
	session, err := openSession(ctx, peer, person, flow.clientCapabilities())
	if err != nil {
		return nil, err
	}
	defer session.Close() // likewise
	s.startFlow()
	s.Effects.startRound()
	resp, err := session.Handle(ctx, &protocol.Request{ID: protocol.IntID(2),
		Method: flow.Request.Method, Params: params}, person)
	person.mu.Lock()
	defer person.mu.Unlock()
	if person.problem != nil {
		return nil, person.problem
	}
	p.legs = 1
	p.out, err = s.decodeOutcome(protocol.V20251125, flow.Request.Method, resp, err)
	if err != nil {
		return nil, err
	}
	p.effects = s.Effects.findProblems(flow)
	return p, nil
}

// openSession opens a session of revision 2025-11-25 or an older one, as the server chooses.
func openSession(ctx context.Context, peer protocol.Peer, back protocol.BackCaller,
	caps *protocol.ClientCapabilities) (protocol.LegacySession, error) {
	legacy, ok := peer.(protocol.LegacyPeer)
	if !ok {
		return nil, errors.New("the connection has no sessions: reach the server over HTTP or a " +
			"stream (client.NewStream)")
	}
	params, err := protocol.EncodeParams(&protocol.InitializeParams{
		ProtocolVersion: protocol.V20251125, Capabilities: *caps,
		ClientInfo: protocol.Implementation{Name: "roundtriptest", Version: "1.0.0"},
	})
	if err != nil {
		return nil, err
	}
	session, resp, err := legacy.OpenSession(ctx, &protocol.Request{ID: protocol.IntID(1),
		Method: protocol.MethodInitialize, Params: params}, back)
	switch {
	case err != nil:
		return nil, err
	case resp != nil && resp.Error != nil:
		return nil, resp.Error
	case session == nil:
		return nil, errors.New("initialize opened no session")
	}
	ready := &protocol.Notification{Method: protocol.NotifyInitialized}
	if err := session.Notify(ctx, ready); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return session, nil
}

type person struct {
	mu      sync.Mutex
	played  *Played
	effects *Effects
	problem error // why the flow cannot be judged
}

// Notify ignores progress, logs and list changes.
func (*person) Notify(context.Context, *protocol.Notification) error { return nil }

// Call answers a question. It does not validate the answer, as clients need not.
func (p *person) Call(_ context.Context, req *protocol.Request) (*protocol.Response, error) {
	refuse := func(code int64, text string) *protocol.Response {
		return &protocol.Response{ID: req.ID, Error: protocol.Errorf(code, "%s", text)}
	}
	if req.Method == protocol.MethodPing {
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(`{}`)}, nil
	}
	q, err := protocol.DecodeInputRequest(req.Method, req.Params)
	if err != nil {
		return refuse(protocol.CodeInvalidParams, "this is not a question that a client knows"), nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	result, err := p.played.answerQuestion("", q)
	if err != nil {
		if p.played.flow.Fill == nil || errors.Is(err, ErrAsksAgain) { // with fill, errors are wanted
			p.problem = err
		}
		return refuse(protocol.CodeInternalError, err.Error()), nil
	}
	p.effects.startRound()
	return &protocol.Response{ID: req.ID, Result: result}, nil
}
