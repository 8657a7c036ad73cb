package mcpgo_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

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
	response, err := c.send(ctx, &fakeBack{}, protocol.MethodCallTool, `{"name":"who"}`)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "seen", textOf(string(response.Result)),
		"value4000000000 ann s7 a client true false debug")
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
		session, _, err := c.peer.OpenSession(context.Background(), &protocol.Request{
			ID: protocol.IntID(0), Method: protocol.MethodInitialize,
			Params: []byte(initializeParams)}, &fakeBack{})
		if err != nil {
			t.Fatal(err)
		}
		response, err := session.Handle(context.Background(), &protocol.Request{
			ID: protocol.IntID(1), Method: protocol.MethodCallTool, Params: []byte(`{"name":"id"}`),
		}, &fakeBack{})
		if err != nil {
			t.Fatal(err)
		}
		ids[textOf(string(response.Result))] = true
	}
	if len(ids) != 2 || ids[""] {
		t.Errorf("the ids of two sessions are %v", ids)
	}
}

// TestHandlerOfACancelledRequest holds how long Handle waits for a handler, and what comes of it.
func TestHandlerOfACancelledRequest(t *testing.T) {
	cause := errors.New("the client has left")
	for _, test := range []struct {
		name    string
		handler func(ctx context.Context, hang <-chan struct{}) (string, error)
		want    string
		waits   time.Duration
	}{
		{"returns", func(ctx context.Context, _ <-chan struct{}) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}, "error -32603 the client has left ", 0},
		{"answers late", func(context.Context, <-chan struct{}) (string, error) {
			<-time.After(4 * time.Second)
			return "late", nil
		}, "late", 3 * time.Second},
		{"never returns", func(_ context.Context, hang <-chan struct{}) (string, error) {
			<-hang
			return "too late", nil
		}, "failed: mcpgo: the handler goes on after its request: the client has left",
			5 * time.Second},
		{"panics too late", func(_ context.Context, hang <-chan struct{}) (string, error) {
			<-hang
			panic("too late")
		}, "failed: mcpgo: the handler goes on after its request: the client has left",
			5 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang := make(chan struct{})
				s := newServer()
				var late, asked error
				addTool(s, "tool", func(ctx context.Context, _ mcp.CallToolRequest) (
					string, error) {
					if err := progress(s, ctx, 1); err != nil {
						return "", err
					}
					text, err := test.handler(ctx, hang)
					late = progress(s, ctx, 2)
					_, asked = s.RequestRoots(ctx, mcp.ListRootsRequest{})
					return text, err
				})
				c := open(t, s, nil)
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(cause) })
				begun := time.Now()
				back := &fakeBack{}
				response, err := c.send(ctx, back, protocol.MethodCallTool, `{"name":"tool"}`)
				got := ""
				switch {
				case err != nil:
					got = "failed: " + err.Error()
					if !errors.Is(err, cause) {
						t.Error("the cause is lost")
					}
				case response.Error != nil:
					got = fmt.Sprintf("error %d %s ", response.Error.Code, response.Error.Message)
				default:
					got = textOf(string(response.Result))
				}
				want(t, "answer", got, test.want)
				if waited := time.Since(begun) - time.Second; waited != test.waits {
					t.Errorf("Handle has waited for %v after the end, want %v", waited, test.waits)
				}
				before := back.log()
				close(hang)
				synctest.Wait()
				if err == nil {
					return
				}
				// What a handler sends afterwards belongs to no request.
				wantLines(t, "of the request", back.log(), before...)
				if test.name == "never returns" {
					wantLines(t, "of the session", c.back.log(), progressText(2))
					if late != nil || asked == nil {
						t.Errorf("sent late: %v, asked late: %v", late, asked)
					}
				}
			})
		})
	}
}

func TestQuestionEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		addTool(s, "tool", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
			session := mcpserver.ClientSessionFromContext(ctx)
			_, err := session.(mcpserver.SessionWithRoots).ListRoots(context.Background(),
				mcp.ListRootsRequest{})
			return "", err
		})
		c := open(t, s, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		back := &fakeBack{answer: func(ctx context.Context, _ *protocol.Request) (
			*protocol.Response, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		response, err := c.send(ctx, back, protocol.MethodCallTool, `{"name":"tool"}`)
		if err != nil || response.Error.Message != context.DeadlineExceeded.Error() {
			t.Error(response, err)
		}
	})
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
	err := c.session.Notify(t.Context(),
		&protocol.Notification{Method: "x/custom", Params: []byte(`{"a":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, "notifications", got, "notifications/initializedmap[]s1", "x/custommap[a:1]s1")
}
