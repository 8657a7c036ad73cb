package mcpgo_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestSwallowedErrorsDoNotFailOpen: whatever a handler makes of the error that stands for a
// pending question, nothing happens before the answer.
func TestSwallowedErrorsDoNotFailOpen(t *testing.T) {
	for _, style := range []string{"changed", "unmodified"} {
		for name, react := range map[string]func(err error) (*mcp.CallToolResult, error){
			"goes on": func(error) (*mcp.CallToolResult, error) { return nil, nil },
			"wraps": func(err error) (*mcp.CallToolResult, error) {
				return nil,
					errors.New("oh: " + err.Error())
			},
			"falls": func(error) (*mcp.CallToolResult,
				error) {
				return mcp.NewToolResultText("went ahead without"), nil
			},
			"reports": func(err error) (*mcp.CallToolResult,
				error) {
				return mcp.NewToolResultError(err.Error()), nil
			},
			"panics": func(err error) (*mcp.CallToolResult, error) { panic(err) },
			"asks more": func(error) (*mcp.CallToolResult,
				error) {
				return mcpgo.ToolInput(roundtrip.ListRoots("dirs")), nil
			},
		} {
			t.Run(style+"/"+name, func(t *testing.T) {
				deleted := 0
				add := func(s *server.MCPServer) {
					ask := changed()
					if style == "unmodified" {
						ask = unchanged(s)
					}
					s.AddTool(mcp.NewTool("delete"),
						func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult,
							error) {
							answer, err := ask.elicit(ctx, "confirm", form("Delete?"))
							if err != nil {
								if result, err := react(err); result != nil || err != nil {
									return result, err
								}
							}
							if ctx.Err() != nil { // as anything does that takes a context
								return nil, ctx.Err()
							}
							if answer == nil ||
								answer.Action != mcp.ElicitationResponseActionAccept {
								return mcp.NewToolResultText("left alone"), nil
							}
							deleted++
							return mcp.NewToolResultText("deleted"), nil
						})
				}
				over(t, &mcpgo.Options{UnmodifiedHandlers: style == "unmodified"}, add,
					func(t *testing.T, send sender) {
						deleted = 0
						r := request{method: protocol.MethodCallTool, target: "delete",
							capabilities: `{"elicitation":{},"roots":{}}`}
						first := send(r.message())
						if first.text() != "asks" || deleted != 0 || len(first.Result.Content) > 0 {
							t.Fatalf("deleted %d times: %s", deleted, first.body)
						}
						key := ""
						for k := range first.Result.InputRequests {
							if k != "dirs" {
								key = k
							}
						}
						got := send(r.retry(first, `{"`+key+`":{"action":"decline"}}`).message())
						if got.text() != "left alone" || deleted != 0 {
							t.Errorf("deleted %d times: %s", deleted, got.body)
						}
						if got := send(r.retry(first, `{"`+key+`":{"action":"accept","content":{"zeal":"much"}}}`).message()); got.text() != "deleted" || deleted != 1 {
							t.Errorf("deleted %d times: %s", deleted, got.body)
						}
					})
			})
		}
	}
}
