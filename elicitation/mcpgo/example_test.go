package mcpgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
)

// answering is a person that is a function.
type answering func(ctx context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error)

func (f answering) Elicit(ctx context.Context,
	r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return f(ctx, r)
}

func result(action string, content any) *mcp.ElicitationResult {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseAction(action), Content: content}}
}

// serve serves s over HTTP and returns a transport to it.
func serve(s *server.MCPServer) (transport.Interface, func(), error) {
	over := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t, err := transport.NewStreamableHTTP(over.URL + "/mcp")
	return t, over.Close, err
}

// open starts a client of revision 2025-11-25, in which servers push questions.
func open(ctx context.Context, c *client.Client) error {
	client.WithProtocolVersion(mcp.ProtocolVersion20251125)(c)
	if err := c.Start(ctx); err != nil {
		return err
	}
	_, err := c.Initialize(ctx, mcp.InitializeRequest{})
	return err
}

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
	behind := server.NewMCPServer("behind", "1", server.WithElicitation())
	behind.AddTool(mcp.NewTool("deploy"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			answer, err := behind.RequestElicitation(ctx,
				mcp.ElicitationRequest{Params: mcp.ElicitationParams{
					Message:         "Deploy?",
					RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}})
			if err != nil {
				return nil, err
			}
			return mcp.NewToolResultText(string(answer.Action)), nil
		})
	inner := httptest.NewServer(server.NewStreamableHTTPServer(behind))
	defer inner.Close()

	// The gateway: all calls share a connection.
	router, err := elicitation.New(nil)
	if err != nil {
		return err
	}
	gateway := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, gateway, nil)
	if err != nil {
		return err
	}
	upstream, err := clients.NewUpstream(mcpgo.UpstreamOptions{
		Name: "inner",
		Transport: func(string) (transport.Interface, error) {
			return transport.NewStreamableHTTP(inner.URL+"/mcp",
				transport.WithHTTPBasicClient(mcpgo.HTTPClient(nil)))
		},
	})
	if err != nil {
		return err
	}
	defer upstream.Close()
	if err := upstream.Publish(ctx); err != nil {
		return err
	}

	// A user of it.
	outer, stopOuter, err := serve(gateway)
	if err != nil {
		return err
	}
	defer stopOuter()
	user := client.NewClient(outer, client.WithElicitationHandler(answering(
		func(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			fmt.Println("the user is asked:", r.Params.Message)
			return result("accept", map[string]any{}), nil
		})))
	if err := open(ctx, user); err != nil {
		return err
	}
	defer user.Close()
	var request mcp.CallToolRequest
	request.Params.Name = "inner_deploy"
	got, err := user.CallTool(ctx, request)
	if err != nil {
		return err
	}
	fmt.Println("the tool says:", got.Content[0].(mcp.TextContent).Text)
	return nil
}

// A host that opens connections itself says with each request which call it serves.
func ExampleWithCall() {
	behind := server.NewMCPServer("behind", "1")
	over, stop, err := serve(behind)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	router, err := elicitation.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	upstream := mcpgo.NewSharedClient(router, "behind/1", over)
	if err := open(context.Background(), upstream); err != nil {
		fmt.Println(err)
		return
	}
	defer upstream.Close()

	// A handler of the gateway, on the shared client:
	_ = func(clients *mcpgo.Downstream) server.ToolHandlerFunc {
		return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult,
			error) {
			call, err := clients.Begin(ctx, "behind/1")
			if err != nil {
				return nil, err
			}
			defer call.End()
			return upstream.CallTool(mcpgo.WithCall(mcpgo.UpstreamContext(ctx), call), request)
		}
	}
	fmt.Println("connected:", upstream.IsInitialized())
	// Output: connected: true
}
