package roundtrip_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

type accepting struct{}

func (accepting) Push(_ context.Context, _ protocol.InputRequest, _, _ func()) (
	json.RawMessage, error) {
	fmt.Println("a person thinks")
	return json.RawMessage(`{"action":"accept","content":{"sure":true}}`), nil
}

// Middleware that counts running calls leaves out those that wait for a person.
func ExampleWatchWaiting() {
	funnel, err := roundtrip.NewFunnel(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	handle := func(ctx context.Context) error {
		call := roundtrip.Call{
			Version: protocol.V20251125, Method: protocol.MethodCallTool, Target: "delete",
			Push: accepting{},
			Capabilities: protocol.ClientCapabilities{
				Elicitation: &protocol.ElicitationCapability{Form: true}},
		}
		_, err := funnel.Do(ctx, call, func(ctx context.Context) (protocol.Result, error) {
			fmt.Println("the handler works")
			if _, err := roundtrip.Ask[struct {
				Sure bool `json:"sure"`
			}](ctx, "sure", "Delete everything?"); err != nil {
				return nil, err
			}
			fmt.Println("the handler works")
			return &protocol.CallToolResult{}, nil
		})
		return err
	}

	working := 0
	count := func(next func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			working++
			ctx = roundtrip.WatchWaiting(ctx, func(waiting bool) {
				if waiting {
					working--
				} else {
					working++
				}
				fmt.Println("calls that work:", working)
			})
			defer func() { working-- }()
			return next(ctx)
		}
	}
	fmt.Println(count(handle)(context.Background()))
	// Output:
	// the handler works
	// calls that work: 0
	// a person thinks
	// calls that work: 1
	// the handler works
	// <nil>
}
