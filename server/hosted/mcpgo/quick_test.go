package mcpgo_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
)

func TestQuick(t *testing.T) {
	s := mcpserver.NewMCPServer("mg", "1", mcpserver.WithElicitation(), mcpserver.WithRecovery())
	form := map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}}
	s.AddTool(mcp.NewTool("push"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		said := ""
		for _, q := range []string{"Why?", "Sure?"} {
			a, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{Message: said + q, RequestedSchema: form}})
			if err != nil {
				return nil, err
			}
			said += fmt.Sprint(a.Action, a.Content, " ")
		}
		return mcp.NewToolResultText(said), nil
	})
	s.AddTool(mcp.NewTool("return"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r := req.Params.InputResponses
		if req.Params.RequestState == "2" {
			return mcp.NewToolResultText(fmt.Sprint(mcpserver.ElicitationResponse(r, "b").Content)), nil
		}
		if a := mcpserver.ElicitationResponse(r, "a"); a != nil {
			return mcpserver.NewInputRequestBuilder("2").Elicit("b", mcp.ElicitationParams{Message: fmt.Sprint("then ", a.Content), RequestedSchema: form}).ToolResult(), nil
		}
		return mcpserver.NewInputRequestBuilder("1").Elicit("a", mcp.ElicitationParams{Message: "First?", RequestedSchema: form}).ToolResult(), nil
	})
	s.AddTool(mcp.NewTool("ask"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		a, err := roundtrip.Ask[struct {
			Text string `json:"text"`
		}](ctx, "why", "Why?")
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(a.Text), nil
	})
	s.AddTool(mcp.NewTool("panic"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		panic("x")
	})
	front, err := mcpgo.New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	h, err := front.Handler(nil)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(h)
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		peer, _ := clienthttp.New(web.URL, nil)
		c, _ := client.New(peer, &client.Options{Era: era, ElicitForm: func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
			fmt.Println(era, q.Key, q.Message)
			return client.Accept(map[string]any{"text": q.Message})
		}})
		for _, tool := range []string{"push", "return", "ask", "panic"} {
			r, err := c.CallTool(t.Context(), tool, nil)
			if err != nil {
				t.Log(era, tool, err)
				continue
			}
			t.Log(era, tool, r.IsError, r.Content[0])
		}
		c.Close()
	}
}
