package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/rondo-mcp/rondo/protocol"
)

// PlayLegacy plays the flow in a session of revision 2025-11-25. Questions have no keys
// there; they are matched with those of modern by their words and their order. Where the flow has a
// Fill, it answers them, and modern is nil.
func (s *Target) PlayLegacy(flow Flow, modern *Played) (*Played, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout())
	defer cancel()
	peer, err := s.Connect("")
	if err != nil {
		return nil, err
	}
	defer peer.Close() // the connection is of no more use
	person := &person{effects: s.Effects, fill: flow.Fill}
	if modern != nil {
		person.expected = slices.Clone(modern.asked)
	}
	session, err := openSession(ctx, peer, person, flow.clientCapabilities())
	if err != nil {
		return nil, err
	}
	defer session.Close() // likewise
	s.startFlow()
	s.Effects.startRound()
	p := &Played{request: flow.Request, legs: 1}
	p.out, err = flow.Request.sendInSession(ctx, session, person)
	person.mu.Lock()
	defer person.mu.Unlock()
	if person.problem != nil {
		return nil, person.problem
	}
	if refused, ok := errors.AsType[*protocol.Error](err); ok { // with an HTTP status
		p.out, err = outcome{err: refused}, nil
	}
	if err != nil {
		return nil, err
	}
	if p.out.err != nil {
		p.out.reason = joinReasons(s.TakeReasons)
	}
	p.asked, p.reworded, p.unasked = person.asked, person.reworded, person.expected
	p.effects = s.Effects.findProblems(flow)
	return p, nil
}

// sendInSession makes the request in a session. The error is that of the connection.
func (r Request) sendInSession(ctx context.Context, session protocol.LegacySession,
	back protocol.BackCaller) (outcome, error) {
	arguments, err := r.encodeArguments()
	if err != nil {
		return outcome{}, err
	}
	l := leg{request: r, arguments: arguments}
	params, err := l.encodeWithoutAnswers(protocol.RequestMeta{})
	if err != nil {
		return outcome{}, err
	}
	resp, err := session.Handle(ctx,
		&protocol.Request{ID: protocol.IntID(2), Method: r.Method, Params: params}, back)
	if err != nil {
		return outcome{}, err
	}
	if resp.Error != nil {
		return outcome{err: resp.Error}, nil
	}
	result, err := protocol.DecodeResult(protocol.V20251125, r.Method, resp.Result)
	return outcome{result: result}, err
}

// openSession opens a session of revision 2025-11-25, or of an older one that the server chooses.
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

// replyInSession replies to a request of the server: to a question with what answer returns, be it
// valid or not.
func replyInSession(req *protocol.Request,
	answer func(protocol.InputRequest) (json.RawMessage, error)) *protocol.Response {
	refuse := func(code int64, text string) *protocol.Response {
		return &protocol.Response{ID: req.ID, Error: protocol.Errorf(code, "%s", text)}
	}
	if req.Method == protocol.MethodPing {
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(`{}`)}
	}
	q, err := protocol.DecodeInputRequest(req.Method, req.Params)
	if err != nil {
		return refuse(protocol.CodeInvalidParams, "this is not a question that a client knows")
	}
	result, err := answer(q)
	if err != nil {
		return refuse(protocol.CodeInternalError, err.Error())
	}
	return &protocol.Response{ID: req.ID, Result: result}
}

// A person answers the questions of a session as those of the modern flow were answered, or as fill
// does.
type person struct {
	mu       sync.Mutex
	expected []askedQuestion
	asked    []askedQuestion
	problem  error
	reworded []rewording
	effects  *Effects
	fill     func(protocol.InputRequest) (json.RawMessage, error) // nil: as expected says
}

// Notify ignores progress, logs and changes of lists.
func (*person) Notify(context.Context, *protocol.Notification) error { return nil }

// Call answers a question. The answer is sent as it is: clients need not look whether it fits.
func (p *person) Call(_ context.Context, req *protocol.Request) (*protocol.Response, error) {
	return replyInSession(req, p.answerQuestion), nil
}

func (p *person) answerQuestion(question protocol.InputRequest) (json.RawMessage, error) {
	words, err := describeQuestion(question)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fill != nil {
		a, err := fillQuestion(p.fill, question, "", words, p.asked)
		if errors.Is(err, ErrAsksAgain) {
			p.problem = err
		}
		p.asked = append(p.asked, askedQuestion{"", words, question, a})
		return a.Result, err
	}
	i := p.findExpected(question, words)
	if i < 0 {
		p.problem = fmt.Errorf("a session is asked what revision 2026-07-28 is not, or not as "+
			"often: %s", words)
		return nil, p.problem
	}
	a := p.expected[i]
	p.expected = slices.Delete(p.expected, i, i+1)
	if a.description != words {
		p.reworded = append(p.reworded, rewording{a.key, a.description, words})
	}
	a.question = question
	p.asked = append(p.asked, a)
	p.effects.startRound()
	return a.answer.Result, nil
}

// findExpected returns the index of the question that revision 2026-07-28 asks where this one is
// asked, -1 if there is none. A session may push the questions of a round in any order, so the one
// with the same words is looked for first. Else it is the next of the same kind: its words may
// hold something fresh.
func (p *person) findExpected(question protocol.InputRequest, words string) int {
	i := slices.IndexFunc(p.expected,
		func(a askedQuestion) bool { return a.description == words })
	if i >= 0 {
		return i
	}
	return slices.IndexFunc(p.expected, func(a askedQuestion) bool {
		return reflect.TypeOf(a.question) == reflect.TypeOf(question)
	})
}
