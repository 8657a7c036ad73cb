package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
)

// A core is what package hosted is to a peer: it opens a session and records what comes back.
type core struct {
	t       testing.TB
	caller  *hosted.Caller
	session protocol.LegacySession
	offers  string
	back    back // of the session
	ids     atomic.Int64
}

// A back records what is sent to it, in order, and answers questions by the script.
type back struct {
	answer func(ctx context.Context, req *protocol.Request) (string, error) // nil: refuses

	mu   sync.Mutex
	sent []string
}

func (b *back) note(method string, params json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = append(b.sent, strings.TrimSpace(method+" "+string(params)))
}

// list returns what was sent so far, a line each.
func (b *back) list() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.sent, "\n")
}

func (b *back) Notify(_ context.Context, n *protocol.Notification) error {
	b.note(n.Method, n.Params)
	return nil
}

func (b *back) Call(ctx context.Context, req *protocol.Request) (*protocol.Response, error) {
	b.note(req.Method, req.Params)
	if b.answer == nil {
		return &protocol.Response{ID: req.ID, Error: protocol.Errorf(-32601, "nobody to ask")}, nil
	}
	result, err := b.answer(ctx, req)
	if e, ok := err.(*protocol.Error); ok { // one that is wrapped is no response
		return &protocol.Response{ID: req.ID, Error: e}, nil
	}
	if err != nil {
		return nil, err
	}
	return &protocol.Response{ID: req.ID, Result: json.RawMessage(result)}, nil
}

// says answers every question with the result.
func says(result string) func(context.Context, *protocol.Request) (string, error) {
	return func(context.Context, *protocol.Request) (string, error) { return result, nil }
}

func newServer(opts *mcp.ServerOptions) *mcp.Server {
	return mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, opts)
}

const noCapabilities = `{}`

// open opens a session of a peer of s for an anonymous caller of the era that runs handlers again.
func open(t testing.TB, s *mcp.Server) *core {
	t.Helper()
	return openAt(t, gosdk.Peer(s, nil), &hosted.Caller{SessionID: "1",
		Version: protocol.V20260728}, noCapabilities)
}

func openAt(t testing.TB, p hosted.Peer, caller *hosted.Caller,
	capabilities string) *core {
	t.Helper()
	c := &core{t: t, caller: caller}
	ctx := hosted.WithCaller(context.Background(), caller)
	session, response, err := p.OpenSession(ctx, initialize(capabilities), &c.back)
	if err != nil || response.Error != nil {
		t.Fatal(err, response)
	}
	c.session, c.offers = session, string(response.Result)
	t.Cleanup(func() { _ = session.Close() })
	if err := session.Notify(ctx, initialized()); err != nil {
		t.Fatal(err)
	}
	return c
}

func initialize(capabilities string) *protocol.Request {
	return &protocol.Request{ID: protocol.IntID(0), Method: "initialize",
		Params: fmt.Appendf(nil, `{"protocolVersion":"2025-11-25","capabilities":%s,`+
			`"clientInfo":{"name":"teller","version":"3"}}`, capabilities)}
}

func initialized() *protocol.Notification {
	return &protocol.Notification{Method: "notifications/initialized"}
}

// send sends a request for the caller of the session.
func (c *core) send(ctx context.Context, method, params string, b *back) (
	*protocol.Response, error) {
	if b == nil {
		b = &back{}
	}
	request := &protocol.Request{ID: protocol.IntID(c.ids.Add(1)), Method: method,
		Params: json.RawMessage(params)}
	response, err := c.session.Handle(hosted.WithCaller(ctx, c.caller), request, b)
	if err == nil && response.ID != request.ID {
		c.t.Errorf("the response has id %v, want %v", response.ID, request.ID)
	}
	return response, err
}

// call calls a tool without arguments and returns what came out as text, see textOf.
func (c *core) call(tool string, b *back) string {
	return textOf(c.send(context.Background(), "tools/call", fmt.Sprintf(`{"name":%q}`, tool), b))
}

// textOf returns the texts of a tool's result, with "failed: " before that of a failed one; the
// JSON of any other; and of an error its code, its message and its data.
func textOf(response *protocol.Response, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	if e := response.Error; e != nil {
		return strings.TrimSpace(fmt.Sprintf("%d %s %s", e.Code, e.Message, e.Data))
	}
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if json.Unmarshal(response.Result, &r) != nil || len(r.Content) == 0 {
		return string(response.Result)
	}
	text := ""
	for _, c := range r.Content {
		text += c.Text
	}
	if r.IsError {
		return "failed: " + text
	}
	return text
}

func textf(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

type toolRequest = mcp.CallToolRequest

// addTool adds a tool whose errors become failed results.
func addTool(s *mcp.Server, name string,
	h func(context.Context, *toolRequest) (*mcp.CallToolResult, error)) {
	mcp.AddTool(s, &mcp.Tool{Name: name}, func(ctx context.Context, req *toolRequest, _ struct{}) (
		*mcp.CallToolResult, any, error) {
		result, err := h(ctx, req)
		return result, nil, err
	})
}

// addRaw adds a tool whose errors become errors of the protocol.
func addRaw(s *mcp.Server, name string,
	h func(context.Context, *toolRequest) (*mcp.CallToolResult, error)) {
	s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, h)
}

func want(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// sameJSON reports whether two texts are equal but for the order of members.
func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return a == b
	}
	return reflect.DeepEqual(x, y)
}
