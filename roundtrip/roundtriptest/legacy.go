package roundtriptest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// playLegacy plays the flow in a session of revision 2025-11-25. Questions have no keys
// there; they are matched with those of modern by their descriptions.
func (s *Subject) playLegacy(t testing.TB, flow Flow, modern *playedFlow) (*playedFlow, error) {
	arguments, err := flow.Request.encodeArguments()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), flowTimeout)
	defer cancel()
	person := &person{expected: append([]askedQuestion(nil), modern.asked...)}
	c, err := client.New(s.Connect(t, ""), person.clientOptions(flow.clientCapabilities()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() // the connection is of no more use
	s.Effects.resetCounts()
	p := &playedFlow{request: flow.Request, legs: 1}
	var result protocol.Result
	switch r := flow.Request; r.method {
	case protocol.MethodCallTool:
		result, err = resultOrError(c.CallToolParams(ctx,
			&protocol.CallToolParams{Name: r.target, Arguments: arguments}))
	case protocol.MethodGetPrompt:
		result, err = resultOrError(c.GetPromptParams(ctx,
			&protocol.GetPromptParams{Name: r.target, Arguments: arguments}))
	case protocol.MethodReadResource:
		result, err = resultOrError(c.ReadResource(ctx, r.target))
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
		p.out.err = refused
	}
	p.out.result, p.asked, p.effects = result, person.asked, s.Effects.findProblems(flow)
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

// A person answers the questions of a client, by their descriptions.
type person struct {
	mu       sync.Mutex
	expected []askedQuestion
	asked    []askedQuestion
	problem  error
}

func (p *person) answerQuestion(question protocol.InputRequest) ([]byte, error) {
	words, err := describeQuestion(question)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, a := range p.expected {
		if a.description == words {
			p.expected = append(p.expected[:i:i], p.expected[i+1:]...)
			a.question = question
			p.asked = append(p.asked, a)
			return a.answer.result, nil
		}
	}
	p.problem = fmt.Errorf("a session is asked what revision 2026-07-28 is not, or not as often: %s", words)
	return nil, p.problem
}

// clientOptions returns options with a handler for each kind of question that the client
// declares.
func (p *person) clientOptions(caps *protocol.ClientCapabilities) *client.Options {
	opts := &client.Options{Era: protocol.Legacy,
		Info: protocol.Implementation{Name: "roundtriptest", Version: "1.0.0"}}
	if e := caps.Elicitation; e != nil && e.Form {
		opts.ElicitForm = func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			return decodeWith(protocol.DecodeElicitResult)(p.answerQuestion(
				&protocol.ElicitForm{Message: q.Message, Schema: q.Schema}))
		}
	}
	if e := caps.Elicitation; e != nil && e.URL {
		opts.ElicitURL = func(_ context.Context, q *client.URLQuestion) (*protocol.ElicitResult,
			error) {
			return decodeWith(protocol.DecodeElicitResult)(p.answerQuestion(
				&protocol.ElicitURL{Message: q.Message, URL: q.URL}))
		}
	}
	if caps.Sampling != nil {
		opts.SamplingTools, opts.SamplingContext = caps.Sampling.Tools, caps.Sampling.Context
		opts.CreateMessage = func(_ context.Context,
			q *client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			return decodeWith(protocol.DecodeCreateMessageResult)(p.answerQuestion(&q.Request))
		}
	}
	if caps.Roots != nil {
		opts.ListRoots = func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
			list, err := decodeWith(protocol.DecodeListRootsResult)(
				p.answerQuestion(&protocol.ListRoots{}))
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
