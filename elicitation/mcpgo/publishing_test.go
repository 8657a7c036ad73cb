package mcpgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/protocol"
)

// userHeader names the user of a request, in the place of authentication.
const userHeader = "X-User"

type callerKey struct{}

// A publishingGateway offers what an upstream has.
type publishingGateway struct {
	url    string
	server *server.MCPServer
	users  *mcpgo.Downstream
	// rename renames the prompts of the upstream, nil: their names stay.
	rename func(string) string
}

// serveUpstream serves an upstream over HTTP and returns the transports to it.
func serveUpstream(t *testing.T, up *server.MCPServer) func() (transport.Interface, error) {
	served := httptest.NewServer(server.NewStreamableHTTPServer(up, quiet))
	t.Cleanup(served.Close)
	keep := transport.WithHTTPBasicClient(testHTTPClient(t))
	return func() (transport.Interface, error) {
		return overHTTP(t, served.URL+"/mcp", keep)(), nil
	}
}

// serve starts the gateway.
func (g *publishingGateway) serve(t *testing.T, opts mcpgo.UpstreamOptions) {
	t.Helper()
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1", server.WithElicitation(),
		server.WithPromptCapabilities(true), server.WithResourceCapabilities(false, true))
	clients, err := mcpgo.NewDownstream(router, s, &mcpgo.Options{
		Principal: func(ctx context.Context) protocol.Principal {
			name, _ := ctx.Value(callerKey{}).(string)
			return protocol.Principal{Subject: name}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	opts.Name = "up"
	up, err := clients.NewUpstream(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	if err := errors.Join(up.PublishTools(t.Context(), nil),
		up.PublishPrompts(t.Context(), g.rename), up.PublishResources(t.Context())); err != nil {
		t.Fatal(err)
	}
	handler := clients.Handler(server.NewStreamableHTTPServer(s, quiet))
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), callerKey{}, r.Header.Get(userHeader))
		handler.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(down.Close)
	g.url, g.server, g.users = down.URL+"/mcp", s, clients
}

// askReason asks for a reason and returns the answer, or the error.
func askReason(ctx context.Context, s *server.MCPServer, message string) string {
	var request mcp.ElicitationRequest
	request.Params.Message = message
	request.Params.RequestedSchema = json.RawMessage(
		`{"type":"object","properties":{"reason":{"type":"string"}},"required":["reason"]}`)
	answer, err := s.RequestElicitation(ctx, request)
	if err != nil {
		return err.Error()
	}
	content, _ := answer.Content.(map[string]any)
	return fmt.Sprint(answer.Action, " ", content["reason"])
}

// user connects a client of mcp-go, which answers each question with its message.
func (g *publishingGateway) user(t *testing.T, name string) *client.Client {
	t.Helper()
	named := transport.WithHTTPHeaders(map[string]string{userHeader: name})
	return connectUser(t, overHTTP(t, g.url, named)(), name)
}

func connectUser(t *testing.T, over transport.Interface, name string) *client.Client {
	t.Helper()
	modes := &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}
	c := client.NewClient(over, client.WithProtocolVersion(legacy),
		client.WithClientCapabilities(mcp.ClientCapabilities{Elicitation: modes}),
		client.WithElicitationHandler(answering(func(_ context.Context,
			r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			return result("accept", map[string]any{"reason": name + " to " + r.Params.Message}), nil
		})))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	return c
}
