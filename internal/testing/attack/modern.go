package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// A connection is a client of revision 2026-07-28 that validates nothing, for attacks.
type connection struct {
	target *Target
	peer   protocol.Peer
	caps   *protocol.ClientCapabilities
	last   int64 // the last request's id
}

func (s *Target) newConnection(peer protocol.Peer, flow Flow) *connection {
	return &connection{target: s, peer: peer, caps: flow.clientCapabilities()}
}

// A leg is one request of a flow, including its answers and state.
type leg struct {
	request   Request
	arguments json.RawMessage
	responses protocol.InputResponses
	state     protocol.RequestState
}

// An outcome is the response to a leg. Exactly one field other than reason is set.
type outcome struct {
	asks   *protocol.InputRequiredResult
	result protocol.Result
	err    *protocol.Error
	reason string // the server's internal error; not compared
}

// sendLeg sends a leg. Its error is the connection's.
func (c *connection) sendLeg(ctx context.Context, l leg) (outcome, error) {
	params, err := l.encode(c.requestMeta())
	if err != nil {
		return outcome{}, err
	}
	resp, err := c.sendRequest(ctx, l.request.Method, l.request.Target, params)
	out, err := c.target.decodeOutcome(protocol.V20260728, l.request.Method, resp, err)
	if err != nil {
		return outcome{}, fmt.Errorf("%s %s: %w", l.request.Method, l.request.Target, err)
	}
	return out, nil
}

// decodeOutcome decodes a response. Its error is the connection's.
func (s *Target) decodeOutcome(version protocol.Version, method string,
	resp *protocol.Response, err error) (outcome, error) {
	refused, ok := errors.AsType[*protocol.Error](err) // an error with an HTTP status
	switch {
	case err != nil && !ok:
		return outcome{}, err
	case err == nil:
		refused = resp.Error
	}
	if refused != nil {
		return outcome{err: refused, reason: s.joinReasons()}, nil
	}
	result, err := protocol.DecodeResult(version, method, resp.Result)
	if err != nil {
		return outcome{}, fmt.Errorf("the result: %w", err)
	}
	if asks, ok := result.(*protocol.InputRequiredResult); ok {
		return outcome{asks: asks}, nil
	}
	return outcome{result: result}, nil
}

func (c *connection) sendRequest(ctx context.Context, method, target string,
	params json.RawMessage) (*protocol.Response, error) {
	c.last++
	req := &protocol.Request{
		ID: protocol.IntID(c.last), Method: method, Params: params,
		Mirror: protocol.Mirror{Version: protocol.V20260728, Name: target},
	}
	return c.peer.Handle(ctx, req, nil)
}

func (c *connection) sendParams(ctx context.Context, method, target string,
	params protocol.Params) (protocol.Result, error) {
	raw, err := protocol.EncodeParams(params)
	if err != nil {
		return nil, err
	}
	resp, err := c.sendRequest(ctx, method, target, raw)
	if err == nil && resp.Error != nil {
		err = resp.Error
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return protocol.DecodeResult(protocol.V20260728, method, resp.Result)
}

func (c *connection) listTargets(ctx context.Context, method string) (names []string, err error) {
	kind, _, _ := strings.Cut(method, "/")
	result, err := c.sendParams(ctx, kind+"/list", "",
		&protocol.ListParams{RequestMeta: c.requestMeta()})
	switch r := result.(type) {
	case *protocol.ListToolsResult:
		for _, tool := range r.Tools {
			names = append(names, tool.Name)
		}
	case *protocol.ListPromptsResult:
		for _, prompt := range r.Prompts {
			names = append(names, prompt.Name)
		}
	case *protocol.ListResourcesResult:
		for _, resource := range r.Resources {
			names = append(names, resource.URI)
		}
	}
	return names, err
}

func (c *connection) requestMeta() protocol.RequestMeta {
	return protocol.RequestMeta{
		Version: protocol.V20260728, Capabilities: c.caps,
		ClientInfo: &protocol.Implementation{Name: "roundtriptest", Version: "1.0.0"},
	}
}

// encode returns raw parameters, because an encoder of their types would refuse hostile ones.
func (l leg) encode(meta protocol.RequestMeta) (json.RawMessage, error) {
	data, err := protocol.EncodeParams(&protocol.ListParams{RequestMeta: meta})
	if err != nil {
		return nil, err
	}
	var members map[string]any
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	switch l.request.Method {
	case protocol.MethodCallTool, protocol.MethodGetPrompt:
		members["name"] = l.request.Target
		if l.arguments != nil {
			members["arguments"] = l.arguments
		}
	case protocol.MethodReadResource:
		members["uri"] = l.request.Target
	default:
		return nil, errors.New("the flow has no request: use Tool, Prompt or Resource")
	}
	if state, ok := l.state.Text(); ok {
		members["requestState"] = state
	}
	if l.responses != nil {
		answers := make(map[string]json.RawMessage, len(l.responses))
		for _, r := range l.responses {
			answers[r.Key] = r.Result
		}
		members["inputResponses"] = answers
	}
	return json.Marshal(members)
}

func (s *Target) joinReasons() string {
	if s.TakeReasons == nil {
		return ""
	}
	return strings.Join(s.TakeReasons(), "; ")
}

// isComplete reports whether the flow has ended without a question or an error in either form.
func (o outcome) isComplete() bool {
	if o.result == nil {
		return false
	}
	tool, ok := o.result.(*protocol.CallToolResult)
	return !ok || !tool.IsError
}

func (o outcome) isError(code int64) bool { return o.err != nil && o.err.Code == code }

// String describes the outcome in one or more lines.
func (o outcome) String() string {
	switch {
	case o.err != nil && o.reason != "":
		return "error: " + o.err.Message + " (the server says: " + o.reason + ")"
	case o.err != nil:
		return "error: " + o.err.Message
	case o.asks != nil:
		keys := make([]string, len(o.asks.InputRequests))
		for i, q := range o.asks.InputRequests {
			keys[i] = q.Key
		}
		return "asks for " + strings.Join(keys, ", ")
	case !o.isComplete():
		return "error: " + o.resultText()
	}
	return o.resultText()
}

func textsOf(content []protocol.Content) (texts []string) {
	for _, c := range content {
		if text, ok := c.(*protocol.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return texts
}

func (o outcome) resultText() string {
	var lines []string
	switch r := o.result.(type) {
	case *protocol.CallToolResult:
		lines = textsOf(r.Content)
	case *protocol.GetPromptResult:
		for _, m := range r.Messages {
			lines = append(lines, textsOf([]protocol.Content{m.Content})...)
		}
	case *protocol.ReadResourceResult:
		for _, c := range r.Contents {
			lines = append(lines, c.Text)
		}
	}
	return strings.Join(lines, "\n")
}
