package mcpgo_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
)

// A handler that asks with the server's own method, as handlers have done before revision
// 2026-07-28.
func addDelete(mcpServer *mcpserver.MCPServer) {
	mcpServer.AddTool(mcp.NewTool("delete", mcp.WithString("name")),
		func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			name := req.GetString("name", "")
			answer, err := mcpServer.RequestElicitation(ctx, mcp.ElicitationRequest{
				Params: mcp.ElicitationParams{Message: "Delete " + name + "?",
					RequestedSchema: map[string]any{"type": "object",
						"properties": map[string]any{}}}})
			if err != nil {
				return nil, err // the client is asked, or refused
			}
			if answer.Action != mcp.ElicitationResponseActionAccept {
				return mcp.NewToolResultText("kept " + name), nil
			}
			return mcp.NewToolResultText("deleted " + name), nil
		})
}

func ExampleNew() {
	mcpServer := mcpserver.NewMCPServer("files", "1.0.0", mcpserver.WithElicitation())
	addDelete(mcpServer)

	front, err := mcpgo.New(mcpServer, nil)
	if err != nil {
		log.Fatal(err)
	}
	handler, err := front.Handler(nil) // in place of server.NewStreamableHTTPServer
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
		result, err := c.CallTool(context.Background(), "delete",
			map[string]string{"name": "a.txt"})
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
