package client_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

type (
	elicited = *protocol.ElicitResult
	response = *protocol.Response
)

type fakePeer struct {
	handle func(ctx context.Context, req *protocol.Request, back protocol.Back) (response, error)

	mu     sync.Mutex
	seen   []*protocol.Request
	closed bool
}

func (p *fakePeer) Handle(ctx context.Context, req *protocol.Request,
	back protocol.Back) (response, error) {
	p.mu.Lock()
	p.seen = append(p.seen, req)
	p.mu.Unlock()
	return p.handle(ctx, req, back)
}

func (p *fakePeer) Notify(context.Context, *protocol.Notification) error { return nil }

func (p *fakePeer) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}

func (p *fakePeer) requests() []*protocol.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// script returns a peer with one result (JSON) per request. The last result repeats.
func script(results ...string) *fakePeer {
	var mu sync.Mutex
	n := 0
	return &fakePeer{handle: func(_ context.Context, req *protocol.Request,
		_ protocol.Back) (response, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return reply(req, results[min(n, len(results))-1])
	}}
}

func answering(f func(req *protocol.Request) (response, error)) *fakePeer {
	return &fakePeer{handle: func(_ context.Context, req *protocol.Request,
		_ protocol.Back) (response, error) {
		return f(req)
	}}
}

func reply(req *protocol.Request, result string) (response, error) {
	return &protocol.Response{ID: req.ID, Result: json.RawMessage(result)}, nil
}

func refuse(req *protocol.Request, e *protocol.Error) (response, error) {
	return &protocol.Response{ID: req.ID, Error: e}, nil
}

func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

const (
	done      = `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`
	nameForm  = `{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","minLength":2},"size":{"type":"integer","default":3}},"required":["name"]}}}`
	visitURL  = `{"method":"elicitation/create","params":{"mode":"url","message":"Sign in","url":"https://example.com/in"}}`
	sampling  = `{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":10}}`
	listRoots = `{"method":"roots/list"}`
)

func ask(members string) string { return `{"resultType":"input_required",` + members + `}` }

func formSays(r elicited, err error) *client.Options {
	return &client.Options{ElicitForm: func(context.Context,
		*client.FormQuestion) (elicited, error) {
		return r, err
	}}
}

func acceptName(context.Context, *client.FormQuestion) (elicited, error) {
	return client.Accept(map[string]any{"name": "Ada"})
}

func countingForm(n *atomic.Int32) *client.Options {
	return &client.Options{ElicitForm: func(ctx context.Context,
		q *client.FormQuestion) (elicited, error) {
		n.Add(1)
		return acceptName(ctx, q)
	}}
}

func newClient(t *testing.T, peer protocol.Peer, opts *client.Options) *client.Client {
	t.Helper()
	c, err := client.New(peer, opts)
	noError(t, err)
	t.Cleanup(func() {
		noError(t, c.Close())
	})
	return c
}

// member returns the JSON text at key of a request's params, "" when absent.
func member(t *testing.T, req *protocol.Request, key string) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(req.Params, &m); err != nil {
		t.Fatalf("params: %v", err)
	}
	return string(m[key])
}

func metaOf(t *testing.T, req *protocol.Request) *protocol.RequestMeta {
	t.Helper()
	p, err := protocol.DecodeParams(req.Method, req.Params)
	if err != nil {
		t.Fatalf("params: %v", err)
	}
	return p.RequestMetadata()
}

func callOnce(t *testing.T, peer protocol.Peer,
	opts *client.Options) (*protocol.CallToolResult, error) {
	t.Helper()
	return newClient(t, peer, opts).CallTool(t.Context(), "greet", map[string]any{"n": 1})
}

func wantDone(t *testing.T, r *protocol.CallToolResult, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	if len(r.Content) != 1 {
		t.Fatalf("got %d blocks of content, want 1", len(r.Content))
	}
}

func wantCall(t *testing.T, c *client.Client, tool string) {
	t.Helper()
	r, err := c.CallTool(t.Context(), tool, nil)
	wantDone(t, r, err)
}

func wantOnce(t *testing.T, peer protocol.Peer, opts *client.Options) {
	t.Helper()
	r, err := callOnce(t, peer, opts)
	wantDone(t, r, err)
}

func newServer(t testing.TB, opts *server.Options) *server.Server {
	t.Helper()
	s, err := server.New(opts)
	noError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

type nothing struct{}

func addTool(s *server.Server, name string) {
	server.AddTool(s, server.Tool{
		Name: name, Description: name,
	}, func(context.Context, *server.ToolCall, nothing) (protocol.CallToolOutcome, error) {
		return server.Text(name), nil
	})
}

var (
	noError   = testkit.NoError
	wantIs    = testkit.WantIs
	wantEqual = testkit.WantEqual
)
