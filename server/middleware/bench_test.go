package middleware_test

import (
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/sloglog"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// BenchmarkChain measures the cost that each middleware adds to an empty call.
func BenchmarkChain(b *testing.B) {
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	logAt := func(level zapcore.Level) *middleware.Log {
		core := zapcore.NewCore(encoder, zapcore.AddSync(io.Discard), level)
		return middleware.NewLog(zaplog.New(zap.New(core)), nil)
	}
	slogged := middleware.NewLog(sloglog.New(slog.New(slog.NewJSONHandler(io.Discard, nil))), nil)
	written, filtered := logAt(zapcore.InfoLevel), logAt(zapcore.ErrorLevel)
	metrics, err := middleware.NewMetrics(prom.New(prometheus.NewRegistry()), nil)
	noError(b, err)
	recovers, payload, limit := middleware.Recover(nil), middleware.Payload(nil),
		middleware.Limit(nil)
	timeout := middleware.Timeout(time.Minute)
	for _, c := range []struct {
		name  string
		chain []server.Middleware
	}{
		{"none", nil},
		{"log written", []server.Middleware{written.Wrap}},
		{"log written with slog", []server.Middleware{slogged.Wrap}},
		{"log filtered", []server.Middleware{filtered.Wrap}},
		{"metrics", []server.Middleware{metrics.Wrap}},
		{"recover", []server.Middleware{recovers}},
		{"payload", []server.Middleware{payload}},
		{"limit", []server.Middleware{limit}},
		{"timeout", []server.Middleware{timeout}},
		{"all", []server.Middleware{written.Wrap, metrics.Wrap, recovers, payload, limit, timeout}},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := returns(server.Text("done"), nil)
			for _, m := range slices.Backward(c.chain) {
				h = m(h)
			}
			request := incoming(protocol.MethodCallTool,
				protocol.Principal{Issuer: "https://id.example", Subject: "ann"})
			request.Target = "deploy"
			request.Params = &protocol.CallToolParams{Name: "deploy",
				Arguments: []byte(`{"env":"prod"}`)}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				_, err := h(ctx, request)
				noError(b, err)
			}
		})
	}
}
