package mcpgo_test

import (
	"context"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestStatesOfOtherTokens: where the adapter knows no principal, a state is of the holder of
// the token that it was given to.
func TestStatesOfOtherTokens(t *testing.T) {
	s := newHostServer()
	acted := 0
	s.AddTool(mcp.NewTool("typed"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			answer, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: form("Sure?")})
			if err != nil {
				return nil, err
			}
			acted++
			return mcp.NewToolResultText(string(answer.Action)), nil
		})
	endpoint, _ := serveHTTP(t, install(t, s, &mcpgo.Options{UnmodifiedHandlers: true}), s)
	as := func(token string) sender { return post(t, frontAs(t, endpoint, token)) }
	question := request{method: protocol.MethodCallTool, target: "typed"}
	const yes = `{"question-1":{"action":"accept","content":{"zeal":"much"}}}`
	first := as("alice")(question.message())
	if first.text() != "asks" {
		t.Fatalf("got %s", first.body)
	}
	if got := as("bob")(question.retry(first, yes).message()); acted != 0 ||
		got.Error.Code != protocol.CodeInvalidParams {
		t.Errorf("alice's state with bob's token: got %s", got.body)
	}
	if got := as("alice")(question.retry(first, yes).message()); got.text() != "accept" {
		t.Errorf("alice's state: got %s", got.body)
	}
}
