package gateway_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// BenchmarkCall calls with and without a question, directly and through a gateway, per era.
func BenchmarkCall(b *testing.B) {
	srv := newServer(b, &server.Options{Roundtrip: roundtrip.Options{MinHumanTime: -1}})
	addTool(srv, "plain", done)
	addTool(srv, "question", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
		if _, err := roundtrip.Ask[confirmation](ctx, "sure", "Sure?"); err != nil {
			return nil, err
		}
		return server.Text("done"), nil
	})
	url := serveHTTP(b, srv)
	gateways := map[protocol.Era]string{}
	for _, era := range bothEras {
		gateways[era] = startGateway(b, &gateway.Options{Log: zaplog.New(zap.NewNop()),
			Server: server.Options{Roundtrip: roundtrip.Options{MinHumanTime: -1}},
			Upstreams: []gateway.Upstream{{Name: "up", Era: era,
				Connect: gateway.HTTP(url, nil), Unprefixed: []string{"plain", "question"}}}})
	}
	for _, tool := range []string{"plain", "question"} {
		for _, era := range bothEras {
			name := fmt.Sprintf("%s/%v client", tool, era)
			b.Run(name+"/direct", func(b *testing.B) { benchCall(b, url, era, tool) })
			for _, upstream := range bothEras {
				b.Run(fmt.Sprintf("%s/%v upstream", name, upstream),
					func(b *testing.B) { benchCall(b, gateways[upstream], era, tool) })
			}
		}
	}
}

// BenchmarkHop runs eight callers, directly and through a gateway with log and metrics.
func BenchmarkHop(b *testing.B) {
	url := serveTool(b, "plain", done)
	for _, era := range bothEras {
		b.Run(fmt.Sprintf("%v/direct", era), func(b *testing.B) { benchHop(b, url, era) })
		b.Run(fmt.Sprintf("%v/gateway", era), func(b *testing.B) {
			encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
			core := zapcore.NewCore(encoder, zapcore.AddSync(io.Discard), zap.InfoLevel)
			benchHop(b, startGateway(b, &gateway.Options{Log: zaplog.New(zap.New(core)),
				Metrics: prom.New(prometheus.NewRegistry()),
				Upstreams: []gateway.Upstream{{Name: "up", Era: era,
					Connect: gateway.HTTP(url, nil), Unprefixed: []string{"plain"}}}}), era)
		})
	}
}

func benchHop(b *testing.B, url string, era protocol.Era) {
	c := connect(b, url, era, &person{}, "plain")
	b.SetParallelism((8 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.CallTool(b.Context(), "plain", nil); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func benchCall(b *testing.B, url string, era protocol.Era, tool string) {
	c := connect(b, url, era, &person{}, tool)
	b.ReportAllocs()
	for b.Loop() {
		got, err := c.CallTool(b.Context(), tool, nil)
		if err != nil || textOf(got) != "done" {
			b.Fatalf("got %q, %v", textOf(got), err)
		}
	}
}
