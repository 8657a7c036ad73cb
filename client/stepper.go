package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/protocol"
)

// Begin sends a request and stops at the first questions instead of putting
// them to handlers, for programs that cannot wait while a person thinks: web
// servers, queues, jobs. P is a [*protocol.CallToolParams],
// [*protocol.GetPromptParams] or [*protocol.ReadResourceParams]; it is not
// changed.
//
// Without an error, either the result or the pending call is not nil. The
// result is of the type that the method answers with, for example a
// [*protocol.CallToolResult]. A pending call is to be answered with
// [Pending.Answer] and continued with [Client.Resume], in this process or in
// another.
//
// The questions have been checked as [Client.CallTool] checks them, against
// the capabilities in [Options.Manual]. Servers that ask nothing and only want
// to be called again are. Nothing comes from the cache and nothing is kept in
// it. Errors are those of [Client.CallTool].
func (c *Client) Begin(ctx context.Context, p protocol.Params) (protocol.Result, *Pending, error) {
	l, err := newLeg(p)
	if err != nil {
		return nil, nil, err
	}
	return c.stepCall(ctx, c.newCall(l))
}

// Resume sends a pending call again with its answers, its state and a new id,
// and returns what [Client.Begin] does. Every question must have been
// answered. P is not changed; whether it may be resumed twice, for example
// after a [*TransportError], is for the server to say.
//
// The questions are checked again: p may come from elsewhere. The rounds of
// all processes together are limited by [Options.MaxRounds], each resumption
// by [Options.Timeout].
func (c *Client) Resume(ctx context.Context, p *Pending) (protocol.Result, *Pending, error) {
	if p == nil || p.call == nil {
		return nil, nil, errors.New("client: pending call: nil or empty")
	}
	call := p.call
	if call.round > c.opts.MaxRounds {
		return nil, nil, &RoundsExceededError{Rounds: call.round - 1, Last: call.asked}
	}
	for _, q := range call.asked.InputRequests {
		if _, err := c.checkQuestion(q); err != nil {
			return nil, nil, err
		}
	}
	if open := p.Unanswered(); len(open) > 0 {
		return nil, nil, errPrefix.Errorf("pending call: question %.64q is not answered", open[0])
	}
	l, err := call.decodeLeg()
	if err != nil {
		return nil, nil, err
	}
	// The ids of a flow must differ, wherever its requests come from
	// (basic/patterns/mrtr).
	c.skipIDs(call.lastID)
	k := c.newCall(l)
	k.round = call.round
	k.recordAnswers(call.collectResponses(), call.asked.RequestState)
	return c.stepCall(ctx, k)
}

// step takes a call to its result or to its next questions.
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

// manual returns the capabilities that Begin and Resume declare.
func (c *Client) manualCapabilities() *protocol.ClientCapabilities {
	if c.opts.Manual != nil {
		return c.opts.Manual
	}
	return &c.caps
}

// fit checks that a question may be put to a person and returns it as it is to
// be put.
func (c *Client) checkQuestion(q protocol.KeyedRequest) (protocol.InputRequest, error) {
	caps := c.manualCapabilities()
	refuse := func(err error) (protocol.InputRequest, error) {
		return nil, &QuestionError{Key: q.Key, Kind: q.Request.Kind(), Err: err}
	}
	if missing := caps.Missing(q.Request); !missing.IsZero() {
		return refuse(fmt.Errorf("%s: %w", missing, ErrUndeclared))
	}
	switch req := q.Request.(type) {
	case *protocol.ElicitForm:
		if _, err := form.ParsePeer(req.Schema); err != nil {
			return refuse(fmt.Errorf("requestedSchema: %w", err))
		}
	case *protocol.ElicitURL:
		if err := c.questions.checkURL(req); err != nil {
			return refuse(err)
		}
	case *protocol.CreateMessage:
		if caps.Sampling == nil || !caps.Sampling.Context {
			plain := *req
			plain.IncludeContext = "" // not offered, so not to be given
			return &plain, nil
		}
	}
	return q.Request, nil
}

// skipIDs sees to it that the ids of all later requests are above n.
func (c *Client) skipIDs(n int64) {
	for {
		last := c.lastID.Load()
		if last >= n || c.lastID.CompareAndSwap(last, n) {
			return
		}
	}
}

// callLeg returns the request that p are the parameters of.
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
		"%T are not the parameters of a request that may take several rounds", p,
	)
}
