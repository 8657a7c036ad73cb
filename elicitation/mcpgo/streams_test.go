package mcpgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
)

// TestWithoutSessionStream: a client that opens no GET stream is asked on that
// of its call.
func TestWithoutSessionStream(t *testing.T) {
	for _, set := range []setting{{revision: legacy}, {revision: legacy, shared: true},
		{revision: modern}} {
		t.Run(fmt.Sprintf("%s shared=%v", set.revision, set.shared), func(t *testing.T) {
			g := newGateway(t, set)
			call := g.mcpGo(t, legacy, nil, accept("yes"), nil)
			if got, err := call(within(t), "form", "prod"); err != nil ||
				got != `accept {"reason":"yes"}` {
				t.Errorf("got %q, %v", got, err)
			}
			if n := g.gets.Load(); n != 0 {
				t.Errorf("the client opened %d GET streams, which is another test", n)
			}
		})
	}
}

// TestStreamDies: when the client's stream is cut while a person thinks, the
// question ends, and nothing reports that it was delivered.
func TestStreamDies(t *testing.T) {
	for _, test := range []struct {
		name string
		cut  func(g *gateway, cancel func())
	}{
		{"the client gives up", func(_ *gateway, cancel func()) { cancel() }},
		{"the connection breaks", func(g *gateway, _ func()) { g.down.CloseClientConnections() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGateway(t, setting{revision: legacy})
			asked, over, returned := make(chan struct{}), make(chan struct{}), make(chan struct{})
			person := g.mcpGo(t, legacy, nil,
				func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
					close(asked)
					<-over
					return result("decline", nil), nil
				}, nil)
			t.Cleanup(func() { close(over) })
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			go func() {
				defer close(returned)
				if got, err := person(ctx, "form", "prod"); err == nil {
					t.Errorf("the call returned %q", got)
				}
			}()
			<-asked
			test.cut(g, cancel)
			<-returned
			receive(t, g.cancelled)
			if n := g.router.Pending(); n != 0 {
				t.Errorf("%d questions are still open", n)
			}
			if g.logs.FilterMessage("elicitation.delivered").Len() != 0 ||
				g.logs.FilterMessage("elicitation.cancelled").Len() != 1 {
				t.Errorf("logged: %v", g.logs.All())
			}
		})
	}
}

// TestAbandonedCall: what an upstream asks about a call whose client has gone is
// not put to the next client on a connection that calls share.
func TestAbandonedCall(t *testing.T) {
	for _, set := range []setting{
		{revision: legacy, shared: true, exclusive: true, lines: true},
		{revision: legacy, shared: true, exclusive: true, listen: true},
	} {
		t.Run(fmt.Sprintf("lines=%v", set.lines), func(t *testing.T) {
			alices, bobs, asked := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			set.serve = server.NewMCPServer("upstream", "1", server.WithElicitation())
			set.serve.AddTool(mcp.NewTool("slow"),
				func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					if r.GetString("env", "") == "bob" {
						close(bobs)
						select {
						case err := <-asked:
							return mcp.NewToolResultText(err.Error()), nil
						case <-ctx.Done():
							return nil, ctx.Err()
						}
					}
					close(alices)
					<-bobs // whatever becomes of its own request and its stream
					ctx = set.serve.WithContext(within(t), server.ClientSessionFromContext(ctx))
					got, err := set.serve.RequestElicitation(ctx,
						mcp.ElicitationRequest{Params: mcp.ElicitationParams{
							Mode: "form", Message: "For alice",
							RequestedSchema: json.RawMessage(schema),
						}})
					if err == nil {
						err = fmt.Errorf("answered: %v", got.Action)
					}
					asked <- err
					return nil, err
				})
			g := newGateway(t, set)
			join := func(name string) person {
				return g.mcpGo(t, legacy, nil,
					func(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult,
						error) {
						t.Errorf("%s is asked %q", name, r.Params.Message)
						return result("decline", nil), nil
					}, nil)
			}
			alice, bob := join("alice"), join("bob")
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			go func() { _, _ = alice(ctx, "slow", "alice") }()
			<-alices
			cancel()
			if got, err := bob(within(t), "slow", "bob"); err != nil ||
				!strings.Contains(got, elicitation.MessageNoSession) {
				t.Errorf("bob gets %q, %v, want that alice's question was refused", got, err)
			}
		})
	}
}
