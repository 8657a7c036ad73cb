// Protected: a server that lets nobody in without a token, and a client that logs
// in. An authorization server for tests stands between them, in the place of the one that
// your company runs already, and a browser that belongs to alice, who consents to everything.
// All run in this process and speak HTTP over loopback.
//
//	go run ./examples/protected
//
// The first call is refused with a challenge, from which the client finds out all
// that it needs: where to log in, for which server, and for which scope. The second
// call needs one more scope, and alice is asked once more.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/server/bearer/bearertest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "protected:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	out = &lineWriter{out: out}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	issuer := "http://" + at.Addr().String()
	pages := bearertest.NewIssuer(issuer).Handler("alice")
	defer serve(at, printConsent(pages, out))()

	at, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	resource := "http://" + at.Addr().String() + "/mcp"
	srv, err := newServer(&notebook{notes: make(map[string][]string)})
	if err != nil {
		return err
	}
	defer srv.Close()
	handler, err := protect(srv, resource, issuer)
	if err != nil {
		return err
	}
	defer serve(at, printRefusals(handler, out))()
	return useNotes(ctx, resource, out)
}

// printConsent passes requests to the authorization server on, and prints what alice consents to.
func printConsent(next http.Handler, out io.Writer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/authorize" {
			fmt.Fprintf(out, "browser   alice consents to %q\n", r.URL.Query().Get("scope"))
		}
		next.ServeHTTP(w, r)
	})
}

// A lineWriter takes lines from all who take part, one at a time.
type lineWriter struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements [io.Writer].
func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(line)
}

// serve serves on a listener and returns what ends that.
func serve(at net.Listener, handler http.Handler) (stop func()) {
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(at) }()
	return func() {
		s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "protected:", err)
		}
	}
}
