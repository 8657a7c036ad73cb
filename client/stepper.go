package client

import (
	"cmp"
	"context"
	"errors"

	"github.com/rondo-mcp/rondo/protocol"
)

// Begin sends a request and returns the first questions instead of calling handlers, for programs
// that cannot block on a user: web servers, queues, jobs. p is a [*protocol.CallToolParams],
// [*protocol.GetPromptParams] or [*protocol.ReadResourceParams]; it is not changed.
//
// Without an error, either the result, such as a [*protocol.CallToolResult], or the pending call is
// not nil. Answer that with [Pending.Answer] and continue with [Client.Resume], in any process.
// Questions are checked against [Options.Manual]. Errors are as in [Client.CallTool].
func (c *Client) Begin(ctx context.Context, p protocol.Params) (protocol.Result, *Pending, error) {
	l, err := newLeg(p)
	if err != nil {
		return nil, nil, err
	}
	return c.stepCall(ctx, c.newCall(l))
}

// Resume sends a pending call again with its answers, its state and a new id, and returns what
// [Client.Begin] does. Every question must be answered. p is not changed. Whether it may be resumed
// twice, for example after a [*TransportError], is up to the server.
//
// The questions are checked again, because p may come from another process. [Options.MaxRounds]
// limits the rounds of all processes together, [Options.Timeout] each resumption.
func (c *Client) Resume(ctx context.Context, p *Pending) (protocol.Result, *Pending, error) {
	if p == nil || p.call == nil {
		return nil, nil, errors.New("client: pending call: nil or empty")
	}
	call := p.call
	if call.round > c.opts.MaxRounds {
		return nil, nil, roundsExceeded(call.round - 1)
	}
	for _, q := range call.asked.InputRequests {
		if _, err := c.checkQuestion(q); err != nil {
			return nil, nil, err
		}
	}
	for _, q := range call.asked.InputRequests {
		if call.answers[q.Key] == nil {
			return nil, nil, errPrefix.Errorf("pending call: question %.64q is not answered", q.Key)
		}
	}
	params, err := protocol.DecodeParams(call.method, call.params)
	if err != nil {
		return nil, nil, errPrefix.Errorf("pending call: %w", err)
	}
	// The ids of a call must differ, even across processes (basic/patterns/mrtr).
	c.skipIDs(call.lastID)
	k := c.newCall(leg{method: call.method, target: call.target, params: params})
	k.round = call.round
	k.recordAnswers(collectResponses(call.asked.InputRequests, call.answers),
		call.asked.RequestState)
	return c.stepCall(ctx, k)
}

func (c *Client) stepCall(ctx context.Context, k *call) (protocol.Result, *Pending, error) {
	ctx, done := c.beginCall(ctx)
	defer done()
	k.original.caps = c.manualCapabilities()
	result, asked, err := c.advanceCall(ctx, k)
	if err != nil || asked == nil {
		return result, nil, err
	}
	if err := checkQuestionCount(k.original.method, asked.InputRequests); err != nil {
		return nil, nil, err
	}
	for i, q := range asked.InputRequests {
		if asked.InputRequests[i].Request, err = c.checkQuestion(q); err != nil {
			return nil, nil, err
		}
	}
	p, err := newPending(k.original, k.round, c.lastID.Load(), asked)
	return nil, p, err
}

func (c *Client) manualCapabilities() *protocol.ClientCapabilities {
	return cmp.Or(c.opts.Manual, &c.caps)
}

func (c *Client) checkQuestion(q protocol.KeyedRequest) (protocol.InputRequest, error) {
	if c.opts.RelayElicit != nil && q.Request.Kind().Method() == protocol.MethodElicit {
		return q.Request, nil
	}
	shown, _, err := c.questions.checkQuestion(c.manualCapabilities(), q.Request)
	if err != nil {
		return nil, &QuestionError{Key: q.Key, Kind: q.Request.Kind(), Err: err}
	}
	return shown, nil
}

func (c *Client) skipIDs(n int64) {
	for {
		last := c.lastID.Load()
		if last >= n || c.lastID.CompareAndSwap(last, n) {
			return
		}
	}
}

func newLeg(p protocol.Params) (leg, error) {
	switch p := p.(type) {
	case *protocol.CallToolParams:
		if p != nil {
			return leg{method: protocol.MethodCallTool, target: p.Name, params: p}, nil
		}
	case *protocol.GetPromptParams:
		if p != nil {
			return leg{method: protocol.MethodGetPrompt, target: p.Name, params: p}, nil
		}
	case *protocol.ReadResourceParams:
		if p != nil {
			return leg{method: protocol.MethodReadResource, target: p.URI, params: p}, nil
		}
	}
	return leg{}, errPrefix.Errorf(
		"%T are not the parameters of a request that may take several rounds", p)
}
