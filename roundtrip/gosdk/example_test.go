package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

func toolText(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// A guard that pushed its question, with the one call changed. The client is of
// revision 2026-07-28, in which nothing can be pushed; it is asked once.
func Example() {
	deleteFile := func(ctx context.Context, req *mcp.CallToolRequest,
		in struct{ Name string }) (*mcp.CallToolResult, any, error) {
		answer, err := gosdk.Elicit(ctx, req.Session, &mcp.ElicitParams{
			Message:         "Delete " + in.Name + "?",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string"}},"required":["reason"]}`),
		})
		if err != nil {
			return nil, nil, err
		}
		if answer.Action != "accept" {
			return toolText("kept " + in.Name), nil, nil
		}
		return toolText(fmt.Sprintf("deleted %s: %s", in.Name, answer.Content["reason"])), nil, nil
	}

	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "delete"}, deleteFile)
	adapter, err := gosdk.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	call(adapter, server, "delete", map[string]any{"Name": "draft.txt"})

	// Output:
	// asked: Delete draft.txt?
	// deleted draft.txt: it is out of date
}

// Reason is what a deletion needs.
type Reason struct {
	Reason string `json:"reason"`
}

// The guard style of package roundtrip, in a handler of the SDK.
func ExampleToolInput() {
	deleteFile := func(ctx context.Context, req *mcp.CallToolRequest,
		in struct{ Name string }) (*mcp.CallToolResult, any, error) {
		why, ok := roundtrip.AcceptedContent[Reason](ctx, "why")
		if !ok {
			result, err := gosdk.ToolInput(ctx,
				roundtrip.Elicit[Reason]("why", "Delete "+in.Name+"?"))
			return result, nil, err
		}
		return toolText("deleted " + in.Name + ": " + why.Reason), nil, nil
	}

	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "delete"}, deleteFile)
	adapter, err := gosdk.New(&gosdk.Options{Options: roundtrip.Options{Audience: "files"}})
	if err != nil {
		log.Fatal(err)
	}
	call(adapter, server, "delete", map[string]any{"Name": "draft.txt"})

	// Output:
	// asked: Delete draft.txt?
	// deleted draft.txt: it is out of date
}

// call calls a tool in process, as a person who has a reason for everything.
func call(adapter *gosdk.Adapter, server *mcp.Server, tool string, args any) {
	ctx := context.Background()
	ours, theirs := mcp.NewInMemoryTransports()
	session, err := server.Connect(ctx, adapter.Transport(server, theirs), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	client := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1.0.0"},
		&mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult,
				error) {
				fmt.Println("asked:", req.Params.Message)
				return &mcp.ElicitResult{Action: "accept",
					Content: map[string]any{"reason": "it is out of date"}}, nil
			},
		})
	peer, err := client.Connect(ctx, ours, &mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	if err != nil {
		log.Fatal(err)
	}
	defer peer.Close()
	result, err := peer.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
}

// A quota of calls, and a metric of runs. The middleware is added before the adapter is
// installed, so it runs inside of it, once a round: the call that is answered is the same
// call, and a person who has answered is not refused.
func ExampleAdapter_Install_quota() {
	quota, runs := 1, map[int]int{}
	count := func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			round := roundtrip.RoundOf(ctx)
			if round.Number == 0 { // a request that cannot ask
				return next(ctx, method, req)
			}
			runs[round.Number]++
			if round.Number == 1 {
				if quota == 0 {
					return nil, fmt.Errorf("too many calls; try again tomorrow")
				}
				quota--
			}
			return next(ctx, method, req)
		}
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "delete"}, func(ctx context.Context,
		req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		_, err := gosdk.Elicit(ctx, req.Session, &mcp.ElicitParams{Message: "Delete it?",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)})
		return toolText("deleted"), nil, err
	})
	server.AddReceivingMiddleware(count)
	adapter, err := gosdk.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := adapter.Install(server); err != nil {
		log.Fatal(err)
	}
	call(adapter, server, "delete", nil)
	fmt.Println("runs by round:", runs, "calls left:", quota)

	// Output:
	// asked: Delete it?
	// deleted
	// runs by round: map[1:1 2:1] calls left: 0
}
