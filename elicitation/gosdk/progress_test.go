package gosdk_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
)

// TestProgress: progress of the client on a question extends its timeout, and the upstream
// gets it on the token that it gave.
func TestProgress(t *testing.T) { synctest.Test(t, testProgress) }

func testProgress(t *testing.T) {
	const timeout = time.Minute
	router, err := elicitation.New(&elicitation.Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	ofUpstream := make(chan any, 20) // tokens of progress on the question
	up := mcp.NewServer(impl,
		&mcp.ServerOptions{ProgressNotificationHandler: sendTokens(ofUpstream)})
	up.AddTool(tool("form"), func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return tell(req.Session.Elicit(ctx, &mcp.ElicitParams{
			Meta: mcp.Meta{"progressToken": "up-7"}, Message: "m",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string"}}}`),
		})), nil
	})

	ofHost := make(chan any, 1) // tokens of other progress
	server := mcp.NewServer(impl,
		&mcp.ServerOptions{ProgressNotificationHandler: sendTokens(ofHost)})
	clients, err := gosdk.NewDownstream(router, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(tool("form"),
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			call, err := clients.Begin(ctx, req, "up")
			if err != nil {
				return nil, err
			}
			defer call.End()
			session := connectInMemory(t, up, gosdk.NewClient(router, call, "up", impl, nil))
			defer session.Close()
			return session.CallTool(ctx, &mcp.CallToolParams{Name: "form"})
		})

	client := connectInMemory(t, server,
		mcp.NewClient(impl, &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context,
			req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			report := func(token any, progress int) {
				err := req.Session.NotifyProgress(ctx,
					&mcp.ProgressNotificationParams{ProgressToken: token,
						Progress: float64(progress)})
				if err != nil {
					t.Error(err)
				}
			}
			for i := range 6 { // for longer than the timeout
				time.Sleep(timeout / 4)
				report(req.Params.GetProgressToken(), i)
			}
			report("other", 1)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"reason": "slow"}},
				nil
		}}))
	defer client.Close()
	if got := call(t, client, "form", "prod"); got != `accept {"reason":"slow"}` {
		t.Errorf("got %s", got)
	}
	if token := <-ofHost; token != "other" {
		t.Errorf("the host gets progress on %v", token)
	}
	if token := <-ofUpstream; token != "up-7" {
		t.Errorf("the upstream gets progress on %v", token)
	}
}

// sendTokens returns a handler that sends the tokens of progress to c.
func sendTokens(c chan<- any) func(context.Context, *mcp.ProgressNotificationServerRequest) {
	return func(_ context.Context,
		req *mcp.ProgressNotificationServerRequest) {
		c <- req.Params.ProgressToken
	}
}

// connectInMemory connects a client of a legacy revision to server.
func connectInMemory(t *testing.T, server *mcp.Server, c *mcp.Client) *mcp.ClientSession {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), theirs, nil); err != nil {
		t.Fatal(err)
	}
	session, err := c.Connect(t.Context(), ours,
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	return session
}
