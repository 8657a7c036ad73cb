package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
)

// A gateway with one tool, which it has from a server behind it.
func Example() {
	if err := gatewayOfOne(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the user is asked: Deploy?
	// the tool says: accept
}

func gatewayOfOne(ctx context.Context) error {
	about := &mcp.Implementation{Name: "example", Version: "1"}
	deploy := &mcp.Tool{Name: "deploy", InputSchema: json.RawMessage(`{"type":"object"}`)}
	said := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}

	behind := mcp.NewServer(about, nil)
	behind.AddTool(deploy, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult,
		error) {
		answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{
			Message: "Deploy?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)})
		if err != nil {
			return nil, err
		}
		return said(answer.Action), nil
	})
	inner := overHTTP(behind)
	defer inner.Close()

	// The gateway: each call has an upstream connection, and a key, of its own.
	router, err := elicitation.New(nil)
	if err != nil {
		return err
	}
	gateway := mcp.NewServer(about, nil)
	clients, err := gosdk.NewDownstream(router, gateway, nil)
	if err != nil {
		panic(err)
	}
	gateway.AddTool(deploy, func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key := elicitation.UpstreamKey(fmt.Sprintf("%p", req)) // a gateway has a counter, or a UUID
		call, err := clients.Begin(ctx, req, key)
		if err != nil {
			return nil, err
		}
		defer call.End()
		upstream, err := open(ctx, gosdk.NewClient(router, call, key, about, nil), inner.URL)
		if err != nil {
			return nil, err
		}
		defer upstream.Close()
		return upstream.CallTool(ctx,
			&mcp.CallToolParams{Name: req.Params.Name, Arguments: req.Params.Arguments})
	})
	outer := overHTTP(gateway)
	defer outer.Close()

	// A user of it.
	user, err := open(ctx, mcp.NewClient(about, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult,
			error) {
			fmt.Println("the user is asked:", req.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
	}), outer.URL)
	if err != nil {
		return err
	}
	defer user.Close()
	result, err := user.CallTool(ctx,
		&mcp.CallToolParams{Name: "deploy", Arguments: map[string]any{}})
	if err != nil {
		return err
	}
	fmt.Println("the tool says:", result.Content[0].(*mcp.TextContent).Text)
	return nil
}

func overHTTP(s *mcp.Server) *httptest.Server {
	return httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
}

// open connects a client of revision 2025-11-25, in which servers push questions.
func open(ctx context.Context, c *mcp.Client, url string) (*mcp.ClientSession, error) {
	return c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url},
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
}
