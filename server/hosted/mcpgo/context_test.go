package mcpgo_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
)

func TestHandlersSeeWhoCalls(t *testing.T) {
	s := newServer()
	addTool(s, "who", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
		deadline, _ := ctx.Deadline()
		session := mcpserver.ClientSessionFromContext(ctx)
		client := session.(mcpserver.SessionWithClientInfo)
		declared := client.GetClientCapabilities()
		return fmt.Sprint(ctx.Value(markKey{}), deadline.Unix(), " ",
			hosted.CallerFrom(ctx).Principal.Subject, " ", session.SessionID(), " ",
			client.GetClientInfo().Name, " ", declared.Sampling != nil, declared.Roots != nil, " ",
			session.(mcpserver.SessionWithLogging).GetLogLevel()), nil
	})
	c := open(t, s, &hosted.Caller{SessionID: "s7",
		Principal: protocol.Principal{Subject: "ann"}})
	ctx, cancel := context.WithDeadline(context.WithValue(t.Context(), markKey{}, "value"),
		time.Unix(4e9, 0))
	defer cancel()
	want(t, "seen", hostedtest.TextOf(c.Send(ctx, protocol.MethodCallTool, `{"name":"who"}`, nil)),
		"value4000000000 ann s7 teller true false debug")
}

func TestWithoutACaller(t *testing.T) {
	s := newServer()
	addTool(s, "id", func(ctx context.Context, req mcp.CallToolRequest) (string, error) {
		req.Header.Set("X", "y")
		return mcpserver.ClientSessionFromContext(ctx).SessionID(), nil
	})
	c := open(t, s, nil)
	ids := map[string]bool{}
	for range 2 {
		session, _, err := c.Peer.OpenSession(context.Background(),
			hostedtest.Initialize(declared), &back{})
		noError(t, err)
		ids[hostedtest.TextOf(session.Handle(context.Background(), &protocol.Request{
			ID: protocol.IntID(1), Method: protocol.MethodCallTool, Params: []byte(`{"name":"id"}`),
		}, &back{}))] = true
	}
	if len(ids) != 2 || ids[""] {
		t.Errorf("the ids of two sessions are %v", ids)
	}
}

func TestNotificationsOfTheClientReachHandlers(t *testing.T) {
	s := newServer()
	var got []string
	for _, method := range []string{protocol.NotifyInitialized, "x/custom"} {
		s.AddNotificationHandler(method,
			func(ctx context.Context, n mcp.JSONRPCNotification) {
				got = append(got, fmt.Sprint(n.Method, n.Params.AdditionalFields,
					mcpserver.ClientSessionFromContext(ctx).SessionID()))
			})
	}
	c := open(t, s, nil)
	err := c.Session.Notify(t.Context(),
		&protocol.Notification{Method: "x/custom", Params: []byte(`{"a":1}`)})
	noError(t, err)
	wantLines(t, "notifications", got, "notifications/initializedmap[]s1", "x/custommap[a:1]s1")
}
