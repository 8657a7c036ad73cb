// Writeonce: one handler that asks questions, and three clients that are asked
// in three ways. What each person is asked and answers is printed side by side.
//
//	go run ./examples/writeonce
//
// The first client speaks revision 2026-07-28: each question is the result of
// one request, and the answer comes with the next. The other two speak
// 2025-11-25: the question is pushed to them while their request runs, over HTTP
// on the stream of the request, and over the standard output of a process.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// serveArg makes this program the server that the third client starts.
const serveArg = "serve"

func main() {
	do := run
	if slices.Equal(os.Args[1:], []string{serveArg}) {
		do = serveStdio
	}
	if err := do(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "writeonce:", err)
		os.Exit(1)
	}
}

// run has three clients do the same, once with a person who accepts and once
// with one who does not.
func run(ctx context.Context, out io.Writer) error {
	url, stop, err := serveHTTP()
	if err != nil {
		return err
	}
	defer stop()

	overHTTP := func() (protocol.Peer, error) { return clienthttp.New(url, nil) }
	clients := []struct {
		name string
		era  protocol.Era
		dial func() (protocol.Peer, error)
	}{
		{"HTTP", protocol.Modern, overHTTP},
		{"HTTP session", protocol.Legacy, overHTTP},
		{"session of a process", protocol.Legacy, startProcess},
	}
	for _, p := range []person{accepts, declines} {
		var all []transcript
		for _, c := range clients {
			peer, err := c.dial()
			if err != nil {
				return err
			}
			t := transcript{name: c.name}
			if err := t.take(ctx, peer, c.era, p); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			all = append(all, t)
		}
		fmt.Fprintf(out, "== %s\n\n", p.name)
		columns(out, all)
		if !same(all) {
			return errors.New("the transcripts differ")
		}
	}
	fmt.Fprintln(out, "The transcripts are the same.")
	return nil
}

// serveHTTP serves clients of all revisions at one URL, on a free loopback port.
func serveHTTP() (url string, stop func(), err error) {
	srv, err := newServer()
	if err != nil {
		return "", nil, err
	}
	handler, err := serverhttp.New(srv, nil)
	if err != nil {
		return "", nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	httpServer := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go httpServer.Serve(listener)
	stop = func() {
		httpServer.Close()
		srv.Close()
	}
	return "http://" + listener.Addr().String() + "/mcp", stop, nil
}

// serveStdio serves a client of any revision on standard input and output.
func serveStdio(ctx context.Context, _ io.Writer) error {
	srv, err := newServer()
	if err != nil {
		return err
	}
	defer srv.Close()
	return srv.ServeStdio(ctx)
}

// startProcess starts this program once more, as a server.
func startProcess() (protocol.Peer, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, serveArg)
	cmd.Stderr = os.Stderr
	return client.Command(cmd, nil)
}
