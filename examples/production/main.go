// Production is a server to copy. Around the tools of handlers.go it has what a deployment needs:
// bearer tokens, keys that replicas share, logs, metrics, limits, health, and graceful shutdown.
//
//	export MCP_URL=https://mcp.example.com/mcp        # where clients find it
//	export MCP_ISSUER=https://login.example.com       # who issues the access tokens
//	export MCP_DATA=/var/lib/bank                     # a folder that the replicas share
//	export MCP_DATABASE=postgres://bank@db/bank       # where the replicas note what was used
//	export RONDO_KEYS=2026-07:$(head -c 32 /dev/urandom | base64)
//	export RONDO_REPLICA=a RONDO_REPLICAS=a=http://10.0.0.1:8080/mcp,b=http://10.0.0.2:8080/mcp
//	go run ./examples/production -http :8080 -admin 127.0.0.1:9090
//
// With -stdio it serves one user on standard input and output, without tokens. The README.md of
// package server explains each setting.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/inspect"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// The shutdown's time limits. A supervisor must wait a little longer than their sum and -notice.
const (
	drainTime = 20 * time.Second // for open sessions, which new requests keep alive
	endTime   = 5 * time.Second  // for requests in flight
	logTime   = time.Second      // for the end of the log
)

const brokenPipe = syscall.Signal(13) // package syscall names it on some systems only

func main() {
	address := flag.String("http", ":8080", "serve clients at this `address`")
	admin := flag.String("admin", "127.0.0.1:9090", "serve metrics and health at this `address`")
	notice := flag.Duration("notice", 5*time.Second,
		"at the end, wait for `time` until balancers have seen that the server is not ready")
	stdio := flag.Bool("stdio", false, "serve standard input and output instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *admin, *notice, *stdio); err != nil {
		fmt.Fprintln(os.Stderr, "production:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, admin string, notice time.Duration, stdio bool) error {
	logger, endLog, err := newLogger(prometheus.DefaultRegisterer)
	if err != nil {
		return err
	}
	defer endLog()
	set, err := settingsFromEnv(stdio)
	if err != nil {
		return err
	}
	if set.shared, err = openShared(ctx, os.Getenv(envDatabase)); err != nil {
		return err
	}
	b := &bank{set.data, set.publicURL()}
	page, err := inspect.New(nil)
	if err != nil {
		return err
	}
	srv, err := newServer(b, set, logger, prometheus.DefaultRegisterer, page)
	if err != nil {
		return err
	}
	if stdio {
		return srv.ServeStdio(ctx)
	}
	handler, err := serverhttp.New(srv, &serverhttp.Options{
		Authority:      set.guard,
		AllowedHosts:   set.hosts,
		AllowedOrigins: set.origins,
		Replicas:       set.replicas,
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	mux.HandleFunc("/visits/{visit}", b.serveVisit)
	path, metadata := set.guard.Metadata()
	mux.Handle(path, metadata)
	page.Show(srv, handler)
	return serve(ctx, srv, handler, mux, page, address, admin, notice)
}

// newLogger returns a non-blocking logger to standard error, and a function that flushes it.
func newLogger(registerer prometheus.Registerer) (*zap.Logger, func(), error) {
	signal.Ignore(brokenPipe) // the server must outlive the reader of its log
	lines := newLogQueue(os.Stderr, maxQueuedLines)
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	logger := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoding), lines, zap.InfoLevel))
	return logger, func() {
		patience, cancel := context.WithTimeout(context.Background(), logTime)
		defer cancel()
		lines.end(patience)
	}, registerer.Register(lines.metric())
}

// newServer uses the middleware that its package recommends, with its log and metrics.
func newServer(b *bank, set *settings, logger *zap.Logger,
	registerer prometheus.Registerer, page event.Observer) (*server.Server, error) {
	observer, chain, err := middleware.Production(zaplog.New(logger), prom.New(registerer),
		&middleware.Options{
			TraceID: true,
			Timeout: 30 * time.Second, // of work: a person may take longer
		})
	if err != nil {
		return nil, err
	}
	observer = event.Observers(observer, page)
	options := roundtrip.Options{Sealer: set.keys, Guard: store.NewMemoryGuard(0), HideErrors: true}
	if set.shared != nil {
		options.Guard, options.StateStore = set.shared, set.shared
	}
	srv, err := server.New(&server.Options{
		Info:       protocol.Implementation{Name: "bank", Title: "Bank", Version: "1.0.0"},
		Observer:   observer,
		Middleware: chain,
		Roundtrip:  options,
	})
	if err != nil {
		return nil, err
	}
	b.register(srv)
	return srv, nil
}

// serve runs until ctx ends. Then it notifies balancers, and drains first sessions, then requests.
func serve(ctx context.Context, srv *server.Server, handler *serverhttp.Handler, mux http.Handler,
	page *inspect.Page, address, admin string, notice time.Duration) error {
	public, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	private, err := net.Listen("tcp", admin)
	if err != nil {
		return errors.Join(err, public.Close())
	}
	var ready atomic.Bool
	ready.Store(true)
	clients := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout: 2 * time.Minute} // a WriteTimeout would cut streams
	operators := &http.Server{Handler: adminHandler(&ready, page),
		ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 2)
	go func() { failed <- clients.Serve(public) }()
	go func() { failed <- operators.Serve(private) }()
	fmt.Printf("clients: http://%s/mcp\noperators: http://%s/metrics, /debug/rondo/\n", public.Addr(),
		private.Addr())

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ready.Store(false)
	time.Sleep(notice)
	draining, cancel := context.WithTimeout(context.Background(), drainTime)
	_ = handler.Drain(draining) // sessions that are still open end below
	cancel()
	ending, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	return errors.Join(handler.Shutdown(ending), srv.Shutdown(ending), clients.Shutdown(ending),
		operators.Close())
}

// adminHandler serves operators and supervisors without authentication, so its address must not be
// reachable from outside. In addition, the server's page admits only browsers of this machine.
func adminHandler(ready *atomic.Bool, page http.Handler) http.Handler {
	admin := http.NewServeMux()
	admin.Handle("/metrics", promhttp.Handler())
	admin.Handle("/debug/rondo/", page)
	admin.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	admin.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "the server is closing", http.StatusServiceUnavailable)
		}
	})
	return admin
}
