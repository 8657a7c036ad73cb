package server_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/server"
)

// In both eras, before and after a question, the client gets the text although errors are hidden,
// and no failure is reported.
func TestAToolSaysNo(t *testing.T) {
	type bill struct {
		Number int `json:"number"`
	}
	type sure struct {
		Reason string `json:"reason"`
	}
	failures := &failureCount{}
	newServer := func() (*server.Server, error) {
		srv, err := server.New(&server.Options{
			Roundtrip: roundtrip.Options{HideErrors: true},
			Observer:  failures,
		})
		if err != nil {
			return nil, err
		}
		server.AddToolOut(srv, server.Tool{Name: "cancel"},
			func(ctx context.Context, _ *server.ToolCall, in bill) (bill, error) {
				if in.Number == 1 {
					return bill{}, &server.ToolError{Text: "there is no such bill"}
				}
				if _, err := roundtrip.Ask[sure](ctx, "why", "Why?"); err != nil {
					return bill{}, err
				}
				if in.Number == 2 {
					return bill{}, fmt.Errorf("row 2: %w", &server.ToolError{Text: "it is paid"})
				}
				return in, nil
			})
		server.AddPrompt(srv, server.Prompt{Name: "no"},
			func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
				return nil, &server.ToolError{Text: "out of place"}
			})
		return srv, nil
	}
	why := roundtriptest.Answers{"why": roundtriptest.Accept(sure{"a mistake"})}
	tool := func(number int) roundtriptest.Request {
		return roundtriptest.Tool("cancel", bill{number})
	}
	subject := roundtriptest.Server(newServer)
	roundtriptest.Run(t, subject,
		roundtriptest.Flow{Name: "at once", Request: tool(1), Fails: "there is no such bill"},
		roundtriptest.Flow{Name: "after a question", Request: tool(2), Answers: why,
			Fails: "it is paid"},
		roundtriptest.Flow{Name: "a value", Request: tool(3), Answers: why, Want: `{"number":3}`})
	wantEqual(t, "failures were reported", failures.Load(), int32(0))
	roundtriptest.Run(t, subject, roundtriptest.Flow{Name: "no tool",
		Request: roundtriptest.Prompt("no", nil), Fails: "internal failure"})
	if failures.Load() == 0 {
		t.Error("in a prompt it is an error like any other, and was not reported")
	}
}

type failureCount struct{ atomic.Int32 }

func (c *failureCount) Observe(_ context.Context, e event.Event) {
	if _, ok := e.(event.HandlerFailed); ok {
		c.Add(1)
	}
}
