package mcpgo_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
)

func progress(s *mcpserver.MCPServer, ctx context.Context, n int) error {
	return s.SendNotificationToClient(ctx, protocol.NotifyProgress,
		map[string]any{"progressToken": "t", "progress": n})
}

func progressText(n int) string {
	return fmt.Sprintf(`notifications/progress {"progress":%d,"progressToken":"t"}`, n)
}

func logMessage(level mcp.LoggingLevel, text string) mcp.LoggingMessageNotification {
	return mcp.NewLoggingMessageNotification(level, "l", text)
}

func TestWhatAHandlerSendsBelongsToItsRequest(t *testing.T) {
	s := newServer()
	addTool(s, "send", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
		if err := progress(s, ctx, 1); err != nil {
			return "", err
		}
		err := s.SendLogMessageToClient(ctx, logMessage(mcp.LoggingLevelDebug, "hello"))
		if err != nil {
			return "", err
		}
		if _, err = s.RequestRoots(ctx, mcp.ListRootsRequest{}); err != nil {
			return "", err
		}
		if err = s.SendNotificationToClient(ctx, "x/custom", nil); err != nil {
			return "", err
		}
		// This is unrelated to any request.
		s.SendNotificationToAllClients("x/all", map[string]any{"a": 1})
		session := mcpserver.ClientSessionFromContext(ctx)
		err = s.SendNotificationToSpecificClient(session.SessionID(), "x/one", nil)
		if err != nil {
			return "", err
		}
		err = s.SendLogMessageToSpecificClient(session.SessionID(),
			logMessage(mcp.LoggingLevelDebug, "later"))
		if err != nil {
			return "", err
		}
		addTool(s, "another", nil)
		if err := s.SendElicitationComplete(ctx, session, "e1"); err != nil {
			return "", err
		}
		return "", s.AddSessionTool(session.SessionID(), mcp.NewTool("own"), nil)
	})
	c := open(t, s, nil)
	var others sync.WaitGroup
	others.Add(5)
	c.Back.Notified = others.Done
	b := hostedtest.Says(`{"roots":[]}`)
	want(t, "result", c.Call("send", b), "")
	wantLines(t, "of the request", b.Sent(), progressText(1),
		`notifications/message {"data":"hello","level":"debug","logger":"l"}`,
		"roots/list {}", "x/custom {}",
		`notifications/elicitation/complete {"elicitationId":"e1"}`)
	others.Wait()
	wantLines(t, "of the session", c.Back.Sent(), `x/all {"a":1}`, "x/one {}",
		`notifications/message {"data":"later","level":"debug","logger":"l"}`,
		"notifications/tools/list_changed {}", "notifications/tools/list_changed {}")
}

func TestLongSeriesIsPassedOnWhole(t *testing.T) {
	const series = 10_000
	s := newServer()
	addTool(s, "series", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
		for n := range series {
			if err := progress(s, ctx, n); err != nil {
				return "", err
			}
		}
		return "", nil
	})
	addTool(s, "crowd", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
		errs := make(chan error, 40)
		for range cap(errs) {
			go func() {
				var err error
				for n := range series / cap(errs) {
					if err == nil {
						err = progress(s, ctx, n)
					}
				}
				errs <- err
			}()
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				return "", err
			}
		}
		return "", nil
	})
	c := open(t, s, nil)
	for _, tool := range []string{"series", "crowd"} {
		b := &back{}
		want(t, tool, c.Call(tool, b), "")
		sent := b.Sent()
		if len(sent) != series {
			t.Errorf("%s: %d notifications of %d", tool, len(sent), series)
		}
		for n := range sent {
			if tool == "series" && sent[n] != progressText(n) {
				t.Fatalf("notification %d is %s", n, sent[n])
			}
		}
	}
}

func TestSlowClientOfOneSessionHoldsUpNobodyElse(t *testing.T) {
	refused := make(chan error, 10_000)
	hooks := &mcpserver.Hooks{}
	hooks.AddOnError(func(_ context.Context, _ any, _ mcp.MCPMethod, _ any, err error) {
		refused <- err
	})
	s := newServer(mcpserver.WithHooks(hooks))
	c := open(t, s, nil)
	free := make(chan struct{})
	c.Back.Notified = func() { <-free }
	for range 2000 {
		s.SendNotificationToAllClients("x/all", nil)
	}
	if err := <-refused; err == nil {
		t.Error("nothing was reported")
	}
	close(free)
}

func TestSubscribersLearnOfUpdates(t *testing.T) {
	s := newServer()
	addTool(s, "subscribed", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
		session := mcpserver.ClientSessionFromContext(ctx)
		of := session.(mcpserver.SessionWithResourceSubscriptions)
		return fmt.Sprint(of.SubscribedResources(), of.IsSubscribedToResource("x://b")), nil
	})
	c := open(t, s, nil)
	for _, step := range []struct{ method, uri, want string }{
		{protocol.MethodSubscribe, "x://b", "[x://b] true"},
		{protocol.MethodSubscribe, "x://a", "[x://a x://b] true"},
		{protocol.MethodUnsubscribe, "x://b", "[x://a] false"},
	} {
		want(t, step.method, c.Do(&back{}, step.method, `{"uri":"`+step.uri+`"}`), "{}")
		want(t, "after "+step.method, c.Call("subscribed", &back{}), step.want)
	}
}

func TestSessionHasItsOwnFeatures(t *testing.T) {
	hooks := &mcpserver.Hooks{}
	s := newServer(mcpserver.WithHooks(hooks))
	hooks.AddOnRegisterSession(func(_ context.Context, session mcpserver.ClientSession) {
		id := session.SessionID()
		err := s.AddSessionTool(id, mcp.NewTool("own"),
			func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText("of " + id), nil
			})
		if err == nil {
			err = s.AddSessionResource(id, mcp.NewResource("x://own", "r"), readText(id))
		}
		if err == nil {
			err = s.AddSessionResourceTemplate(id, mcp.NewResourceTemplate("y://{id}", "t"),
				mcpserver.ResourceTemplateHandlerFunc(readText(id)))
		}
		if err != nil {
			t.Error(err)
		}
	})
	c := open(t, s, nil)
	want(t, "tool", c.Call("own", nil), "of s1")
	for uri, want := range map[string]string{"x://own": "s1", "y://1": "s1"} {
		got := c.Do(nil, protocol.MethodReadResource, `{"uri":"`+uri+`"}`)
		if got != `{"contents":[{"uri":"`+uri+`","text":"`+want+`"}]}` {
			t.Errorf("%s: %s", uri, got)
		}
	}
	noError(t, s.DeleteSessionTools("s1", "own"))
	want(t, "deleted tool", c.Call("own", nil),
		"-32602 tool 'own' not found: tool not found")
}

func readText(text string) mcpserver.ResourceHandlerFunc {
	return func(_ context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{
			mcp.TextResourceContents{URI: req.Params.URI, Text: text}}, nil
	}
}
