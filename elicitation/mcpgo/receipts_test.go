package mcpgo_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
)

// TestAnAnswerThatTheUpstreamDoesNotTake is none where an HTTPClient sees it, and the connection
// serves other calls.
func TestAnAnswerThatTheUpstreamDoesNotTake(t *testing.T) {
	for _, test := range []struct {
		name    string
		opts    []transport.StreamableHTTPCOption
		refused string // how a question ends whose answer the upstream refuses
	}{
		{"with an HTTPClient",
			[]transport.StreamableHTTPCOption{transport.WithHTTPBasicClient(mcpgo.HTTPClient(nil))},
			"elicitation.error"},
		{"without", nil, "elicitation.completed"},
	} {
		t.Run(test.name, func(t *testing.T) { testRefusedAnswer(t, test.opts, test.refused) })
	}
}

func testRefusedAnswer(t *testing.T, opts []transport.StreamableHTTPCOption, refused string) {
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
		case <-time.After(8 * time.Second): // less than after which an answer counts as lost
			t.Fatalf("no question ended, want %s", want)
		}
	}
	router, err := elicitation.New(&elicitation.Options{Logger: zap.New(core, signal)})
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw := gatewaytest.NewUpstream(t)
	up, err := clients.NewUpstream(mcpgo.UpstreamOptions{Name: "up",
		Transport: func() (transport.Interface, error) {
			return overHTTP(t, raw.URL, opts...)(), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	s.AddTool(mcp.NewTool(gatewaytest.ToolAsk), func(ctx context.Context,
		r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return up.CallTool(ctx, r, gatewaytest.ToolAsk)
	})
	down := httptest.NewServer(clients.Handler(server.NewStreamableHTTPServer(s, quiet)))
	t.Cleanup(down.Close)
	url := down.URL + "/mcp"
	const question = `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}`
	const answer = `{"action":"accept","content":{"why":"because"}}`
	alice := gatewaytest.Connect(t, url, `{"elicitation":{}}`, `"result":`+answer, nil)
	bob := gatewaytest.Connect(t, url, `{"elicitation":{}}`, `"result":`+answer, nil)
	defer bob.Delete(t)
	defer alice.Delete(t)

	raw.RefuseAnswers.Store(true)
	stream := alice.StartCall(t, gatewaytest.ToolAsk, question)
	defer stream.Close()
	alice.Answer(t, stream)
	wait(refused)
	raw.RefuseAnswers.Store(false)
	if got := bob.Call(t, gatewaytest.ToolAsk, question); got != answer {
		t.Errorf("bob's upstream reads %s", got)
	}
	wait("elicitation.completed")
	if refused != "elicitation.error" {
		return
	}
	errors := logs.FilterMessage(refused).All()
	if len(errors) != 1 || errors[0].ContextMap()["reason"] != "answer_lost" {
		t.Errorf("logged %v", logs.All())
	}
}
