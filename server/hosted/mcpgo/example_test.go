package mcpgo_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

type notebook struct{}

func (notebook) Delete(string) error { return nil }

var notes notebook

func deleteNote(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name := request.GetString("name", "")

	_, err := roundtrip.Ask[struct{}](ctx, "confirm", "Delete "+name+"?")
	if err != nil {
		return nil, err
	}

	return mcp.NewToolResultText("deleted " + name), notes.Delete(name)
}

func ExampleNew() {
	mcpServer := mcpserver.NewMCPServer("notes", "1.0.0")
	mcpServer.AddTool(mcp.NewTool("delete", mcp.WithString("name")), deleteNote)

	front, err := mcpgo.New(mcpServer, nil)
	if err != nil {
		log.Fatal(err)
	}
	handler, err := front.Handler(&serverhttp.Options{
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			sum := sha256.Sum256([]byte(r.Header.Get("Authorization")))
			return protocol.Principal{Subject: hex.EncodeToString(sum[:])}, nil
		},
	})
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
			map[string]string{"name": "plans"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(era, result.Content[0].(*protocol.TextContent).Text)
		_ = c.Close()
	}
	_ = front.Close()
	// Output:
	// Delete plans?
	// modern deleted plans
	// Delete plans?
	// legacy deleted plans
}
