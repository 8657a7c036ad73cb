package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// handle sends a request as a client that can show forms would, and returns the result.
func handle(s *server.Server, method string, params map[string]any) protocol.Result {
	params["_meta"] = map[string]any{
		protocol.MetaProtocolVersion:    protocol.V20260728,
		protocol.MetaClientCapabilities: map[string]any{"elicitation": map[string]any{}},
	}
	raw, err := json.Marshal(params)
	if err != nil {
		log.Fatal(err)
	}
	response, err := s.Handle(context.Background(),
		&protocol.Request{ID: protocol.IntID(1), Method: method, Params: raw}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if response.Error != nil {
		fmt.Println("error:", response.Error)
		return nil
	}
	result, err := protocol.DecodeResult(protocol.V20260728, method, response.Result)
	if err != nil {
		log.Fatal(err)
	}
	return result
}

func printTool(result protocol.Result) {
	r := result.(*protocol.CallToolResult)
	fmt.Printf("isError=%v %s\n", r.IsError, r.Content[0].(*protocol.TextContent).Text)
}

// A tool asks before it acts. The client, simulated here, answers and sends the same call again.
func Example() {
	type Input struct {
		Env string `json:"env" jsonschema:"where to deploy to"`
	}
	type Confirmation struct {
		Reason string `json:"reason" jsonschema:"why now?"`
	}
	confirm := roundtrip.MustQuestion[Confirmation]("confirm")

	srv, err := server.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	server.AddTool(srv, server.Tool{Name: "deploy"},
		func(ctx context.Context, _ *server.ToolCall, in Input) (protocol.CallToolOutcome, error) {
			switch answer := confirm.Answer(ctx); answer.Outcome {
			case roundtrip.Accepted:
				return server.Text("deployed to " + in.Env + ": " + answer.Content.Reason), nil
			case roundtrip.Declined, roundtrip.Cancelled:
				return server.Text("left " + in.Env + " alone"), nil
			default:
				return roundtrip.InputRequired(confirm.Elicit("Deploy to " + in.Env + "?")), nil
			}
		})

	call := map[string]any{"name": "deploy", "arguments": map[string]any{"env": "prod"}}
	asked := handle(srv, protocol.MethodCallTool, call).(*protocol.InputRequiredResult)
	for _, q := range asked.InputRequests {
		fmt.Println("asks:", q.Request.(*protocol.ElicitForm).Message)
	}

	call["inputResponses"] = map[string]any{
		"confirm": map[string]any{"action": "accept",
			"content": map[string]any{"reason": "it is Friday"}},
	}
	call["requestState"], _ = asked.RequestState.Text()
	printTool(handle(srv, protocol.MethodCallTool, call))
	// Output:
	// asks: Deploy to prod?
	// isError=false deployed to prod: it is Friday
}

func ExampleNew() {
	srv, err := server.New(&server.Options{
		Info:         protocol.Implementation{Name: "shop", Version: "1.2.0"},
		Instructions: "Search before you buy.",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	found := handle(srv, protocol.MethodDiscover, map[string]any{}).(*protocol.DiscoverResult)
	fmt.Println(found.ServerInfo().Name, found.SupportedVersions, found.Instructions)
	// Output: shop [2026-07-28] Search before you buy.
}

func ExampleAddTool() {
	type Input struct {
		City string `json:"city" jsonschema:"name of the city"`
		Days int    `json:"days,omitempty" jsonschema:"how far to look ahead"`
	}
	srv, err := server.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	server.AddTool(srv, server.Tool{Name: "forecast"},
		func(_ context.Context, _ *server.ToolCall, in Input) (protocol.CallToolOutcome, error) {
			if in.City == "Atlantis" {
				return nil, fmt.Errorf("no weather station in %s", in.City)
			}
			return server.Text("rain in " + in.City), nil
		})

	printTool(handle(srv, protocol.MethodCallTool,
		map[string]any{"name": "forecast", "arguments": map[string]any{"city": "Oslo"}}))
	printTool(handle(srv, protocol.MethodCallTool,
		map[string]any{"name": "forecast", "arguments": map[string]any{"city": "Atlantis"}}))
	printTool(handle(srv, protocol.MethodCallTool,
		map[string]any{"name": "forecast", "arguments": map[string]any{"days": 3}}))
	handle(srv, protocol.MethodCallTool, map[string]any{"name": "forcast"})
	// Output:
	// isError=false rain in Oslo
	// isError=true no weather station in Atlantis
	// isError=true invalid arguments: field "city": is required
	// error: unknown tool: forcast; tools/list has the names (code -32602)
}

func ExampleAddToolOut() {
	type Input struct {
		Words []string `json:"words"`
	}
	type Output struct {
		Count   int    `json:"count"`
		Longest string `json:"longest"`
	}
	srv, err := server.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	server.AddToolOut(srv, server.Tool{Name: "measure"},
		func(_ context.Context, _ *server.ToolCall, in Input) (Output, error) {
			out := Output{Count: len(in.Words)}
			for _, w := range in.Words {
				if len(w) > len(out.Longest) {
					out.Longest = w
				}
			}
			return out, nil
		})

	tools := handle(srv, protocol.MethodListTools, map[string]any{}).(*protocol.ListToolsResult)
	fmt.Printf("%s\n", tools.Tools[0].OutputSchema)
	result := handle(srv, protocol.MethodCallTool, map[string]any{
		"name": "measure", "arguments": map[string]any{"words": []string{"to", "elicit"}},
	})
	fmt.Printf("%s\n", result.(*protocol.CallToolResult).StructuredContent)
	// Output:
	// {"type":"object","properties":{"count":{"type":"integer"},"longest":{"type":"string"}},"required":["count","longest"],"additionalProperties":false}
	// {"count":2,"longest":"elicit"}
}

func ExampleAddPrompt() {
	srv, err := server.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	server.AddPrompt(srv, server.Prompt{
		Name: "review",
		Arguments: []protocol.PromptArgument{{Name: "code", Description: "what to review",
			Required: true}},
	}, func(_ context.Context, call *server.PromptCall) (protocol.GetPromptOutcome, error) {
		return &protocol.GetPromptResult{Messages: []protocol.PromptMessage{
			server.UserText("Please review: " + call.Arguments["code"]),
		}}, nil
	})

	result := handle(srv, protocol.MethodGetPrompt, map[string]any{
		"name": "review", "arguments": map[string]any{"code": "i++"},
	})
	for _, m := range result.(*protocol.GetPromptResult).Messages {
		fmt.Println(m.Role, "says:", m.Content.(*protocol.TextContent).Text)
	}
	handle(srv, protocol.MethodGetPrompt, map[string]any{"name": "review"})
	// Output:
	// user says: Please review: i++
	// error: invalid params: arguments: code must be present (code -32602)
}

func ExampleAddResource() {
	srv, err := server.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	server.AddResource(srv, server.Resource{
		URI: "shop://opening-hours", Name: "opening hours", MIMEType: "text/plain",
	}, func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
		return &protocol.ReadResourceResult{
			Contents: []protocol.ResourceContents{{Text: "nine to five"}}}, nil
	})

	result := handle(srv, protocol.MethodReadResource,
		map[string]any{"uri": "shop://opening-hours"})
	for _, c := range result.(*protocol.ReadResourceResult).Contents {
		fmt.Println(c.URI, "holds:", c.Text)
	}
	handle(srv, protocol.MethodReadResource, map[string]any{"uri": "shop://prices"})
	// Output:
	// shop://opening-hours holds: nine to five
	// error: resource not found: "shop://prices" (code -32602)
}

func ExampleAddResourceTemplate() {
	srv, err := server.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	server.AddResourceTemplate(srv, server.ResourceTemplate{
		URITemplate: "shop://{department}/{item}", Name: "item",
	}, func(_ context.Context, call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
		if call.Variables["department"] != "tea" {
			return nil, protocol.ResourceNotFound(call.URI)
		}
		return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{
			{Text: "a cup of " + call.Variables["item"]}}}, nil
	})

	result := handle(srv, protocol.MethodReadResource,
		map[string]any{"uri": "shop://tea/earl%20grey"})
	fmt.Println(result.(*protocol.ReadResourceResult).Contents[0].Text)
	handle(srv, protocol.MethodReadResource, map[string]any{"uri": "shop://coffee/mocha"})
	// Output:
	// a cup of earl grey
	// error: resource not found: "shop://coffee/mocha" (code -32602)
}
