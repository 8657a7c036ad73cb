// Firstgateway is a gateway in one file: tokens, keys, logs, metrics and graceful shutdown.
//
//	npx -y @modelcontextprotocol/server-everything streamableHttp   # listens at port 3001
//	export GATEWAY_TOKENS=ann:a-token,bob:another-token
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
	"strings"
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
	err := run(ctx, log, "127.0.0.1:8080", "127.0.0.1:9090", []gateway.Upstream{
		{Name: "web", Connect: gateway.HTTP("http://127.0.0.1:3001/mcp", nil)},
		{Name: "local", Connect: gateway.Command(
			"npx", "-y", "@modelcontextprotocol/server-everything", "stdio")},
	})
	if err != nil {
		log.Fatal("the gateway ends", zap.Error(err))
	}
}

func run(
	ctx context.Context, log *zap.Logger, public, private string, upstreams []gateway.Upstream,
) error {
	ring, err := keys.KeyringFromEnv(os.LookupEnv, "GATEWAY_KEYS")
	if err != nil {
		return err
	}
	questions, err := elicitation.OptionsFromEnv(os.LookupEnv) // ELICITATION_TIMEOUT and more
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	sink, metrics := zaplog.New(log), prom.New(registry)
	observer, chain, err := middleware.Production(sink, metrics, nil)
	if err != nil {
		return err
	}
	g, err := gateway.New(&gateway.Options{
		Server: server.Options{
			Info:      protocol.Implementation{Name: "gateway", Version: "1.0.0"},
			Roundtrip: roundtrip.Options{Sealer: ring}, Observer: observer, Middleware: chain,
		},
		Upstreams: upstreams, Elicitation: questions, Log: sink, Metrics: metrics,
	})
	if err != nil {
		return err
	}
	endpoint, err := g.Handler(&serverhttp.Options{Authenticate: authenticate})
	if err != nil {
		return errors.Join(err, g.Close())
	}
	mux, admin := http.NewServeMux(), http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	admin.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	web := &http.Server{Addr: public, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	operators := &http.Server{Addr: private, Handler: admin, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 2)
	go func() { served <- web.ListenAndServe() }()
	go func() { served <- operators.ListenAndServe() }()
	select {
	case err = <-served:
	case <-ctx.Done(): // people may answer for another half a minute
	}
	patience, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if cut := g.Shutdown(patience); cut != nil { // no failure: somebody has not answered
		log.Warn("calls were cut off", zap.Error(cut))
	}
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, web.Shutdown(last), operators.Shutdown(last))
}

// authenticate accepts the tokens in GATEWAY_TOKENS. For OAuth use package bearer.
func authenticate(r *http.Request) (protocol.Principal, error) {
	sent := []byte(r.Header.Get("Authorization"))
	for user := range strings.SplitSeq(os.Getenv("GATEWAY_TOKENS"), ",") {
		name, token, _ := strings.Cut(user, ":")
		want := []byte("Bearer " + token)
		if name != "" && token != "" && subtle.ConstantTimeCompare(sent, want) == 1 {
			return protocol.Principal{Subject: name}, nil
		}
	}
	return protocol.Principal{}, errors.New("this token is not in GATEWAY_TOKENS")
}
