package mcpgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/protocol"
)

const beat = "waiting for an answer"

// progressKey is where the context of a person's call has its progress token.
type progressKey struct{}

// callWithProgress passes a call on, and progress back to its client: a report that
// comes late, too.
func callWithProgress(ctx context.Context, upstream *client.Client, call *elicitation.Call, on mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	on.Params.Meta = &mcp.Meta{ProgressToken: "upstream's"}
	relay := func(n mcp.JSONRPCNotification) {
		_ = mcpgo.RelayProgress(context.Background(), call, n)
	}
	upstream.OnNotification(relay)
	result, err := upstream.CallTool(mcpgo.WithCall(ctx, call), on)
	call.End()
	relay(progressOf("upstream's", 3, "late"))
	return result, err
}

func progressOf(token any, progress float64, message string) mcp.JSONRPCNotification {
	fields := map[string]any{"progressToken": token, "progress": progress, "total": 9, "message": message}
	return mcp.JSONRPCNotification{JSONRPC: "2.0", Notification: mcp.Notification{
		Method: protocol.NotifyProgress, Params: mcp.NotificationParams{AdditionalFields: fields},
	}}
}

// newReporter is an upstream that asks in the middle of a call, and reports before and
// after where the call has a progress token. A call that has one ends with finish.
func newReporter(finish <-chan struct{}) *server.MCPServer {
	s := server.NewMCPServer("upstream", "1", server.WithElicitation())
	s.AddTool(mcp.NewTool("form"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		wanted := r.Params.Meta != nil && r.Params.Meta.ProgressToken != nil
		report := func(progress float64, message string) {
			if wanted {
				n := progressOf(r.Params.Meta.ProgressToken, progress, message)
				_ = s.SendNotificationToClient(ctx, n.Method, n.Params.AdditionalFields)
			}
		}
		report(1, "one")
		answer, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
			Mode: "form", Message: "Sure?", RequestedSchema: json.RawMessage(schema),
		}})
		report(1.00001, "raised")
		report(2, "two")
		if wanted {
			select {
			case <-finish: // mcp-go may lose what is sent just before a response
			case <-ctx.Done():
			}
		}
		return tell(answer, err), nil
	})
	return s
}

// While a person thinks, the client of a gateway hears on the token of its call that
// the call is alive; what the upstream reports keeps rising, and nothing follows the
// result. A call without a token gets nothing, and those at the same time go on.
func TestHeartbeatsOverWires(t *testing.T) {
	for _, revision := range []string{"2025-06-18", legacy} {
		for _, token := range []any{"p", float64(7)} {
			for _, lines := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%T/lines=%v", revision, token, lines), func(t *testing.T) {
					finish := make(chan struct{})
					g := newGateway(t, setting{
						revision: legacy, serve: newReporter(finish), downLines: lines, heartbeat: 5 * time.Millisecond,
					})
					testHeartbeats(t, g, revision, token, finish)
				})
			}
		}
	}
}

func testHeartbeats(t *testing.T, g *gateway, revision string, token any, finish chan<- struct{}) {
	progress, beaten := make(chan map[string]any, 1000), make(chan struct{})
	join := func() person {
		answer := func(ctx context.Context, _ mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			select {
			case <-beaten:
				return result("accept", map[string]any{"reason": "r"}), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return connect(t, g.open(), revision, nil, answer, func(n mcp.JSONRPCNotification) {
			if n.Method == protocol.NotifyProgress {
				progress <- n.Params.AdditionalFields
			}
		})
	}
	call := join()
	other := call
	if g.down != nil { // all streams of a session share a queue, and who gets what is chance
		other = join()
	}
	ctx := within(t)
	silent, loud := make(chan string, 1), make(chan string, 1)
	ask := func(ctx context.Context, call person, to chan<- string) {
		got, err := call(ctx, "form", "")
		to <- fmt.Sprint(got, err)
	}
	go ask(ctx, other, silent)
	go ask(context.WithValue(ctx, progressKey{}, token), call, loud)

	var texts []string
	last, beats := 0.0, 0
	for last != 2 && !t.Failed() {
		p := receive(t, progress)
		if p["progressToken"] != token || p["total"] != 9.0 || p["progress"].(float64) <= last {
			t.Errorf("%v follows %v", p, last)
			break
		}
		last, texts = p["progress"].(float64), append(texts, p["message"].(string))
		if p["message"] == beat {
			if beats++; beats == 4 {
				close(beaten)
			}
		}
	}
	close(finish)
	for _, one := range []chan string{silent, loud} {
		if got := receive(t, one); !strings.HasPrefix(got, "accept ") {
			t.Errorf("got %s", got)
		}
	}
	if _, err := call(ctx, "form", ""); err != nil { // what was sent before has come
		t.Error(err)
	}
	for len(progress) > 0 {
		t.Errorf("%v after the last report", <-progress)
	}
	if want := []string{"one", beat, "raised", "two"}; !slices.Equal(slices.Compact(texts), want) {
		t.Errorf("the client heard %q, want %q", slices.Compact(texts), want)
	}
}
