package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// PlayLegacy plays the flow in a session of revision 2025-11-25. Questions have no keys
// there; they are matched with those of modern by their words and their order.
func (s *Target) PlayLegacy(flow Flow, modern *Played) (*Played, error) {
	arguments, err := flow.Request.encodeArguments()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), flowTimeout)
	defer cancel()
	person := &person{effects: s.Effects, expected: append([]askedQuestion(nil), modern.asked...)}
	peer, err := s.Connect("")
	if err != nil {
		return nil, err
	}
	if legacy, ok := peer.(protocol.LegacyPeer); ok {
		peer = uncheckedPeer{legacy, person}
	}
	c, err := client.New(peer, person.clientOptions(flow.clientCapabilities()))
	if err != nil {
		return nil, errors.Join(err, peer.Close())
	}
	defer c.Close() // the connection is of no more use
	s.startFlow()
	s.Effects.startRound()
	p := &Played{request: flow.Request, legs: 1}
	var result protocol.Result
	switch r := flow.Request; r.Method {
	case protocol.MethodCallTool:
		result, err = resultOrError(c.CallToolParams(ctx,
			&protocol.CallToolParams{Name: r.Target, Arguments: arguments}))
	case protocol.MethodGetPrompt:
		result, err = resultOrError(c.GetPromptParams(ctx,
			&protocol.GetPromptParams{Name: r.Target, Arguments: arguments}))
	case protocol.MethodReadResource:
		result, err = resultOrError(c.ReadResource(ctx, r.Target))
	}
	person.mu.Lock()
	defer person.mu.Unlock()
	if person.problem != nil {
		return nil, person.problem
	}
	if err != nil {
		refused, ok := errors.AsType[*protocol.Error](err)
		if !ok {
			return nil, err
		}
		p.out.err, p.out.reason = refused, joinReasons(s.TakeReasons)
	}
	p.out.result, p.asked, p.reworded = result, person.asked, person.reworded
	p.unasked = person.expected
	p.effects = s.Effects.findProblems(flow)
	return p, nil
}

// resultOrError keeps a nil pointer from becoming a result.
func resultOrError[R any, P interface {
	*R
	protocol.Result
}](r P, err error) (protocol.Result, error) {
	if err != nil || r == nil {
		return nil, err
	}
	return r, nil
}

// A person answers the questions of a client as those of the modern flow were answered.
type person struct {
	mu       sync.Mutex
	expected []askedQuestion
	asked    []askedQuestion
	problem  error
	reworded []rewording
	effects  *Effects
}

func (p *person) answerQuestion(ctx context.Context, question protocol.InputRequest) (
	[]byte, error) {
	words, err := describeQuestion(question)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
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
	if answer, ok := ctx.Value(answerKey{}).(*json.RawMessage); ok {
		*answer = a.answer.Result
	}
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

// clientOptions returns options with a handler for each kind of question that the client
// declares.
func (p *person) clientOptions(caps *protocol.ClientCapabilities) *client.Options {
	opts := &client.Options{Era: protocol.Legacy,
		Info: protocol.Implementation{Name: "roundtriptest", Version: "1.0.0"}}
	if e := caps.Elicitation; e != nil && e.Form {
		opts.ElicitForm = func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			return decodeWith(protocol.DecodeElicitResult)(p.answerQuestion(ctx,
				&protocol.ElicitForm{Message: q.Message, Schema: q.Schema}))
		}
	}
	if e := caps.Elicitation; e != nil && e.URL {
		opts.ElicitURL = func(ctx context.Context, q *client.URLQuestion) (*protocol.ElicitResult,
			error) {
			return decodeWith(protocol.DecodeElicitResult)(p.answerQuestion(ctx,
				&protocol.ElicitURL{Message: q.Message, URL: q.URL}))
		}
	}
	if caps.Sampling != nil {
		opts.SamplingTools, opts.SamplingContext = caps.Sampling.Tools, caps.Sampling.Context
		opts.CreateMessage = func(ctx context.Context,
			q *client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			return decodeWith(protocol.DecodeCreateMessageResult)(p.answerQuestion(ctx,
				&q.Request))
		}
	}
	if caps.Roots != nil {
		opts.ListRoots = func(ctx context.Context, _ *client.RootsQuestion) ([]protocol.Root,
			error) {
			list, err := decodeWith(protocol.DecodeListRootsResult)(
				p.answerQuestion(ctx, &protocol.ListRoots{}))
			if err != nil {
				return nil, err
			}
			return list.Roots, nil
		}
	}
	return opts
}

func decodeWith[T any](decode func([]byte) (*T, error)) func([]byte, error) (*T, error) {
	return func(raw []byte, err error) (*T, error) {
		if err != nil {
			return nil, err
		}
		return decode(raw)
	}
}

// An uncheckedPeer sends the answers of a person as they are. The client completes answers, and
// does not send one that does not fit its form; other clients send what they have.
type uncheckedPeer struct {
	protocol.LegacyPeer
	person *person
}

func (p uncheckedPeer) OpenSession(ctx context.Context, initialize *protocol.Request,
	back protocol.BackCaller) (protocol.LegacySession, *protocol.Response, error) {
	session, response, err := p.LegacyPeer.OpenSession(ctx, initialize,
		uncheckedBack{back, p.person})
	if session == nil {
		return nil, response, err
	}
	return uncheckedSession{session, p.person}, response, err
}

type uncheckedSession struct {
	protocol.LegacySession
	person *person
}

func (s uncheckedSession) Handle(ctx context.Context, request *protocol.Request,
	back protocol.Back) (*protocol.Response, error) {
	if caller, ok := back.(protocol.BackCaller); ok {
		back = uncheckedBack{caller, s.person}
	}
	return s.LegacySession.Handle(ctx, request, back)
}

type uncheckedBack struct {
	protocol.BackCaller
	person *person
}

// answerKey is the key under which the context of a question carries a *json.RawMessage, for the
// person's answer.
type answerKey struct{}

func (b uncheckedBack) Call(ctx context.Context, request *protocol.Request) (*protocol.Response,
	error) {
	answer := new(json.RawMessage)
	response, err := b.BackCaller.Call(context.WithValue(ctx, answerKey{}, answer), request)
	b.person.mu.Lock()
	defer b.person.mu.Unlock()
	if err == nil && *answer != nil {
		response = &protocol.Response{ID: request.ID, Result: *answer}
	}
	return response, err
}
