package interop_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestHooksClientsAndRateLimiter: the server keeps a client of its backend for each session, by
// hooks or by the session's id, and a rate limiter refuses calls beyond a budget. The limiter asks
// which round of a flow a request is, so that the answers of people whose call was let in are free.
func TestHooksClientsAndRateLimiter(t *testing.T) {
	all := limitedServers()
	checkAll(t, all) // makes as many calls at once as the budget allows, with two answers each
	for name, x := range all {
		for _, revision := range []string{modern, v20251125} {
			t.Run(name+"/"+revision+"/beyond the budget", func(t *testing.T) {
				s := newSite(revision)
				who := newPerson(t, x.agreeing("books"))
				c, _ := x.dial(t, shapeClients()["rondo"], x.open(t, s), revision, who, false)
				for range limiterBudget {
					if got, err := c.do(within(t, patience), tool("version", nil)); err != nil ||
						!strings.HasPrefix(got, "version 1") {
						t.Fatalf("got %q, %v", got, err)
					}
				}
				got, err := c.do(within(t, patience), removal("books"))
				if err != nil || got != "error: too many calls" {
					t.Errorf("got %q, %v", got, err)
				}
				who.wantAsked(0)
				s.wantActs(t)
			})
		}
	}
}

// limiterBudget is how many calls a server takes.
const limiterBudget = 25

// A limiter is the author's, but for the round.
type limiter struct{ used atomic.Int64 }

// letIn reports whether a call may run. Every round of it is a request.
func (l *limiter) letIn(ctx context.Context) bool {
	if roundtrip.RoundOf(ctx).Number > 1 {
		return true
	}
	return l.used.Add(1) <= limiterBudget
}

// backendClients are clients of a backend by session. A request of no session gets one of its own.
type backendClients struct {
	mu  sync.Mutex
	all map[string]*backendClient
}

type backendClient struct{ site *site }

func (c *backendClient) remove(ctx context.Context, name string) error {
	return c.site.act(ctx, name)
}

func (c *backendClients) open(s *site, session string) *backendClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[session] == nil {
		c.all[session] = &backendClient{s}
	}
	return c.all[session]
}

func (c *backendClients) close(session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, session)
}

func limitedServers() shapes {
	return shapes{
		"official": {serve: func(t *testing.T, s *site) http.Handler {
			srv, budget := s.newOfficial(), &limiter{}
			clients := &backendClients{all: map[string]*backendClient{}}
			srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, req mcp.Request) (mcp.Result,
					error) {
					if method == protocol.MethodCallTool && !budget.letIn(ctx) {
						refused := officialText("too many calls")
						refused.IsError = true
						return refused, nil
					}
					return next(ctx, method, req)
				}
			})
			srv.AddTool(&mcp.Tool{Name: "remove", InputSchema: removeArgs},
				func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					name, err := officialName(req)
					if err != nil {
						return nil, err
					}
					client := clients.open(s, req.Session.ID())
					text, err := s.removePart(ctx, name, askOfficial(req.Session),
						func(ctx context.Context) error { return client.remove(ctx, name) })
					if err != nil {
						return nil, err
					}
					return officialText(text), nil
				})
			return s.serveOneOfficial(t, srv)
		}},
		"mcp-go": {serve: serveLimitedMCPGo},
	}
}

func serveLimitedMCPGo(t *testing.T, s *site) http.Handler {
	budget, clients := &limiter{}, &backendClients{all: map[string]*backendClient{}}
	hooks := &mcpgoserver.Hooks{}
	hooks.AddOnRegisterSession(func(_ context.Context, session mcpgoserver.ClientSession) {
		clients.open(s, session.SessionID())
	})
	hooks.AddOnUnregisterSession(func(_ context.Context, session mcpgoserver.ClientSession) {
		clients.close(session.SessionID())
	})
	var opts []mcpgoserver.ServerOption
	a, err := mcpgo.New(&mcpgo.Options{UnmodifiedHandlers: true})
	if err != nil {
		t.Fatal(err)
	}
	if !s.bare {
		opts = append(opts, a.Option()) // before the limiter, which runs inside then
	}
	limit := func(next mcpgoserver.ToolHandlerFunc) mcpgoserver.ToolHandlerFunc {
		return func(ctx context.Context, r mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult,
			error) {
			if !budget.letIn(ctx) {
				return mcpgomcp.NewToolResultError("too many calls"), nil
			}
			return next(ctx, r)
		}
	}
	srv := s.newMCPGo(append(opts, mcpgoserver.WithHooks(hooks),
		mcpgoserver.WithToolHandlerMiddleware(limit))...)
	srv.AddTool(mcpgomcp.NewToolWithRawSchema("remove", "", removeArgs),
		func(ctx context.Context, r mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult, error) {
			name := r.GetString("name", "")
			client := clients.open(s, mcpgoserver.ClientSessionFromContext(ctx).SessionID())
			text, err := s.removePart(ctx, name, askMCPGo(srv),
				func(ctx context.Context) error { return client.remove(ctx, name) })
			if err != nil {
				return nil, err
			}
			return mcpgomcp.NewToolResultText(text), nil
		})
	h := mcpgoserver.NewStreamableHTTPServer(srv,
		mcpgoserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	if s.bare {
		return h
	}
	return a.Handler(h)
}
