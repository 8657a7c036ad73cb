package serverhttp_test

import (
	"context"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A program that ends with SIGTERM (not run).
func ExampleHandler_Shutdown() {
	srv, err := server.New(nil)
	if err != nil {
		panic(err)
	}
	handler, err := serverhttp.New(srv, nil)
	if err != nil {
		panic(err)
	}
	httpServer := &http.Server{Addr: "localhost:8080", Handler: handler,
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	go httpServer.ListenAndServe()

	stopped, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-stopped.Done()
	patience, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	handler.Shutdown(patience)    // requests get 503, those in flight finish
	httpServer.Shutdown(patience) // connections
	srv.Close()                   // background work
}
