package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/client"
)

// A scenario is the client's part in a test of the suite, which watches from the server's side.
// more is the suite's other input, which is often empty.
type scenario func(ctx context.Context, c *client.Client, more json.RawMessage) error

func scenarios() map[string]scenario {
	known := map[string]scenario{
		"initialize": listTools,
		"tools_call": callOne("add_numbers",
			map[string]int{"a": 5, "b": 3}),
		"elicitation-sep1034-client-defaults": callOne("test_client_elicitation_defaults", nil),
		"sse-retry":                           callOne("test_reconnection", nil),
		"request-metadata":                    listTools,
		"sep-2322-client-request-state":       answerQuestions,
		"http-standard-headers":               oneOfEach,
		"http-custom-headers":                 callAsTold,
		"http-invalid-tool-headers":           callAll(map[string]string{"region": "us-west1"}),
		"json-schema-ref-no-deref":            listTools,
		"json-schema-2020-12-preservation":    echoSchema,
	}
	for _, name := range authScenarios() {
		known[name] = callOne("test-tool", map[string]string{})
	}
	return known
}

func listTools(ctx context.Context, c *client.Client, _ json.RawMessage) error {
	_, err := c.ListTools(ctx, "")
	return err
}

func call(ctx context.Context, c *client.Client, name string, args any) error {
	result, err := c.CallTool(ctx, name, args)
	if err == nil && result.IsError {
		err = fmt.Errorf("it failed: %v", result.Content)
	}
	if err != nil {
		return fmt.Errorf("tool %s: %w", name, err)
	}
	return nil
}

// callOne calls the only tool, after listing it. The suite checks the messages before its result.
func callOne(name string, args any) scenario {
	return func(ctx context.Context, c *client.Client, _ json.RawMessage) error {
		if err := listTools(ctx, c, nil); err != nil {
			return err
		}
		return call(ctx, c, name, args)
	}
}

// answerQuestions calls tools that ask. The client answers; the caller sees one call.
func answerQuestions(ctx context.Context, c *client.Client, _ json.RawMessage) error {
	for _, name := range []string{"test_mrtr_echo_state", "test_mrtr_no_state",
		"test_mrtr_unrelated", "test_mrtr_no_result_type"} {
		if err := call(ctx, c, name, nil); err != nil {
			return err
		}
	}
	return nil
}

// callAsTold reads the list, which names arguments for headers, and makes the requested calls.
func callAsTold(ctx context.Context, c *client.Client, more json.RawMessage) error {
	var told struct {
		ToolCalls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if err := json.Unmarshal(more, &told); err != nil {
		return fmt.Errorf("context: %w", err)
	}
	if err := listTools(ctx, c, nil); err != nil {
		return err
	}
	for _, t := range told.ToolCalls {
		if err := call(ctx, c, t.Name, t.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// callAll calls every listed tool. Tools with impossible headers must not be in the client's list.
func callAll(args any) scenario {
	return func(ctx context.Context, c *client.Client, _ json.RawMessage) error {
		list, err := c.ListTools(ctx, "")
		if err != nil {
			return err
		}
		for _, tool := range list.Tools {
			if err := call(ctx, c, tool.Name, args); err != nil {
				return err
			}
		}
		return nil
	}
}

func echoSchema(ctx context.Context, c *client.Client, _ json.RawMessage) error {
	list, err := c.ListTools(ctx, "")
	if err != nil {
		return err
	}
	for _, tool := range list.Tools {
		if tool.Name == "json_schema_2020_12_tool" {
			return call(ctx, c, "json_schema_echo",
				map[string]json.RawMessage{"schema": tool.InputSchema})
		}
	}
	return fmt.Errorf("json_schema_2020_12_tool is not listed")
}

func oneOfEach(ctx context.Context, c *client.Client, _ json.RawMessage) error {
	if err := callAll(nil)(ctx, c, nil); err != nil {
		return err
	}
	resources, err := c.ListResources(ctx, "")
	if err != nil {
		return err
	}
	for _, resource := range resources.Resources {
		if _, err := c.ReadResource(ctx, resource.URI); err != nil {
			return err
		}
	}
	prompts, err := c.ListPrompts(ctx, "")
	if err != nil {
		return err
	}
	for _, prompt := range prompts.Prompts {
		if _, err := c.GetPrompt(ctx, prompt.Name, nil); err != nil {
			return err
		}
	}
	return nil
}
