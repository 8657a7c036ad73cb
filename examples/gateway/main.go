// Gateway: clients connect to one MCP server, which passes their calls on to
// others. What an upstream server asks in the middle of a call reaches the
// client that made the call, and nobody else.
//
//	go run ./examples/gateway
//
// It starts two upstream servers and a gateway, one upstream built on the official Go SDK and one
// on rondo, and has two users call through the gateway so that their questions interleave. One of
// them has a client of revision 2026-07-28, the other one has a session. It fails if one of them
// sees anything that is the other's. The gateway logs to standard error, and its metrics are
// printed at the end.
//
// A gateway to start from is examples/firstgateway. dashboard.json shows the metrics of both in
// Grafana, and alerts.yml has alerts for Prometheus.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	frontdoor "github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// newGateway returns a gateway before some upstreams, which logs and counts.
func newGateway(logs io.Writer, registry *prometheus.Registry, upstreams []frontdoor.Upstream) (
	*frontdoor.Gateway, error) {
	logger := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()),
		zapcore.Lock(zapcore.AddSync(logs)), zap.InfoLevel))
	observer, chain, err := middleware.Production(zaplog.New(logger), prom.New(registry), nil)
	if err != nil {
		return nil, err
	}
	return frontdoor.New(&frontdoor.Options{
		Server: server.Options{
			Info:     protocol.Implementation{Name: "gateway", Version: "1.0.0"},
			Observer: observer, Middleware: chain,
		},
		Upstreams: upstreams, Log: zaplog.New(logger), Metrics: prom.New(registry),
	})
}

// newHandler returns a handler for clients at /mcp and Prometheus at /metrics. The users' names
// stand for tokens, which package bearer verifies.
func newHandler(g *frontdoor.Gateway, registry *prometheus.Registry) (http.Handler, error) {
	handler, err := g.Handler(&serverhttp.Options{
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok || name != "alice" && name != "bob" {
				return protocol.Principal{}, errors.New("nobody has this token")
			}
			return protocol.Principal{Subject: name}, nil
		}})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux, nil
}
