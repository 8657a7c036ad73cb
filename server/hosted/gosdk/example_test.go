package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
)

type deletion struct {
	Name string `json:"name"`
}

// deleteFile asks with the session's own method, as handlers did before revision 2026-07-28.
func deleteFile(ctx context.Context, req *mcp.CallToolRequest, in deletion) (
	*mcp.CallToolResult, any, error) {
	answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{
		Message:         "Delete " + in.Name + "?",
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
	})
	if err != nil {
		return nil, nil, err // the client is asked, or refused
	}
	if answer.Action != "accept" {
		return text("kept " + in.Name), nil, nil
	}
	return text("deleted " + in.Name), nil, nil
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func ExampleNew() {
	mcpServer := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1.0.0"}, nil)
	mcp.AddTool(mcpServer, &mcp.Tool{Name: "delete"}, deleteFile)

	front, err := gosdk.New(mcpServer, nil)
	if err != nil {
		log.Fatal(err)
	}
	handler, err := front.Handler(nil) // instead of mcp.NewStreamableHTTPHandler
	if err != nil {
		log.Fatal(err)
	}

	web := httptest.NewServer(handler)
	defer web.Close()
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		over, err := clienthttp.New(web.URL, nil)
		if err != nil {
			log.Fatal(err)
		}
		c, err := client.New(over, &client.Options{Era: era, ElicitForm: func(
			_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
			fmt.Println(q.Message)
			return client.Accept(struct{}{})
		}})
		if err != nil {
			log.Fatal(err)
		}
		result, err := c.CallTool(context.Background(), "delete", deletion{"a.txt"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(era, result.Content[0].(*protocol.TextContent).Text)
		_ = c.Close()
	}
	_ = front.Close()
	// Output:
	// Delete a.txt?
	// modern deleted a.txt
	// Delete a.txt?
	// legacy deleted a.txt
}

func newServerFor(p protocol.Principal) (*mcp.Server, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "owner"}, func(context.Context, *mcp.CallToolRequest,
		struct{}) (*mcp.CallToolResult, any, error) {
		return text(p.Subject), nil, nil
	})
	return s, nil
}

func ExampleNewEach() {
	front, err := gosdk.NewEach(
		func(_ context.Context, caller *hosted.Caller) (*mcp.Server, error) {
			return newServerFor(caller.Principal)
		},
		&gosdk.Options{Options: hosted.Options{Server: server.Options{
			Info: protocol.Implementation{Name: "tickets", Version: "1.0.0"},
		}}})
	if err != nil {
		log.Fatal(err)
	}
	defer front.Close()

	c, err := client.New(front.Server(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for _, subject := range []string{"ann", "bob"} {
		ctx := server.WithPrincipal(context.Background(), protocol.Principal{Subject: subject})
		result, err := c.CallTool(ctx, "owner", nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Content[0].(*protocol.TextContent).Text)
	}
	// Output:
	// ann
	// bob
}
