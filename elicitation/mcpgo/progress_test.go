package mcpgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/protocol"
)

// asking is an upstream that asks with a progress token and hears of progress.
func asking(token any) (s *server.MCPServer, heard chan map[string]any) {
	heard = make(chan map[string]any, 20)
	s = server.NewMCPServer("upstream", "1", server.WithElicitation())
	s.AddNotificationHandler(protocol.NotifyProgress,
		func(_ context.Context, n mcp.JSONRPCNotification) {
			heard <- n.Params.AdditionalFields
		})
	s.AddTool(mcp.NewTool("form"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			params := mcp.ElicitationParams{Mode: "form", Message: "m",
				RequestedSchema: json.RawMessage(schema)}
			if token != nil {
				params.Meta = &mcp.Meta{ProgressToken: token}
			}
			return tell(s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: params})), nil
		})
	return s, heard
}

func report(t *testing.T, over transport.Interface, token any, n int) {
	t.Helper()
	fields := map[string]any{"progressToken": token, "progress": n, "total": 6,
		"message": "reading"}
	err := over.SendNotification(within(t),
		mcp.JSONRPCNotification{JSONRPC: "2.0", Notification: mcp.Notification{
			Method: protocol.NotifyProgress,
			Params: mcp.NotificationParams{AdditionalFields: fields},
		}})
	if err != nil {
		t.Error(err)
	}
}

func receive[T any](t *testing.T, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-within(t).Done():
		t.Error("nobody hears of it")
	}
	return got
}

// TestProgress: a client that says it is still at it is waited for, and the
// upstream hears of it with the token that it gave, if it gave one.
//
// Time is real. Lines of mcp-go cannot be in a bubble of synctest, as the channels of its one
// session for them are made when the process starts; over HTTP a bubble with its client did not
// come to an end. Between two reports the process may stall for three quarters of the patience.
func TestProgress(t *testing.T) {
	const patience = 600 * time.Millisecond
	for _, test := range []struct {
		set   setting
		token any
	}{
		{setting{}, "up-7"},
		{setting{lines: true, shared: true}, float64(7)},
		{setting{downLines: true}, "up-7"},
		{setting{shared: true}, nil},
	} {
		t.Run(fmt.Sprintf("lines=%v downLines=%v token=%v", test.set.lines, test.set.downLines,
			test.token), func(t *testing.T) {
			if !test.set.lines && !test.set.downLines { // mcp-go has one session for lines
				t.Parallel()
			}
			others := make(chan any, 1) // progress that is the host's
			set := test.set
			set.revision, set.timeout = legacy, patience
			set.opts = &mcpgo.Options{
				HandleProgress: func(_ context.Context, n mcp.JSONRPCNotification) {
					others <- n.Params.AdditionalFields["progressToken"]
				}}
			var heard chan map[string]any
			set.serve, heard = asking(test.token)
			g := newGateway(t, set)
			over := g.open()
			call := newClient(t, over, legacy, nil,
				func(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
					for i := range 6 { // half as long again as the router waits
						time.Sleep(patience / 4)
						report(t, over, r.Params.Meta.ProgressToken, i)
					}
					report(t, over, "other", 1)
					return result("accept", map[string]any{"reason": "slow"}), nil
				}, nil)
			if got, err := call(within(t), "form", "prod"); err != nil ||
				got != `accept {"reason":"slow"}` {
				t.Errorf("got %q, %v", got, err)
			}
			if token := receive(t, others); token != "other" {
				t.Errorf("the host hears of %v", token)
			}
			if test.token == nil {
				if len(heard) != 0 {
					t.Errorf("the upstream gave no token and hears of %v", <-heard)
				}
				return
			}
			got := receive(t, heard)
			if got["progressToken"] != test.token || got["total"] != float64(6) ||
				got["message"] != "reading" {
				t.Errorf("the upstream hears %v", got)
			}
		})
	}
}

// TestProgressOfStrangers: progress of another session does not keep a question
// alive. Time is real as in TestProgress; the process may stall for as long as it
// likes, since the question is to run out of time anyway.
func TestProgressOfStrangers(t *testing.T) {
	const patience = 300 * time.Millisecond
	set := setting{revision: legacy, timeout: patience}
	var heard chan map[string]any
	set.serve, heard = asking("up-7")
	g := newGateway(t, set)
	stranger := g.open()
	newClient(t, stranger, legacy, nil, accept("never asked"), nil)
	reported, over := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(over) })
	call := g.mcpGo(t, legacy, nil,
		func(ctx context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			for i := 0; g.router.Pending() > 0; i++ {
				time.Sleep(patience / 6)
				report(t, stranger, r.Params.Meta.ProgressToken, i)
			}
			close(reported)
			<-over
			return nil, ctx.Err()
		}, nil)
	if got, err := call(within(t), "form", "prod"); err != nil ||
		!strings.HasSuffix(got, elicitation.MessageTimeout) {
		t.Errorf("got %q, %v", got, err)
	}
	<-reported
	if len(heard) != 0 {
		t.Errorf("the upstream hears %v", <-heard)
	}
}
