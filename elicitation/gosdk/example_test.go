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
			Message:         "Deploy?",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)})
		if err != nil {
			return nil, err
		}
		return said(answer.Action), nil
	})
	inner := overHTTP(behind)
	defer inner.Close()

	// The gateway: all calls share a connection.
	router, err := elicitation.New(nil)
	if err != nil {
		return err
	}
	gateway := mcp.NewServer(about, nil)
	clients, err := gosdk.NewDownstream(router, gateway, nil)
	if err != nil {
		return err
	}
	upstream, err := clients.NewUpstream(gosdk.UpstreamOptions{
		Name: "inner", Implementation: about,
		Transport: func(string) mcp.Transport {
			return &mcp.StreamableClientTransport{Endpoint: inner.URL}
		},
	})
	if err != nil {
		return err
	}
	defer upstream.Close()
	if err := upstream.Publish(ctx, gateway); err != nil {
		return err
	}
	handler := clients.Handler(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return gateway }, nil))
	outer := httptest.NewServer(handler)
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
		&mcp.CallToolParams{Name: "inner_deploy", Arguments: map[string]any{}})
	if err != nil {
		return err
	}
	fmt.Println("the tool says:", result.Content[0].(*mcp.TextContent).Text)
	return nil
}

func overHTTP(s *mcp.Server) *httptest.Server {
	return httptest.NewServer(
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
}

// open connects a client of revision 2025-11-25, in which servers push questions.
func open(ctx context.Context, c *mcp.Client, url string) (*mcp.ClientSession, error) {
	return c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url},
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
}

// A host that opens connections itself says with each request which call it serves. The
// questions that come on the response are that call's.
func ExampleHTTPClient() {
	behind := mcp.NewServer(&mcp.Implementation{Name: "behind", Version: "1"}, nil)
	served := overHTTP(behind)
	defer served.Close()

	router, err := elicitation.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	about := &mcp.Implementation{Name: "gateway", Version: "1"}
	client := gosdk.NewSharedClient(router, "behind/1", about, nil)
	session, err := client.Connect(context.Background(), &mcp.StreamableClientTransport{
		Endpoint: served.URL, HTTPClient: gosdk.HTTPClient(nil),
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()

	// A handler of the gateway, on the shared session:
	_ = func(clients *gosdk.Downstream) mcp.ToolHandler {
		return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			call, err := clients.Begin(ctx, req, "behind/1")
			if err != nil {
				return nil, err
			}
			defer call.End()
			return session.CallTool(gosdk.WithCall(gosdk.UpstreamContext(ctx), call),
				&mcp.CallToolParams{Name: req.Params.Name, Arguments: req.Params.Arguments})
		}
	}
	fmt.Println("connected to", session.InitializeResult().ServerInfo.Name)
	// Output: connected to behind
}
