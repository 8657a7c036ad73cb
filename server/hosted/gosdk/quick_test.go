package gosdk_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
)

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func TestQuick(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	form := map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}}
	mcp.AddTool(s, &mcp.Tool{Name: "push"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		said := ""
		for _, q := range []string{"Why?", "Why?", "Sure?"} {
			a, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: q, RequestedSchema: form})
			if err != nil {
				return nil, nil, err
			}
			said += fmt.Sprint(a.Action, a.Content, " ")
		}
		return text(said), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "elsewhere"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		done := make(chan error)
		var a *mcp.ElicitResult
		go func() {
			var err error
			a, err = req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Elsewhere?", RequestedSchema: form})
			done <- err
		}()
		if err := <-done; err != nil {
			return nil, nil, err
		}
		return text(a.Action), nil, nil
	})
	s.AddTool(&mcp.Tool{Name: "return", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		fmt.Println("   run", req.Params.RequestState, len(req.Params.InputResponses))
		r := req.Params.InputResponses
		if req.Params.RequestState == "2" {
			return text(fmt.Sprint(r["b"].(*mcp.ElicitResult).Content)), nil
		}
		if a, ok := r["a"].(*mcp.ElicitResult); ok {
			return &mcp.CallToolResult{RequestState: "2", InputRequests: mcp.InputRequestMap{"b": &mcp.ElicitParams{Mode: "form", Message: fmt.Sprint("then ", a.Content), RequestedSchema: form}}}, nil
		}
		return &mcp.CallToolResult{RequestState: "1", InputRequests: mcp.InputRequestMap{"a": &mcp.ElicitParams{Mode: "form", Message: "First?", RequestedSchema: form},
			"x": &mcp.ElicitParams{Mode: "form", Message: "Other?", RequestedSchema: form}}}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "ask"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		a, err := roundtrip.Ask[struct {
			Text string `json:"text"`
		}](ctx, "why", "Why?")
		if err != nil {
			return nil, nil, err
		}
		return text(a.Text), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "panic"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		panic("x")
	})
	for _, eras := range [][]protocol.Era{{protocol.Modern, protocol.Legacy}, {protocol.Legacy, protocol.Modern}} {
		front, err := gosdk.New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer front.Close()
		h, err := front.Handler(nil)
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(h)
		for _, era := range eras {
			peer, _ := clienthttp.New(web.URL, nil)
			c, _ := client.New(peer, &client.Options{Era: era, ElicitForm: func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
				fmt.Println(era, q.Key, q.Message)
				return client.Accept(map[string]any{"text": q.Message})
			}})
			for _, tool := range []string{"push", "return", "return", "elsewhere", "elsewhere", "ask", "panic"} {
				r, err := c.CallTool(t.Context(), tool, nil)
				if err != nil {
					fmt.Println(era, tool, err)
					continue
				}
				fmt.Println(era, tool, r.IsError, r.Content[0])
			}
			c.Close()
		}
	}
}
