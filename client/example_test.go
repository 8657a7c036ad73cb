package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// A deployer is a server whose only tool asks before it acts.
type deployer struct{}

func (deployer) Handle(_ context.Context, req *protocol.Request,
	_ protocol.Back) (*protocol.Response, error) {
	params, err := protocol.DecodeParams(req.Method, req.Params)
	if err != nil {
		return nil, err
	}
	call := params.(*protocol.CallToolParams)
	var outcome protocol.Result = &protocol.InputRequiredResult{
		InputRequests: protocol.InputRequests{{
			Key: "confirm",
			Request: &protocol.ElicitForm{
				Message: "Deploy to prod?",
				Schema: json.RawMessage(
					`{"type":"object","properties":{"reason":{"type":"string","default":"none given"}}}`,
				),
			},
		}}}
	if raw := call.InputResponses.Get("confirm"); raw != nil {
		answer, err := protocol.DecodeElicitResult(raw)
		if err != nil {
			return nil, err
		}
		text := fmt.Sprintf("%s %s", answer.Action, answer.Content)
		outcome = &protocol.CallToolResult{
			Content: []protocol.Content{&protocol.TextContent{Text: text}}}
	}
	result, err := protocol.EncodeResult(protocol.Latest, req.Method, outcome)
	return &protocol.Response{ID: req.ID, Result: result}, err
}

func (deployer) Notify(context.Context, *protocol.Notification) error { return nil }
func (deployer) Close() error                                         { return nil }

func ExampleNew() {
	c, err := client.New(deployer{}, &client.Options{
		ElicitForm: func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			fmt.Printf("%s asks: %s\n", q.Target, q.Message)
			return client.Accept(nil) // the form's defaults will do
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	result, err := c.CallTool(context.Background(), "deploy", map[string]any{"service": "web"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content[0].(*protocol.TextContent).Text)
	// Output:
	// deploy asks: Deploy to prod?
	// accept {"reason":"none given"}
}

// A client without handlers declares no capability. If the server asks anyway, the call fails.
func ExampleQuestionError() {
	c, err := client.New(deployer{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_, err = c.CallTool(context.Background(), "deploy", nil)
	if refused, ok := errors.AsType[*client.QuestionError](err); ok {
		fmt.Println(refused.Key, refused.Kind)
		fmt.Println(refused.Err)
	}
	// Output:
	// confirm elicitation.form
	// elicitation.form: capability is not declared by this client
}
