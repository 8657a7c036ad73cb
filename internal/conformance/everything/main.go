// Everything is a server with one of each: every kind of content, progress and log messages, every
// kind of question, prompts, resources, completion, and lists that change while it runs. Names and
// texts come from the protocol's conformance suite, which run.sh starts.
//
//	go run ./internal/conformance/everything                        # standard input and output
//	go run ./internal/conformance/everything -http 127.0.0.1:8080   # http://127.0.0.1:8080/mcp
//
// Processes behind a balancer are one server if they share a key and know each other (replicas.go):
//
//	RONDO_KEYS=2026-07:$(head -c 32 /dev/urandom | base64)
//	RONDO_REPLICA=a
//	RONDO_REPLICAS=a=http://127.0.0.1:8081/mcp,b=http://127.0.0.1:8082/mcp
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
	"syscall"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const patience = 5 * time.Second // limit for requests in flight at shutdown

func main() {
	addr := flag.String("http", "", "serve over HTTP at this `address`, port 0 for any that is free; empty: standard input and output")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr); err != nil {
		fmt.Fprintln(os.Stderr, "everything:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr string) error {
	ring, err := keysFromEnv()
	if err != nil {
		return err
	}
	srv, err := newServer(ring)
	if err != nil {
		return err
	}
	if addr == "" {
		return srv.ServeStdio(ctx)
	}
	replicas, err := replicasFromEnv(ring)
	if err != nil {
		return err
	}
	if replicas != nil { // it never changes in a session
		add(srv, "test_replica", "Answers with the name of the replica that runs it.",
			func(context.Context, *server.ToolCall, nothing) (outcome, error) {
				return server.Text(replicas.Name), nil
			})
	}
	return serveHTTP(ctx, srv, addr, replicas)
}

// newServer registers all features. ring seals the state of flows; nil means a key of this process.
func newServer(ring *keys.Keyring) (*server.Server, error) {
	opts := &server.Options{
		Info: protocol.Implementation{Name: "everything", Title: "Everything",
			Version: "1.0.0"},
		Instructions: "Tools, prompts and resources to try a client with. None of them has an effect outside of this server.",
		ListTTL:      -1, // a call may change the lists, so they are not cached
	}
	opts.Roundtrip.MinHumanTime = -1 // automated clients answer at once
	if ring != nil {
		opts.Roundtrip.Sealer = ring
	}
	srv, err := server.New(opts)
	if err != nil {
		return nil, err
	}
	addContent(srv)
	addNotifying(srv)
	addSchemas(srv)
	addQuestions(srv)
	addPrompts(srv)
	addResources(srv)
	addChanges(srv)
	return srv, addTasks(srv)
}

// serveHTTP serves until ctx ends. Then it drains sessions (other replicas accept new clients),
// ends subscriptions, waits for running requests, and closes connections.
func serveHTTP(ctx context.Context, srv *server.Server, addr string,
	replicas *replicas.Options) error {
	handler, err := serverhttp.New(srv, &serverhttp.Options{Replicas: replicas})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	httpServer := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- httpServer.Serve(listener) }()
	// This is the only line on standard output. Scripts read it.
	fmt.Printf("http://%s/mcp\n", listener.Addr())

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ctx = context.WithoutCancel(ctx)
	if replicas != nil {
		drainCtx, cancel := context.WithTimeout(ctx, patience)
		_ = handler.Drain(drainCtx) // open sessions are ended below
		cancel()
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return errors.Join(handler.Shutdown(ctx), srv.Shutdown(ctx), httpServer.Shutdown(ctx))
}
