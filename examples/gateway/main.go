// Gateway: clients connect to one MCP server, which passes their calls on to
// others. What an upstream server asks in the middle of a call reaches the
// client that made the call, and nobody else.
//
//	go run .                          # two users at the same time, see below
//	go run . -config gateway.json     # a gateway as a file describes it: see configured.go
//
// Without flags it starts two upstream servers and a gateway, one upstream built on
// the official Go SDK and one on rondo, and has two users call through the gateway so
// that their questions interleave. One of them has a client of revision 2026-07-28, the other
// one has a session. It fails if one of them sees anything that is the other's.
//
// The gateway has its metrics at /metrics, and logs to standard error. dashboard.json shows them
// in Grafana. ELICITATION_TIMEOUT, ELICITATION_MAX_CONCURRENT and ELICITATION_CLEANUP_INTERVAL set
// how long a person may take, how many questions may be open, and how often calls that nobody ended
// are looked for. A value that cannot be used is refused at start.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.SetOutput(stderr)
	path := flags.String("config", "", "run the gateway that this `file` describes")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if *path != "" {
		return runConfigured(ctx, *path, stdout, stderr)
	}
	return demo(ctx, stdout, stderr)
}

// listen serves until ctx ends and drain has returned, and prints the address
// that it got.
func listen(ctx context.Context, address string, handler http.Handler, drain func(),
	stdout io.Writer) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "http://%s\n", listener.Addr())
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		drain() // people may still answer
		srv.Close()
	}()
	if err := srv.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}
