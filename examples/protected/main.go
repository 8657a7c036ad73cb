// Protected is a server that refuses requests without a token, and a client that logs in. A test
// server stands in for your company's authorization server, and a function for the browser of
// alice, who consents to everything. All run in this process and speak HTTP over loopback.
//
//	go run ./examples/protected
//
// The first call is refused. From the challenge the client learns the authorization server, the
// resource and the scope. The second call needs one more scope, and alice is asked again.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"

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

func run(ctx context.Context, to io.Writer) error {
	out := log.New(to, "", 0) // safe for concurrent use
	login, notes := http.NewServeMux(), http.NewServeMux()
	issuer, resource := httptest.NewServer(login), httptest.NewServer(notes)
	defer issuer.Close()
	defer resource.Close()
	login.Handle("/", printConsent(bearertest.NewIssuer(issuer.URL).Handler("alice"), out))

	srv, err := newServer(&notebook{notes: make(map[string][]string)})
	if err != nil {
		return err
	}
	defer srv.Close()
	endpoint := resource.URL + "/mcp"
	handler, err := protect(srv, endpoint, issuer.URL)
	if err != nil {
		return err
	}
	notes.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(&refusalPrinter{w, out}, r)
	})
	return useNotes(ctx, endpoint, out)
}

func printConsent(next http.Handler, out *log.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/authorize" {
			out.Printf("browser   alice consents to %q", r.URL.Query().Get("scope"))
		}
		next.ServeHTTP(w, r)
	})
}

type refusalPrinter struct {
	http.ResponseWriter
	out *log.Logger
}

// WriteHeader prints the response's challenge, if there is one.
func (p *refusalPrinter) WriteHeader(status int) {
	if challenge := p.Header().Get("WWW-Authenticate"); challenge != "" {
		p.out.Printf("server    %d %s", status, challenge)
	}
	p.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (p *refusalPrinter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
