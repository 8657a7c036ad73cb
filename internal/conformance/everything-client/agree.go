package main

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// agree accepts every form: yes to yes or no, otherwise defaults, which the client fills in. If a
// value is still missing, the call fails: the client sends no invalid answer.
func agree(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
	var form struct {
		Properties map[string]struct {
			Type    string          `json:"type"`
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(q.Schema, &form); err != nil {
		return nil, err
	}
	content := map[string]any{}
	for name, field := range form.Properties {
		if field.Type == "boolean" && field.Default == nil {
			content[name] = true
		}
	}
	return client.Accept(content)
}
