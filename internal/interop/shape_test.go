package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
)

// A shape returns a server's handler as it was before rondo, on one of the SDKs. Its tool "remove"
// asks two questions with the SDK's own methods and then acts. rondo runs in front of it.
type shape func(t *testing.T, s *site) http.Handler

func shapes() map[string]shape {
	return map[string]shape{"official": serveOfficial, "mcp-go": serveMCPGo}
}

// A site runs one server of a shape, and records its actions.
type site struct {
	mu      sync.Mutex
	acts    map[string]int // number of actions by name
	running int            // number of running handlers
	idle    chan struct{}  // closed when no handler runs; nil without waiters
	hangUps []func()
	ctx     context.Context
	end     context.CancelFunc
}

func newSite() *site {
	ctx, end := context.WithCancel(context.Background())
	return &site{acts: map[string]int{}, ctx: ctx, end: end}
}

// The effect act requires an answer. Like a database statement, it fails after the end of ctx.
func (s *site) act(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts[name]++
	return nil
}

// enter counts a handler as running, until leave is called. The context ends with the site, because
// the official Go SDK cannot close a legacy session while a handler waits for the user.
func (s *site) enter(ctx context.Context) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	return ctx, func() {
		stop()
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running--; s.running == 0 && s.idle != nil {
			close(s.idle)
			s.idle = nil
		}
	}
}

func (s *site) waitIdle(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	if s.running == 0 {
		s.mu.Unlock()
		return
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
	case <-within(t, patience).Done():
		t.Fatal("a handler goes on")
	}
}

// onHangUp adds a function that ends the server's sessions, like their timeout.
func (s *site) onHangUp(end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangUps = append(s.hangUps, end)
}

func (s *site) hangUp() {
	s.end()
	s.mu.Lock()
	ends := s.hangUps
	s.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// wantActs checks that the server has acted once for each name, and for no other name.
func (s *site) wantActs(t *testing.T, names ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if s.acts[name] != 1 {
			t.Errorf("the server acted %d times for %s, want 1", s.acts[name], name)
		}
	}
	if len(s.acts) != len(names) {
		t.Errorf("the server acted for %d names, want %d: %v", len(s.acts), len(names), s.acts)
	}
}

// A questioner asks a question with an SDK's method.
type questioner func(ctx context.Context, message string, schema map[string]any) (action string,
	content map[string]any, err error)

var (
	partForm = map[string]any{
		"type":       "object",
		"properties": map[string]any{"part": map[string]any{"type": "string"}},
		"required":   []string{"part"},
	}
	sureForm = map[string]any{
		"type":       "object",
		"properties": map[string]any{"sure": map[string]any{"type": "boolean"}},
		"required":   []string{"sure"},
	}
)

// removePart asks two dependent questions, and then acts.
func (s *site) removePart(ctx context.Context, name string, ask questioner) (string, error) {
	ctx, leave := s.enter(ctx)
	defer leave()
	action, content, err := ask(ctx, "Which part of "+name+"?", partForm)
	if err != nil {
		return "", fmt.Errorf("which part of %s: %w", name, err)
	}
	if action != "accept" {
		return "left " + name + " alone", nil
	}
	action, content, err = ask(ctx, fmt.Sprintf("Remove %v of %s?", content["part"], name),
		sureForm)
	if err != nil {
		return "", fmt.Errorf("whether to remove %s: %w", name, err)
	}
	if action != "accept" || content["sure"] != true {
		return "left " + name + " alone", nil
	}
	if err := s.act(ctx, name); err != nil {
		return "", err
	}
	return "removed a part of " + name, nil
}

// removal returns the request that asks two questions. removed is the result after two acceptances.
func removal() request { return tool("remove", map[string]string{"name": "books"}) }

const removed = "removed a part of books"

func agreeing() answers {
	return answers{"Which part of books?": `{"part":"drafts"}`,
		"Remove drafts of books?": `{"sure":true}`}
}

// open serves the shape on loopback until the test ends. configure may be nil.
func (x shape) open(t *testing.T, s *site, configure func(*httptest.Server)) (endpoint string) {
	t.Helper()
	server := httptest.NewUnstartedServer(x(t, s))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients hang up, which would be logged
	if configure != nil {
		configure(server)
	}
	server.Start()
	t.Cleanup(func() {
		s.hangUp()
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/mcp"
}

var removeArgs = json.RawMessage(
	`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)

func serveOfficial(t *testing.T, s *site) http.Handler {
	t.Helper()
	srv := mcp.NewServer(&mcp.Implementation{Name: "shape", Version: "1.0.0"}, nil)
	srv.AddTool(&mcp.Tool{Name: "remove", InputSchema: removeArgs},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct{ Name string }
			if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
				return nil, err
			}
			text, err := s.removePart(ctx, in.Name, askOfficial(req.Session))
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
	front, err := gosdk.New(srv, nil)
	return s.handler(t, front, err)
}

func askOfficial(session *mcp.ServerSession) questioner {
	return func(ctx context.Context, message string, schema map[string]any) (string,
		map[string]any, error) {
		answer, err := session.Elicit(ctx,
			&mcp.ElicitParams{Message: message, RequestedSchema: schema})
		if err != nil {
			return "", nil, err
		}
		return answer.Action, answer.Content, nil
	}
}

func serveMCPGo(t *testing.T, s *site) http.Handler {
	t.Helper()
	srv := mcpgoserver.NewMCPServer("shape", "1.0.0", mcpgoserver.WithToolCapabilities(false),
		mcpgoserver.WithElicitation())
	srv.AddTool(mcpgomcp.NewToolWithRawSchema("remove", "", removeArgs),
		func(ctx context.Context, r mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult, error) {
			text, err := s.removePart(ctx, r.GetString("name", ""), askMCPGo(srv))
			if err != nil {
				return nil, err
			}
			return mcpgomcp.NewToolResultText(text), nil
		})
	front, err := mcpgo.New(srv, nil)
	return s.handler(t, front, err)
}

func (s *site) handler(t *testing.T, front *hosted.Server, err error) http.Handler {
	t.Helper()
	noError(t, err)
	s.onHangUp(func() { _ = front.Close() })
	h, err := front.Handler(nil)
	noError(t, err)
	return h
}

// askMCPGo asks over the mcp-go session in the context.
func askMCPGo(srv *mcpgoserver.MCPServer) questioner {
	return func(ctx context.Context, message string, schema map[string]any) (string,
		map[string]any, error) {
		answer, err := srv.RequestElicitation(ctx, mcpgomcp.ElicitationRequest{
			Params: mcpgomcp.ElicitationParams{Message: message, RequestedSchema: schema}})
		if err != nil {
			return "", nil, err
		}
		content, _ := answer.Content.(map[string]any)
		return string(answer.Action), content, nil
	}
}

// If a call or its client ends during the second question, the handler does not act.
func TestAbandonedCalls(t *testing.T) {
	for sdk, x := range shapes() {
		for _, revision := range []string{modern, v20251125} {
			for name, dial := range shapeClients() {
				for how, disconnect := range map[string]bool{"cancel": false, "disconnect": true} {
					t.Run(sdk+"/"+revision+"/"+name+"/"+how, func(t *testing.T) {
						x.checkAbandoned(t, dial, revision, disconnect)
					})
				}
			}
		}
	}
}

func (x shape) checkAbandoned(t *testing.T, dial dialerOf, revision string, disconnect bool) {
	s := newSite()
	who := newPerson(t, agreeing())
	looks, over := make(chan struct{}), make(chan struct{})
	who.before = func(ctx context.Context, question string) {
		if question == "Remove drafts of books?" {
			close(looks)
			select {
			case <-over:
			case <-ctx.Done():
			}
		}
	}
	v := newVisit(t, "alice")
	c := dial(t, x.open(t, s, nil), revision, v, who, false)
	ctx, cancel := context.WithCancel(within(t, patience))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.do(ctx, removal())
		ended <- err
	}()
	select {
	case <-looks:
	case err := <-ended:
		t.Fatalf("the call ended before the second question: %v", err)
	}
	if disconnect {
		v.disconnect()
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the call went on")
	}
	if _, sendsNone := c.(mcpGo); !disconnect && revision != modern && !sendsNone {
		// The answer must not arrive before the cancellation.
		select {
		case <-v.cancelled:
		case <-within(t, patience).Done():
			t.Error("the client has sent no cancellation")
		}
	}
	close(over) // now the user accepts, too late
	v.disconnect()
	s.hangUp()
	s.waitIdle(t)
	s.wantActs(t)
}
