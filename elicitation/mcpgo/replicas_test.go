package mcpgo_test

import (
	"net/http"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/server/replicas"
)

func TestAnyReplicaTakesTheRequestsOfASession(t *testing.T) {
	gatewaytest.AcceptReplicas(t, func(t *testing.T, router *elicitation.Router,
		up *gatewaytest.Upstream, replicas *replicas.Options) http.Handler {
		s := server.NewMCPServer("gateway", "1", server.WithElicitation())
		clients, err := mcpgo.NewDownstream(router, s, &mcpgo.Options{Replicas: replicas})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { mcpgo.CloseIdle(clients) })
		s.AddTool(mcp.NewTool(gatewaytest.ToolAsk),
			passRaw(t, router, clients, up, gatewaytest.SharedHTTP))
		return clients.AnswerChallenges(clients.Handler(server.NewStreamableHTTPServer(s, quiet)))
	})
}
