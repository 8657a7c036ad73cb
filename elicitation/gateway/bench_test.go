package gateway_test

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// BenchmarkCall has a plain call and one with a question, over loopback: without a gateway, and
// through one before an upstream of either era. A person answers at once.
func BenchmarkCall(b *testing.B) {
	srv, err := server.New(&server.Options{
		Info:      protocol.Implementation{Name: "upstream", Version: "1"},
		Roundtrip: roundtrip.Options{MinHumanTime: -1},
	})
	if err != nil {
		b.Fatal(err)
	}
	type result = protocol.CallToolOutcome
	server.AddTool(srv, server.Tool{Name: "plain"},
		func(context.Context, *server.ToolCall, struct{}) (result, error) {
			return server.Text("done"), nil
		})
	server.AddTool(srv, server.Tool{Name: "question"},
		func(ctx context.Context, _ *server.ToolCall, _ struct{}) (result, error) {
			if _, err := roundtrip.Ask[confirmation](ctx, "sure", "Sure?"); err != nil {
				return nil, err
			}
			return server.Text("done"), nil
		})
	url := serveHTTP(b, srv)
	gateways := map[protocol.Era]string{}
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		gateways[era] = startGateway(b, &gateway.Options{Log: zaplog.New(zap.NewNop()),
			Server: server.Options{Roundtrip: roundtrip.Options{MinHumanTime: -1}},
			Upstreams: []gateway.Upstream{{Name: "up", Era: era,
				Connect: gateway.HTTP(url, nil), Unprefixed: []string{"plain", "question"}}}})
	}
	for _, tool := range []string{"plain", "question"} {
		for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
			name := fmt.Sprintf("%s/%v client", tool, era)
			b.Run(name+"/direct", func(b *testing.B) { benchCall(b, url, era, tool) })
			for _, upstream := range []protocol.Era{protocol.Modern, protocol.Legacy} {
				b.Run(fmt.Sprintf("%s/%v upstream", name, upstream),
					func(b *testing.B) { benchCall(b, gateways[upstream], era, tool) })
			}
		}
	}
}

func benchCall(b *testing.B, url string, era protocol.Era, tool string) {
	c := connect(b, url, era, &person{})
	awaitTool(b, c, tool)
	b.ReportAllocs()
	for b.Loop() {
		got, err := c.CallTool(b.Context(), tool, nil)
		if err != nil || textOf(got) != "done" {
			b.Fatalf("got %q, %v", textOf(got), err)
		}
	}
}
