package mcpgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
	schema = `{"type":"object","properties":{"reason":{"type":"string"}},"required":["reason"]}`

	question = `{"mode":"form","message":"Sure?","requestedSchema":` + schema + `}`
	forms    = `{"elicitation":{"form":{}}}`
)

var quiet = server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler))

func newRouter(t *testing.T, opts *elicitation.Options) *elicitation.Router {
	t.Helper()
	router, err := elicitation.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return router
}

// overHTTP opens connections of mcp-go's over HTTP. Their answers are sent to their end, unless
// opts say otherwise: an answer that mcp-go cancels may break the request of another client on the
// same connection of net/http.
func overHTTP(t *testing.T, url string,
	opts ...transport.StreamableHTTPCOption) func() transport.Interface {
	answers := hophttp.Transport{Next: http.DefaultTransport}
	opts = append([]transport.StreamableHTTPCOption{
		transport.WithHTTPBasicClient(&http.Client{Transport: answers}),
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
	}, opts...)
	return func() transport.Interface {
		over, err := transport.NewStreamableHTTP(url, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return over
	}
}

func serveLines(t *testing.T, s *server.MCPServer) (io.ReadCloser, io.WriteCloser) {
	stdio := server.NewStdioServer(s)
	stdio.SetErrorLogger(log.New(io.Discard, "", 0))
	return pipehttp.ServeLines(t, func(ctx context.Context, in io.Reader, out io.Writer) {
		_ = stdio.Listen(ctx, in, out)
	})
}

func accept(reason string) answering {
	return func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
		return result("accept", map[string]any{"reason": reason}), nil
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func receive[T any](t *testing.T, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-within(t).Done():
		t.Error("nobody hears of it")
	}
	return got
}

// newModernUpstream returns the URL of a server of revision 2026-07-28 whose results have its
// questions.
func newModernUpstream(t *testing.T) string {
	s := server.NewMCPServer("upstream", "1", server.WithElicitation())
	s.AddTool(mcp.NewTool(gatewaytest.ToolAsk), func(ctx context.Context,
		r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer := server.ElicitationResponse(r.Params.InputResponses, "q"); answer != nil {
			content, _ := json.Marshal(answer.Content)
			return mcp.NewToolResultText(string(answer.Action) + " " + string(content)), nil
		}
		return server.NewInputRequestBuilder("").Elicit("q", mcp.ElicitationParams{Mode: "form",
			Message:         r.GetString("question", ""),
			RequestedSchema: json.RawMessage(schema)}).ToolResult(), nil
	})
	served := httptest.NewServer(server.NewStreamableHTTPServer(s, quiet))
	t.Cleanup(served.Close)
	return served.URL
}

// TestUpstreamsOfTheModernRevision ask the clients of the gateway, each for its own call.
func TestUpstreamsOfTheModernRevision(t *testing.T) {
	url := newModernUpstream(t)
	backend := func() *gatewaytest.Backend {
		return &gatewaytest.Backend{Upstream: &gatewaytest.Upstream{URL: url},
			ProtocolVersion: modern}
	}
	byHand := func(mode gatewaytest.Mode) http.Handler {
		s, router := server.NewMCPServer("gateway", "1", server.WithElicitation()),
			newRouter(t, nil)
		clients, err := mcpgo.NewDownstream(router, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.AddTool(mcp.NewTool(gatewaytest.ToolAsk), passTo(t, router, clients, backend(), mode))
		return server.NewStreamableHTTPServer(s, quiet)
	}
	whole, _ := build(t, newRouter(t, nil), backend())
	for name, gateway := range map[string]http.Handler{"an Upstream": whole,
		"a shared client":        byHand(gatewaytest.SharedHTTP),
		"a client for each call": byHand(gatewaytest.PerCallHTTP)} {
		t.Run(name, func(t *testing.T) {
			served := httptest.NewServer(gateway)
			t.Cleanup(served.Close)
			var users sync.WaitGroup
			for _, user := range []string{"ann", "bob"} {
				c := gatewaytest.Connect(t, served.URL, forms,
					`"result":{"action":"accept","content":{"reason":"`+user+` to MESSAGE"}}`, nil)
				users.Go(func() {
					for n := range 5 {
						want := fmt.Sprintf(`accept {"reason":"%s to %d"}`, user, n)
						got := c.Call(t, gatewaytest.ToolAsk, fmt.Sprintf(`"%d"`, n))
						if got != want {
							t.Errorf("got %s, want %s", got, want)
						}
					}
				})
			}
			users.Wait()
		})
	}
}

// start connects c until the test ends.
func start(t *testing.T, c *client.Client) error {
	t.Helper()
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Start(t.Context()); err != nil {
		return err
	}
	_, err := c.Initialize(t.Context(), mcp.InitializeRequest{})
	return err
}

// TestAmbiguous: two calls on one connection, nobody took turns, and nothing
// says whose question it is.
func TestAmbiguous(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1")
	clients, err := mcpgo.NewDownstream(router, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	session := server.NewInProcessSessionWithHandlers("one", nil, accept("r"), nil)
	session.SetClientCapabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}})
	ctx, cancel := context.WithCancel(s.WithContext(t.Context(), session))
	defer cancel()
	question := mcp.ElicitationRequest{Params: mcp.ElicitationParams{Mode: "form",
		Message: "Whose?", RequestedSchema: json.RawMessage(schema)}}
	upstream := mcpgo.ElicitationHandler(router, "shared")
	if _, err := upstream.Elicit(t.Context(), question); err == nil {
		t.Error("no call: no error")
	}
	first, err := clients.Begin(ctx, "shared")
	if err != nil {
		t.Fatal(err)
	}
	defer first.End()
	if got, err := upstream.Elicit(t.Context(), question); err != nil || got.Action != "accept" {
		t.Errorf("one call: got %v, %v", got, err)
	}
	second, err := clients.Begin(ctx, "shared")
	if err != nil {
		t.Fatal(err)
	}
	defer second.End()
	_, err = upstream.Elicit(t.Context(), question)
	if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeMethodNotFound {
		t.Errorf("two calls: got %v, want a refusal", err)
	}
	if got, err := upstream.Elicit(mcpgo.WithCall(t.Context(), second), question); err != nil ||
		got.Action != "accept" {
		t.Errorf("two calls and a word which: got %v, %v", got, err)
	}
	if _, err := clients.Begin(t.Context(), "shared"); err == nil {
		t.Error("a context without a session: no error")
	}
}

// TestSessionEnds: the router forgets a session when mcp-go does.
func TestSessionEnds(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1")
	clients, err := mcpgo.NewDownstream(router, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	session := server.NewInProcessSession("one", nil)
	if err := s.RegisterSession(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	ctx := s.WithContext(t.Context(), session)
	first, err := clients.Begin(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	second, err := clients.Begin(ctx, "b")
	if err != nil || first.Origin().Session != second.Origin().Session {
		t.Errorf("two calls of one session are of two: %v", err)
	}
	first.End()
	second.End()
	s.UnregisterSession(t.Context(), "one")
	if _, err := router.Begin(ctx, elicitation.Origin{Session: first.Origin().Session},
		elicitation.Via{}, "c"); err == nil {
		t.Error("the session is still attached")
	}
}

// TestNewDownstreamRefuses: a router and a server are required.
func TestNewDownstreamRefuses(t *testing.T) {
	if _, err := mcpgo.NewDownstream(nil, server.NewMCPServer("test", "1"), nil); err == nil {
		t.Error("without a router: no error")
	}
	if _, err := mcpgo.NewDownstream(new(elicitation.Router), nil, nil); err == nil {
		t.Error("without a server: no error")
	}
}
