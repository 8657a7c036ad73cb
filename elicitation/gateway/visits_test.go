package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// Visits outlive their calls but do not keep the calls' arguments; a late completion is announced.
func TestVisitsKeepNothingOfTheirCalls(t *testing.T) {
	const calls, size = 24, 1 << 20
	later := make(chan *server.Call, calls)
	srv := newServer(t, nil)
	server.AddTool(srv, server.Tool{Name: "visit"}, func(
		ctx context.Context, call *server.ToolCall, _ struct {
			Text string `json:"text"`
		},
	) (outcome, error) {
		if _, err := call.Push(ctx, &protocol.ElicitURL{Message: "Pay",
			URL:           "https://pay.example/1",
			ElicitationID: string(call.Arguments[9:20])}); err != nil {
			return nil, err
		}
		if strings.HasPrefix(string(call.Arguments), `{"text":"last`) {
			c := call.Call
			later <- &c
		}
		return server.Text("paid"), nil
	})
	ended := make(chan string, 1)
	c := connectWith(t, front(t, ops(serveHTTP(t, srv), protocol.Legacy)), client.Options{
		Era: protocol.Legacy, ElicitURL: agreeToVisit,
		Notification: func(_ context.Context, n *protocol.Notification) {
			if n.Method == protocol.NotifyElicitationCompleted {
				ended <- string(n.Params)
			}
		}}, "ops_visit")
	listen(t, c, true)
	call := func(text string) {
		t.Helper()
		if _, err := c.CallTool(t.Context(), "ops_visit", json.RawMessage(
			`{"text":"`+text+`"}`)); err != nil {
			t.Fatal(err)
		}
	}
	call("first      ")
	before := testkit.HeapInUse()
	for i := range calls {
		call(string(rune('a'+i)) + strings.Repeat("x", size))
	}
	held := int64(0)
	for range 60 { // connection buffers are freed over time
		if held = int64(testkit.HeapInUse()) - int64(before); held <= calls*size/4 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if held > calls*size/4 && !testkit.Race { // the race detector's pools keep more
		t.Errorf("%d bytes are held after %d calls", held, calls)
	}
	call("last       ")
	if err := (<-later).ElicitationComplete(t.Context(), "last       "); err != nil {
		t.Error(err)
	}
	await(t, ended, "the end of the visit is not announced")
}
