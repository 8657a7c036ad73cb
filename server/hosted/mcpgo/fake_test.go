package mcpgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
)

// A fakeBack records what the hosted server sends, and answers its questions.
type fakeBack struct {
	answer func(ctx context.Context, req *protocol.Request) (*protocol.Response, error)
	notify func() // called after each notification; nil: nothing

	mu   sync.Mutex
	sent []string // "<method> <params>", of questions and notifications
}

func (b *fakeBack) record(method string, params json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = append(b.sent, method+" "+string(params))
}

// log returns what has been sent.
func (b *fakeBack) log() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sent)
}

// Notify implements protocol.BackCaller.
func (b *fakeBack) Notify(_ context.Context, n *protocol.Notification) error {
	b.record(n.Method, n.Params)
	if b.notify != nil {
		b.notify()
	}
	return nil
}

// Call implements protocol.BackCaller.
func (b *fakeBack) Call(ctx context.Context, req *protocol.Request) (*protocol.Response, error) {
	b.record(req.Method, req.Params)
	if b.answer == nil {
		return &protocol.Response{ID: req.ID,
			Error: protocol.Errorf(protocol.CodeMethodNotFound, "nobody to ask")}, nil
	}
	return b.answer(ctx, req)
}

// answering returns a back that gives an answer to all questions.
func answering(result string) *fakeBack {
	return &fakeBack{answer: func(_ context.Context, req *protocol.Request) (
		*protocol.Response, error) {
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(result)}, nil
	}}
}

// newServer returns a server that offers everything.
func newServer(opts ...mcpserver.ServerOption) *mcpserver.MCPServer {
	return mcpserver.NewMCPServer("hosted", "1.0.0", slices.Concat([]mcpserver.ServerOption{
		mcpserver.WithToolCapabilities(true), mcpserver.WithPromptCapabilities(true),
		mcpserver.WithResourceCapabilities(true, true), mcpserver.WithLogging(),
		mcpserver.WithElicitation(), mcpserver.WithRoots(), mcpserver.WithCompletions(),
	}, opts)...)
}

// addTool adds a tool whose handler returns a text.
func addTool(s *mcpserver.MCPServer, name string,
	f func(ctx context.Context, req mcp.CallToolRequest) (string, error)) {
	s.AddTool(mcp.NewTool(name),
		func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, err := f(ctx, req)
			if err != nil {
				return nil, err
			}
			return mcp.NewToolResultText(text), nil
		})
}

// A fakeCore does with a peer what the core of hosted servers does.
type fakeCore struct {
	t       testing.TB
	peer    hosted.Peer
	session protocol.LegacySession
	back    *fakeBack // of the session
	offers  *protocol.Response
	caller  *hosted.Caller
	ids     int64
}

const initializeParams = `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},` +
	`"sampling":{}},"clientInfo":{"name":"a client","version":"3"}}`

// open opens a session of a server, which is closed with the test.
func open(t testing.TB, s *mcpserver.MCPServer, caller *hosted.Caller) *fakeCore {
	t.Helper()
	c := &fakeCore{t: t, peer: mcpgo.Peer(s), back: &fakeBack{}, caller: caller}
	if c.caller == nil {
		c.caller = &hosted.Caller{SessionID: "s1"}
	}
	var err error
	ctx := hosted.WithCaller(context.Background(), c.caller)
	c.session, c.offers, err = c.peer.OpenSession(ctx, &protocol.Request{ID: protocol.IntID(0),
		Method: protocol.MethodInitialize, Params: json.RawMessage(initializeParams)}, c.back)
	if err != nil || c.offers.Error != nil {
		t.Fatal("initialize:", err, c.offers)
	}
	t.Cleanup(func() { _ = c.peer.Close() })
	err = c.session.Notify(ctx, &protocol.Notification{Method: protocol.NotifyInitialized})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// send sends a request, under ctx. Calls must not overlap; see request.
func (c *fakeCore) send(ctx context.Context, back *fakeBack, method, params string) (
	*protocol.Response, error) {
	c.ids++
	return c.request(ctx, c.ids, back, method, params)
}

func (c *fakeCore) request(ctx context.Context, id int64, back *fakeBack, method, params string) (
	*protocol.Response, error) {
	req := &protocol.Request{ID: protocol.IntID(id), Method: method}
	if params != "" {
		req.Params = json.RawMessage(params)
	}
	return c.session.Handle(hosted.WithCaller(ctx, c.caller), req, back)
}

// do returns the result of a request, or "error <code> <message> <data>".
func (c *fakeCore) do(back *fakeBack, method, params string) string {
	c.t.Helper()
	response, err := c.send(c.t.Context(), back, method, params)
	if err != nil {
		return "failed: " + err.Error()
	}
	if e := response.Error; e != nil {
		return errorText(e.Code, e.Message, e.Data)
	}
	return string(response.Result)
}

func errorText(code int64, message string, data json.RawMessage) string {
	return fmt.Sprintf("error %d %s %s", code, message, data)
}

// call calls a tool and returns its text, or what do returns.
func (c *fakeCore) call(back *fakeBack, tool string) string {
	c.t.Helper()
	return textOf(c.do(back, protocol.MethodCallTool, `{"name":"`+tool+`"}`))
}

// textOf returns the text of a tool's result, or the result if it has none.
func textOf(result string) string {
	var r struct{ Content []struct{ Text string } }
	if json.Unmarshal([]byte(result), &r) == nil && len(r.Content) == 1 {
		return r.Content[0].Text
	}
	return result
}

func want(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

func wantLines(t testing.TB, what string, got []string, lines ...string) {
	t.Helper()
	if !slices.Equal(got, lines) {
		t.Errorf("%s:\ngot  %q\nwant %q", what, got, lines)
	}
}
