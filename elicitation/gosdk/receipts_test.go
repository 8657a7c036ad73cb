package gosdk_test

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
)

// TestAnAnswerThatTheUpstreamDoesNotTake is none, and the connection serves other calls.
func TestAnAnswerThatTheUpstreamDoesNotTake(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	ended := make(chan string, 2)
	signal := zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == "elicitation.error" || e.Message == "elicitation.completed" {
			ended <- e.Message
		}
		return nil
	})
	wait := func(want string) {
		t.Helper()
		select {
		case got := <-ended:
			if got != want {
				t.Errorf("a question ended with %s, want %s", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("no question ended, want %s", want)
		}
	}
	router, err := elicitation.New(&elicitation.Options{Logger: zap.New(core, signal)})
	if err != nil {
		t.Fatal(err)
	}
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw := gatewaytest.NewUpstream(t)
	up, err := clients.NewUpstream(gosdk.UpstreamOptions{Name: "up", Implementation: impl,
		Transport: func() mcp.Transport {
			return &mcp.StreamableClientTransport{Endpoint: raw.URL}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	server.AddTool(tool(gatewaytest.ToolAsk), upstreamTool(up))
	url := serveDownstream(t, clients, server)
	const question = `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}`
	const answer = `{"action":"accept","content":{"why":"because"}}`
	alice := gatewaytest.Connect(t, url, `{"elicitation":{}}`, `"result":`+answer, nil)
	bob := gatewaytest.Connect(t, url, `{"elicitation":{}}`, `"result":`+answer, nil)

	defer bob.Delete(t)
	defer alice.Delete(t) // and with it the call that waits for an upstream that waits

	raw.RefuseAnswers.Store(true)
	stream := alice.StartCall(t, gatewaytest.ToolAsk, question)
	alice.Answer(t, stream)
	wait("elicitation.error")
	stream.Close()
	raw.RefuseAnswers.Store(false)
	if got := bob.Call(t, gatewaytest.ToolAsk, question); got != answer {
		t.Errorf("bob's upstream reads %s", got)
	}
	wait("elicitation.completed") // which may be after the upstream has gone on
	errors, completed := logs.FilterMessage("elicitation.error").All(),
		logs.FilterMessage("elicitation.completed").All()
	if len(errors) != 1 || errors[0].ContextMap()["reason"] != "answer_lost" ||
		len(completed) != 1 {
		t.Fatalf("logged %v", logs.All())
	}
	if one, other := errors[0].ContextMap()["upstream_session"],
		completed[0].ContextMap()["upstream_session"]; one != other {
		t.Errorf("the connections are %v and %v, want one", one, other)
	}
}

func upstreamTool(up *gosdk.Upstream) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return up.CallTool(ctx, req, gatewaytest.ToolAsk)
	}
}
