// Retrofit: a server built on the official Go SDK whose delete guard pushes a
// question and waits, before and after rondo is installed on it. Clients of
// both eras call both, over HTTP on loopback.
//
//	go run .    # in this directory
//
// The two servers are before.go and after.go; compare them.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	if err := show(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "retrofit:", err)
		os.Exit(1)
	}
}

// show calls both servers as clients of both eras, and prints what comes of it.
func show(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	servers := []struct {
		name string
		open func(*files) (http.Handler, error)
	}{
		{"before", func(f *files) (http.Handler, error) { return before(f), nil }},
		{"after", after},
	}
	for _, s := range servers {
		for _, revision := range []string{"2026-07-28", "2025-11-25"} {
			for _, action := range []string{"accept", "decline"} {
				kept := newFiles("draft.txt", "report.txt")
				handler, err := s.open(kept)
				if err != nil {
					return err
				}
				said, asked, err := call(ctx, handler, revision, action)
				if err != nil {
					said = "failed: " + err.Error()
				}
				fmt.Fprintf(out, "%-6s  client of %s, who would %-7s  asked %d times  %s, left are %v\n",
					s.name, revision, action, asked, said, kept.list())
			}
		}
	}
	return nil
}

// call serves handler on loopback and calls it once, as a client of a revision
// whose person answers every question with action. It returns what the tool
// said and how often the person was asked.
func call(ctx context.Context, handler http.Handler,
	revision, action string) (said string, asked int, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", 0, err
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(listener) }()
	defer s.Close()

	client := mcp.NewClient(&mcp.Implementation{Name: "retrofit", Version: "1.0.0"},
		&mcp.ClientOptions{
			ElicitationHandler: func(context.Context,
				*mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked++
				if action != "accept" {
					return &mcp.ElicitResult{Action: action}, nil
				}
				return &mcp.ElicitResult{Action: action,
					Content: map[string]any{"reason": "it is out of date"}}, nil
			},
		})
	session, err := client.Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: "http://" + listener.Addr().String()},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		return "", 0, err
	}
	defer session.Close()
	result, err := session.CallTool(ctx,
		&mcp.CallToolParams{Name: "delete", Arguments: deletion{"draft.txt"}})
	if err != nil {
		return "", asked, err
	}
	said = result.Content[0].(*mcp.TextContent).Text
	if result.IsError {
		said = "failed: " + said
	}
	return said, asked, nil
}
