package main

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/client"
)

func oneOfEach(ctx context.Context, c *client.Client, _ json.RawMessage) error {
	tools, err := c.ListTools(ctx, "")
	if err != nil {
		return err
	}
	for _, tool := range tools.Tools {
		if err := call(ctx, c, tool.Name, nil); err != nil {
			return err
		}
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
