package roundtrip_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A human sits behind a client of a legacy revision. What it is asked must be a
// message of that revision.
type human struct {
	t       testing.TB
	version protocol.Version
	answer  func(ctx context.Context, q protocol.InputRequest, extend func()) (json.RawMessage, error)

	mu        sync.Mutex
	asked     []protocol.InputRequest
	wire      []string // what went out, method and params
	withdrawn int
}

// Push implements [roundtrip.Pusher].
func (h *human) Push(ctx context.Context, q protocol.InputRequest, extend func()) (json.RawMessage, error) {
	data, err := protocol.AppendInputRequest(nil, h.version, q)
	if err != nil {
		h.t.Errorf("question cannot be sent: %v", err)
		return nil, err
	}
	raw := append([]byte(`{"jsonrpc":"2.0","id":"q",`), data[1:]...)
	wiretest.Validate(h.t, string(h.version), wiretest.Server, raw, "")
	h.mu.Lock()
	h.asked, h.wire = append(h.asked, q), append(h.wire, string(data))
	h.mu.Unlock()
	answer, err := h.answer(ctx, q, extend)
	if err != nil && ctx.Err() != nil {
		h.mu.Lock()
		h.withdrawn++
		h.mu.Unlock()
	}
	return answer, err
}

func (h *human) traffic() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked)
}

// willing answers every question as one would hope.
func willing(_ context.Context, q protocol.InputRequest, _ func()) (json.RawMessage, error) {
	switch q.Kind() {
	case protocol.KindElicitForm:
		return json.RawMessage(accepted), nil
	case protocol.KindElicitURL:
		return json.RawMessage(`{"action":"accept"}`), nil
	case protocol.KindCreateMessage:
		return json.RawMessage(sampled), nil
	case protocol.KindListRoots:
		return json.RawMessage(rooted), nil
	}
	return nil, fmt.Errorf("unknown question %T", q)
}

func says(text string) func(context.Context, protocol.InputRequest, func()) (json.RawMessage, error) {
	return func(context.Context, protocol.InputRequest, func()) (json.RawMessage, error) {
		return json.RawMessage(text), nil
	}
}

// silent never answers.
func silent(ctx context.Context, _ protocol.InputRequest, _ func()) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// newLegacy returns a client of revision v with somebody behind it.
func newLegacy(t testing.TB, v protocol.Version, opts roundtrip.Options, handler roundtrip.Handler) (*client, *human) {
	t.Helper()
	c := newClient(t, opts, handler)
	h := &human{t: t, version: v, answer: willing}
	c.call.Version, c.call.Push = v, h
	return c, h
}

// families are the three requests that may ask.
var families = []string{protocol.MethodCallTool, protocol.MethodGetPrompt, protocol.MethodReadResource}

// completes is a complete result of the family.
func completes(method string) (protocol.Result, error) {
	switch method {
	case protocol.MethodGetPrompt:
		return &protocol.GetPromptResult{Messages: []protocol.PromptMessage{{Role: protocol.User, Content: &protocol.TextContent{Text: "done"}}}}, nil
	case protocol.MethodReadResource:
		return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{{URI: "file:///x", Text: "done"}}}, nil
	}
	return say("done")
}

// refused sends what must be refused in the manner of the request's family.
func (c *client) refused(code int64, words ...string) {
	c.t.Helper()
	if c.call.Method == protocol.MethodCallTool {
		contains(c.t, c.done(), append(words, "error: ")...)
		return
	}
	contains(c.t, c.fails(code).Message, words...)
}
