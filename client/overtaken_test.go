package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// An early server withdraws its question before the client has taken it up,
// which happens where requests wait for their turn and notifications do not.
type early struct {
	back     protocol.BackCaller
	withdraw string // the id, as JSON
	answers  chan *protocol.Response
	done     chan struct{}
}

func (e *early) Probe(context.Context, *protocol.Request) (*protocol.Response, bool, error) {
	return nil, true, fmt.Errorf("not known")
}

func (e *early) OpenSession(_ context.Context, req *protocol.Request, back protocol.BackCaller) (protocol.LegacySession, *protocol.Response, error) {
	e.back = back
	return e, &protocol.Response{ID: req.ID, Result: json.RawMessage(
		`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"early","version":"1"}}`)}, nil
}

func (e *early) Handle(ctx context.Context, req *protocol.Request, back protocol.Back) (*protocol.Response, error) {
	if err := e.back.Notify(ctx, &protocol.Notification{Method: protocol.NotifyCancelled, Params: json.RawMessage(`{"requestId":` + e.withdraw + `}`)}); err != nil {
		return nil, err
	}
	answer, err := back.(protocol.BackCaller).Call(ctx, &protocol.Request{ID: protocol.StringID("q"), Method: protocol.MethodElicit, Params: json.RawMessage(nameParams)})
	if err != nil {
		return nil, err
	}
	e.answers <- answer
	return &protocol.Response{ID: req.ID, Result: json.RawMessage(`{"content":[]}`)}, nil
}

func (e *early) Notify(context.Context, *protocol.Notification) error { return nil }
func (e *early) Done() <-chan struct{}                                { return e.done }
func (e *early) Err() error                                           { return nil }
func (e *early) Close() error                                         { return nil }

// TestLegacyWithdrawalOvertakes: nobody is asked what the server has withdrawn.
func TestLegacyWithdrawalOvertakes(t *testing.T) {
	for _, tc := range []struct {
		name, withdraw string
		asked          int32
	}{
		{"the question", `"q"`, 0},
		{"another question", `"p"`, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var asked atomic.Int32
			e := &early{withdraw: tc.withdraw, answers: make(chan *protocol.Response, 1), done: make(chan struct{})}
			c := client.New(e, &client.Options{ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
				asked.Add(1)
				return client.Accept(map[string]any{"name": "Ada"})
			}})
			defer c.Close()
			if _, err := c.CallTool(t.Context(), "greet", nil); err != nil {
				t.Fatal(err)
			}
			if answer := <-e.answers; asked.Load() != tc.asked || (answer.Error == nil) != (tc.asked == 1) {
				t.Errorf("asked %d times and answered %s, %v", asked.Load(), answer.Result, answer.Error)
			}
		})
	}
}
