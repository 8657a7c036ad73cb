package gosdk_test

import (
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/server/replicas"
)

func TestAnyReplicaTakesTheRequestsOfASession(t *testing.T) {
	gatewaytest.AcceptReplicas(t, func(t *testing.T, router *elicitation.Router,
		up *gatewaytest.Upstream, replicas *replicas.Options) http.Handler {
		server := mcp.NewServer(impl, nil)
		clients, err := gosdk.NewDownstream(router, server, &gosdk.Options{Replicas: replicas})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { gosdk.CloseIdle(clients) })
		server.AddTool(tool(gatewaytest.ToolAsk),
			passRaw(t, router, clients, up, gatewaytest.SharedHTTP))
		handler := clients.Handler(mcp.NewStreamableHTTPHandler(
			func(*http.Request) *mcp.Server { return server }, nil))
		return clients.AnswerChallenges(handler)
	})
}
