// First is the server that you type in examples/README.md: one tool, which asks two questions.
//
//	go run ./examples/first -try    # a client in the same process, which asks you
//	go run ./examples/first -http   # serves http://localhost:8080/mcp
//	go run ./examples/first         # serves on standard input and output
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// Booking is the model's input.
type Booking struct {
	Restaurant string `json:"restaurant" jsonschema:"where to book a table"`
}

// Party and Table are the person's forms.
type Party struct {
	People int `json:"people" title:"People" minimum:"1" maximum:"12"`
}

type Table struct {
	Place string `json:"place" title:"Place" enum:"window,garden" default:"garden"`
}

func book(ctx context.Context, call *server.ToolCall,
	in Booking) (protocol.CallToolOutcome, error) {
	party, err := roundtrip.Ask[Party](ctx, "party", "How many people?")
	if err != nil {
		return nil, err
	}
	table, err := roundtrip.Ask[Table](ctx, "table", fmt.Sprintf("Where, for %d?", party.People))
	if err != nil {
		return nil, err
	}
	return server.Text(fmt.Sprintf("%s: a table for %d, %s",
		in.Restaurant, party.People, table.Place)), nil
}

func newServer() (*server.Server, error) {
	srv, err := server.New(&server.Options{
		Info: protocol.Implementation{Name: "tables", Version: "1.0.0"},
	})
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "book", Description: "Books a table."}, book)
	return srv, nil
}

func main() {
	overHTTP := flag.Bool("http", false, "serve http://localhost:8080/mcp")
	try := flag.Bool("try", false, "call the tool, and ask you")
	flag.Parse()
	srv, err := newServer()
	if err != nil {
		log.Fatal(err)
	}
	switch {
	case *try:
		err = tryOut(context.Background(), srv)
	case *overHTTP:
		err = serveHTTP(srv)
	default:
		err = srv.ServeStdio(context.Background())
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serveHTTP(srv *server.Server) error {
	handler, err := serverhttp.New(srv, nil)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	return http.ListenAndServe("localhost:8080", mux)
}
