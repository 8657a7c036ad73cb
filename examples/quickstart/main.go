// Quickstart is a server whose tool asks before it acts, and clients of both eras that get its
// questions. All run in this process and speak HTTP over loopback.
//
//	go run ./examples/quickstart         # answers by itself; examples/first asks you
//	go run ./examples/quickstart -wire   # prints the messages, too
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func main() {
	show := flag.Bool("wire", false, "print everything that client and server send")
	flag.Parse()
	if err := run(context.Background(), *show); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, show bool) error {
	url, stop, err := serve()
	if err != nil {
		return err
	}
	defer stop()
	accept := answerWith(map[string]string{
		"How many people?": `{"people":3}`, "Where, for 3?": `{"place":"window"}`})
	for _, version := range []protocol.Version{protocol.V20260728, protocol.V20251125} {
		fmt.Printf("== A client of revision %s\n", version)
		if err := call(ctx, url, version.Era(), &wire{show: show}, accept); err != nil {
			return err
		}
		fmt.Println()
	}
	fmt.Println("== The person declines")
	if err = call(ctx, url, protocol.Modern, &wire{show: show}, answerWith(nil)); err != nil {
		return err
	}
	fmt.Println("\n== Somebody changes the state on its way back")
	err = call(ctx, url, protocol.Modern, &wire{show: show, tamper: true}, accept)
	refused, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		return fmt.Errorf("a tampered state was not refused: %v", err)
	}
	fmt.Printf("refused: %v\n", refused)
	return nil
}

// An elicit is the client's handler for a server's form.
type elicit = func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error)

// answerWith answers each message with its content, and declines others.
func answerWith(contents map[string]string) elicit {
	return func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
		action, content := protocol.ActionDecline, contents[q.Message]
		if content != "" {
			action = protocol.ActionAccept
		}
		fmt.Printf("   asked: %s -> %s %s\n", q.Message, action, content)
		time.Sleep(time.Second / 2) // an immediate answer would not count as a person's answer
		return &protocol.ElicitResult{Action: action, Content: json.RawMessage(content)}, nil
	}
}

// newServer is the whole server: one tool, which is written once for all clients.
func newServer() (*server.Server, error) {
	srv, err := server.New(&server.Options{
		Info: protocol.Implementation{Name: "quickstart", Version: "1.0.0"},
	})
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "book", Description: "Books a table."}, book)
	return srv, nil
}

func serve() (url string, stop func(), err error) {
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

func call(ctx context.Context, url string, era protocol.Era, wire *wire, elicit elicit) error {
	transport, err := clienthttp.New(url,
		&clienthttp.Options{HTTPClient: &http.Client{Transport: wire}})
	if err != nil {
		return err
	}
	c, err := client.New(transport, &client.Options{
		Info:       protocol.Implementation{Name: "quickstart-client", Version: "1.0.0"},
		ElicitForm: elicit, Era: era,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	result, err := c.CallTool(ctx, "book", Booking{Restaurant: "Chez Ada"})
	if err != nil {
		return err
	}
	for _, block := range result.Content {
		if text, ok := block.(*protocol.TextContent); ok {
			fmt.Println("result:", text.Text)
		}
	}
	return nil
}
