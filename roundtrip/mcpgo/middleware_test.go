package mcpgo_test

import (
	"context"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/roundtrip"
)

// A limiter inside of the adapter counts calls, and not the rounds that a person answers in;
// one outside counts requests.
func TestMiddlewareKnowsTheRound(t *testing.T) {
	count := func(n *int, is func(ctx context.Context) bool) server.ToolHandlerMiddleware {
		return func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
			return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if is(ctx) {
					*n++
				}
				return next(ctx, r)
			}
		}
	}
	for _, revision := range []string{modern, v20251125} {
		for _, transport := range []string{"http", "lines"} {
			t.Run(revision+"/"+transport, func(t *testing.T) {
				var outside, inside int
				s := newHostServer()
				addDelete(s)
				s.Use(count(&outside, func(context.Context) bool { return true }))
				a := install(t, s, nil)
				s.Use(count(&inside, func(ctx context.Context) bool {
					return roundtrip.RoundOf(ctx).Number == 1
				}))
				who := newPerson(nil)
				c := links(revision)["rondo/"+transport](t, a, s, who)
				if got, err := c.tool(within(t), "delete", nil); err != nil || got != "deleted" {
					t.Errorf("got %q, %v", got, err)
				}
				requests := 1
				if revision == modern {
					requests = 2
				}
				if outside != requests || inside != 1 {
					t.Errorf("counted %d outside, %d inside", outside, inside)
				}
			})
		}
	}
}
