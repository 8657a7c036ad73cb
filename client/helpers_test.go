package client_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// fakePeer answers requests with a function and records them.
type fakePeer struct {
	handle func(ctx context.Context, req *protocol.Request, back protocol.Back) (*protocol.Response,
		error)

	mu     sync.Mutex
	seen   []*protocol.Request
	closed bool
}

func (p *fakePeer) Handle(
	ctx context.Context, req *protocol.Request, back protocol.Back,
) (*protocol.Response, error) {
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

// script returns a peer that answers its n-th request with the n-th result,
// JSON text each, and repeats the last one for ever.
func script(results ...string) *fakePeer {
	var mu sync.Mutex
	n := 0
	return &fakePeer{handle: func(_ context.Context, req *protocol.Request,
		_ protocol.Back) (*protocol.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		result := results[min(n, len(results)-1)]
		n++
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(result)}, nil
	}}
}

// answering returns a peer whose responses f makes.
func answering(f func(req *protocol.Request) (*protocol.Response, error)) *fakePeer {
	return &fakePeer{handle: func(_ context.Context, req *protocol.Request,
		_ protocol.Back) (*protocol.Response, error) {
		return f(req)
	}}
}

// The results that scripts are made of.
const (
	done      = `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`
	nameForm  = `{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","minLength":2},"size":{"type":"integer","default":3}},"required":["name"]}}}`
	visitURL  = `{"method":"elicitation/create","params":{"mode":"url","message":"Sign in","url":"https://example.com/in"}}`
	sampling  = `{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":10}}`
	listRoots = `{"method":"roots/list"}`
)

// ask returns an input_required result with the given members.
func ask(members string) string { return `{"resultType":"input_required",` + members + `}` }

// acceptName answers every form with the name Ada.
func acceptName(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
	return client.Accept(map[string]any{"name": "Ada"})
}

// countingForm returns options whose form handler counts.
func countingForm(n *atomic.Int32) *client.Options {
	return &client.Options{ElicitForm: func(ctx context.Context,
		q *client.FormQuestion) (*protocol.ElicitResult, error) {
		n.Add(1)
		return acceptName(ctx, q)
	}}
}

func newClient(t *testing.T, peer protocol.Peer, opts *client.Options) *client.Client {
	t.Helper()
	c, err := client.New(peer, opts)
	noError(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
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

func callOnce(
	t *testing.T, peer protocol.Peer, opts *client.Options,
) (*protocol.CallToolResult, error) {
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

// newServer returns a server, closed when the test ends.
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

// overHTTP serves a handler and returns a modern client of it. The client does
// not send server/discover first.
func overHTTP(
	t *testing.T, h http.Handler, transport *clienthttp.Options, opts *client.Options,
) *client.Client {
	t.Helper()
	modern := client.Options{}
	if opts != nil {
		modern = *opts
	}
	modern.Era, opts = protocol.Modern, &modern
	return newClient(t, dialHTTP(t, h, transport), opts)
}

// noError ends the test if err is not nil.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
