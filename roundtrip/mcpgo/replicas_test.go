package mcpgo_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/fleettest"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// fleet starts three replicas, and returns the endpoint of a balancer that takes them in turn,
// and their observers.
func fleet(t *testing.T) (string, []*hopCounter) {
	t.Helper()
	var observers []*hopCounter
	f := fleettest.Start(t, 3, func(r *replicas.Options) http.Handler {
		s := newHostServer()
		s.AddTool(mcp.NewTool("ask"),
			func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				first, err := roundtrip.Ask[reason](ctx, "first", "First?")
				if err != nil {
					return nil, err
				}
				second, err := roundtrip.Ask[reason](ctx, "second", "Second, after "+first.Why+"?")
				if err != nil {
					return nil, err
				}
				return mcp.NewToolResultText(first.Why + " and " + second.Why), nil
			})
		o := &hopCounter{}
		a := install(t, s, &mcpgo.Options{
			Options:  roundtrip.Options{Sealer: r.Keys, Audience: "fleet", Observer: o},
			Replicas: r,
		})
		t.Cleanup(func() { mcpgo.CloseIdle(a) })
		observers = append(observers, o)
		return a.Handler(server.NewStreamableHTTPServer(s))
	})
	balancer := httptest.NewServer(f.Balancer())
	t.Cleanup(func() { balancer.CloseClientConnections(); balancer.Close() })
	return balancer.URL, observers
}

// A hopCounter counts the requests that a replica has passed on.
type hopCounter struct{ n atomic.Int32 }

func (c *hopCounter) Observe(_ context.Context, e event.Event) {
	if f, ok := e.(event.RequestForwarded); ok && f.Outcome == event.ForwardAnswered {
		c.n.Add(1)
	}
}

func TestAnyReplicaTakesTheRequestsOfASession(t *testing.T) {
	for _, revision := range []string{modern, v20251125} {
		for name, dial := range map[string]func(*testing.T, string, string, *person) peer{
			"rondo": dialRondo, "mcp-go": dialHost,
		} {
			t.Run(name+"/"+revision, func(t *testing.T) {
				endpoint, observers := fleet(t)
				c := dial(t, endpoint, revision, newPerson(map[string]string{
					"First?": `{"why":"one"}`, "Second, after one?": `{"why":"two"}`}))
				for range 4 {
					got, err := c.tool(within(t), "ask", nil)
					if err != nil || got != "one and two" {
						t.Fatalf("got %q, %v", got, err)
					}
				}
				hops := int32(0)
				for _, o := range observers {
					hops += o.n.Load()
				}
				if (hops > 0) != (revision == v20251125) {
					t.Errorf("%d requests were forwarded", hops)
				}
			})
		}
	}
}

// reason is the answer to the questions of the fleet.
type reason struct {
	Why string `json:"why"`
}
