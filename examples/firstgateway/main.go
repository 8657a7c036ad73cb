// Firstgateway is a gateway in one file: tokens, keys, logs, metrics and graceful shutdown.
//
//	npx -y @modelcontextprotocol/server-everything streamableHttp   # listens at port 3001
//	export GATEWAY_TOKEN=$(head -c 32 /dev/urandom | base64)
//	export GATEWAY_KEYS=a:$(head -c 32 /dev/urandom | base64)
//	go run ./examples/firstgateway
package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := zap.Must(zap.NewProduction())
	err := run(ctx, log, "127.0.0.1:8080", []gateway.Upstream{
		{Name: "web", Connect: gateway.HTTP("http://127.0.0.1:3001/mcp", nil)},
		{Name: "local", Connect: gateway.Command(
			"npx", "-y", "@modelcontextprotocol/server-everything", "stdio")},
	})
	if err != nil {
		log.Fatal("the gateway ends", zap.Error(err))
	}
}

func run(
	ctx context.Context, log *zap.Logger, address string, upstreams []gateway.Upstream,
) error {
	ring, err := keys.KeyringFromEnv(os.LookupEnv, "GATEWAY_KEYS")
	if err != nil {
		return err
	}
	questions, err := elicitation.OptionsFromEnv(os.LookupEnv) // ELICITATION_TIMEOUT and more
	if err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	observer, chain, err := middleware.Production(zaplog.New(log), prom.New(metrics), nil)
	if err != nil {
		return err
	}
	g, err := gateway.New(&gateway.Options{
		Server: server.Options{
			Info:      protocol.Implementation{Name: "gateway", Version: "1.0.0"},
			Roundtrip: roundtrip.Options{Sealer: ring},
			Observer:  observer, Middleware: chain,
		},
		Upstreams: upstreams, Elicitation: questions,
		Log: zaplog.New(log), Metrics: prom.New(metrics),
	})
	if err != nil {
		return err
	}
	endpoint, err := g.Handler(&serverhttp.Options{Authenticate: authenticate})
	if err != nil {
		return errors.Join(err, g.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	web := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.ListenAndServe() }()
	select {
	case err = <-served:
	case <-ctx.Done(): // people may answer for another half a minute
	}
	end, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(err, g.Shutdown(end), endpoint.Shutdown(end), web.Shutdown(end))
}

// authenticate accepts the configured token. For OAuth use package bearer.
func authenticate(r *http.Request) (protocol.Principal, error) {
	token := os.Getenv("GATEWAY_TOKEN")
	sent := r.Header.Get("Authorization")
	if token == "" || subtle.ConstantTimeCompare([]byte(sent), []byte("Bearer "+token)) != 1 {
		return protocol.Principal{}, errors.New("this is not the token in GATEWAY_TOKEN")
	}
	return protocol.Principal{Subject: "me"}, nil
}
