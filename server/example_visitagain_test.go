package server_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"sync"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// visitsByCaller stores visits that outlive their calls. Use a table with an index on both columns.
type visitsByCaller struct {
	mu       sync.Mutex
	names    map[visitKey]string
	finished map[string]bool
}

type visitKey struct {
	caller  protocol.Principal
	purpose string
}

// visitOf returns the random name of a caller's visit, created on demand.
func (v *visitsByCaller) visitOf(caller protocol.Principal, purpose string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := visitKey{caller, purpose}
	if v.names[key] == "" {
		v.names[key] = rand.Text()
	}
	return v.names[key]
}

func (v *visitsByCaller) isFinished(visit string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.finished[visit]
}

// finish is called by the page when the user is done.
func (v *visitsByCaller) finish(visit string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.finished[visit] = true
}

// A user finishes a visit too late and calls again: the second call finds the first visit.
func Example_visitAgain() {
	v := &visitsByCaller{names: map[visitKey]string{}, finished: map[string]bool{}}
	srv, err := server.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	server.AddTool(srv, server.Tool{Name: "connect"}, func(ctx context.Context,
		call *server.ToolCall, _ struct{}) (protocol.CallToolOutcome, error) {
		visit := v.visitOf(call.Principal, "bank")
		if !v.isFinished(visit) {
			err := roundtrip.AskURL(ctx, "visit", "Please log in to your bank.",
				"https://bank.example/?visit="+visit)
			if err != nil {
				return nil, err
			}
			err = roundtrip.Await(ctx, "visit", func(context.Context) (bool, error) {
				return v.isFinished(visit), nil
			})
			if err != nil {
				return nil, err
			}
		}
		return server.Text("connected"), nil
	})

	later := ""
	c, err := client.New(srv, &client.Options{
		ElicitURL: func(_ context.Context, q *client.URLQuestion) (*protocol.ElicitResult, error) {
			later = q.URL[len("https://bank.example/?visit="):] // the user leaves the page open
			return &protocol.ElicitResult{Action: protocol.ActionCancel}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ann := server.WithPrincipal(context.Background(),
		protocol.Principal{Issuer: "https://id.example", Subject: "ann"})
	for range 2 {
		result, err := c.CallTool(ann, "connect", nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Content[0].(*protocol.TextContent).Text)
		v.finish(later)
	}
	// Output:
	// cancelled: visit; the person has not decided: call again only if they want to
	// connected
}
