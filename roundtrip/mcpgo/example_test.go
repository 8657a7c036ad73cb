package mcpgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

func removed(name string) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText("removed " + name), nil
}

func sure(name string) mcp.ElicitationRequest {
	return mcp.ElicitationRequest{Params: mcp.ElicitationParams{
		Message:         "Remove " + name + "?",
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
	}}
}

// before is a server as it is: its tool asks through the session.
func before() http.Handler {
	s := server.NewMCPServer("files", "1.0.0", server.WithElicitation())
	s.AddTool(mcp.NewTool("remove", mcp.WithString("name")),
		func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			name := r.GetString("name", "")
			answer, err := s.RequestElicitation(ctx, sure(name))
			if err != nil {
				return nil, err
			}
			if answer.Action != mcp.ElicitationResponseActionAccept {
				return mcp.NewToolResultText("kept " + name), nil
			}
			return removed(name)
		})
	return server.NewStreamableHTTPServer(s)
}

// after is the same server with few lines changed.
func after() (http.Handler, error) {
	s := server.NewMCPServer("files", "1.0.0", server.WithElicitation())
	s.AddTool(mcp.NewTool("remove", mcp.WithString("name")),
		func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			name := r.GetString("name", "")
			answer, err := mcpgo.Elicit(ctx, "sure", sure(name))
			if err != nil {
				return nil, err
			}
			if answer.Action != mcp.ElicitationResponseActionAccept {
				return mcp.NewToolResultText("kept " + name), nil
			}
			return removed(name)
		})
	a, err := mcpgo.New(nil)
	if err != nil {
		return nil, err
	}
	return a.Handler(server.NewStreamableHTTPServer(s)), nil
}

// call calls the tool as a client of either era, whose person agrees.
func call(h http.Handler, era protocol.Era) string {
	behind := httptest.NewServer(h)
	defer behind.Close()
	over, err := clienthttp.New(behind.URL+"/mcp", nil)
	if err != nil {
		return err.Error()
	}
	c, err := client.New(over, &client.Options{Era: era,
		ElicitForm: func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			fmt.Println("asked:", q.Message)
			return &protocol.ElicitResult{Action: protocol.ActionAccept}, nil
		}})
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	result, err := c.CallTool(context.Background(), "remove", map[string]any{"name": "notes"})
	if err != nil {
		return "failed"
	}
	return result.Content[0].(*protocol.TextContent).Text
}

// A server that pushes its questions, before and after.
func ExampleNew() {
	adapted, err := after()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("before, legacy:", call(before(), protocol.Legacy))
	fmt.Println("before, modern:", call(before(), protocol.Modern))
	fmt.Println("after, legacy:", call(adapted, protocol.Legacy))
	fmt.Println("after, modern:", call(adapted, protocol.Modern))
	// Output:
	// asked: Remove notes?
	// before, legacy: removed notes
	// before, modern: failed
	// asked: Remove notes?
	// after, legacy: removed notes
	// asked: Remove notes?
	// after, modern: removed notes
}

// A handler of guard style, with a typed question.
func ExampleToolInput() {
	type Confirmation struct {
		Reason string `json:"reason" default:"spring cleaning"`
	}
	confirm := roundtrip.MustQuestion[Confirmation]("confirm")

	s := server.NewMCPServer("files", "1.0.0")
	s.AddTool(mcp.NewTool("remove"),
		func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			answer, ok := confirm.AcceptedContent(ctx)
			if !ok {
				return mcpgo.ToolInput(confirm.Elicit("Remove notes?")), nil
			}
			return mcp.NewToolResultText("removed: " + answer.Reason), nil
		})
	a, err := mcpgo.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(call(a.Handler(server.NewStreamableHTTPServer(s)), protocol.Modern))
	// Output:
	// asked: Remove notes?
	// removed: spring cleaning
}

// A quota of calls, and a metric of runs. The middleware is added after the adapter is
// installed, so it runs inside of it, once a round: the call that is answered is the same
// call, and a person who has answered is not refused.
func ExampleAdapter_Install_quota() {
	quota, runs := 1, map[int]int{}
	s := server.NewMCPServer("files", "1.0.0", server.WithElicitation())
	s.AddTool(mcp.NewTool("remove"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if _, err := mcpgo.Elicit(ctx, "sure", sure("notes")); err != nil {
				return nil, err
			}
			return removed("notes")
		})
	a, err := mcpgo.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := a.Install(s); err != nil {
		fmt.Println(err)
		return
	}
	s.Use(func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			round := roundtrip.RoundOf(ctx).Number
			runs[round]++
			if round == 1 {
				if quota == 0 {
					return mcp.NewToolResultError("too many calls; try again tomorrow"), nil
				}
				quota--
			}
			return next(ctx, r)
		}
	})
	fmt.Println(call(a.Handler(server.NewStreamableHTTPServer(s)), protocol.Modern))
	fmt.Println("runs by round:", runs, "calls left:", quota)
	// Output:
	// asked: Remove notes?
	// removed notes
	// runs by round: map[1:1 2:1] calls left: 0
}
