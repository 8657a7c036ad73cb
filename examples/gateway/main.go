// Gateway: clients connect to one MCP server, which passes their calls on to
// others. What an upstream server asks in the middle of a call reaches the
// client that made the call, and nobody else.
//
//	go run .                          # two users at the same time, see below
//	go run . -config gateway.json     # a gateway as a file describes it: see configured.go
//	go run . -serve 127.0.0.1:8080 -user s3cret=alice \
//		-upstream deploy=http://127.0.0.1:9001/mcp -upstream files=stdio:./files-server
//
// Without flags it starts two upstream servers and a gateway, one upstream built on
// the official Go SDK and one on rondo, and has two users call through the gateway so
// that their questions interleave.
// It fails if one of them sees anything that is the other's.
//
// With -serve the gateway stands on the official SDK and the router, for clients with
// sessions. With -config it is the one of package elicitation/gateway, for clients and upstreams
// of both eras.
//
// The gateway on the SDK reads ELICITATION_TIMEOUT, ELICITATION_MAX_CONCURRENT and
// ELICITATION_CLEANUP_INTERVAL, logs to standard error, and has its metrics at
// /metrics. That of -config has metrics and logs, too. dashboard.json shows both in Grafana.
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
	"strings"
	"syscall"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
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
	address := flags.String("serve", "", "run a gateway at this `address`")
	path := flags.String("config", "", "run the gateway that this `file` describes")
	upstreams, users := pairsFlag{}, pairsFlag{}
	flags.Var(upstreams, "upstream", "pass calls of NAME_tool on to the server at this `NAME=URL`, "+
		"or to children that run NAME=stdio:COMMAND; may be repeated")
	flags.Var(users, "user", "let in who has this `TOKEN=NAME`; may be repeated")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if *path != "" {
		return runConfigured(ctx, *path, stdout, stderr)
	}
	if *address == "" {
		return demo(ctx, stdout)
	}
	routing, err := elicitation.OptionsFromEnv(os.LookupEnv)
	if err != nil {
		return err
	}
	g, err := newGateway(ctx, config{routing, upstreams, users}, stderr)
	if err != nil {
		return err
	}
	return listen(ctx, *address, g.handler(), g.shutdown, stdout)
}

// pairsFlag holds the values of a flag that may be repeated.
type pairsFlag map[string]string

func (f pairsFlag) String() string { return "" }

func (f pairsFlag) Set(value string) error {
	name, text, ok := strings.Cut(value, "=")
	if text = strings.TrimSpace(text); !ok || name == "" || text == "" || text == "stdio:" {
		return errors.New("it has no name, or no value after =")
	}
	f[name] = text
	return nil
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
