package main

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// files are what there is to lose.
type files struct {
	mu    sync.Mutex
	names map[string]bool
}

func newFiles(names ...string) *files {
	f := &files{names: map[string]bool{}}
	for _, name := range names {
		f.names[name] = true
	}
	return f
}

func (f *files) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.names, name)
}

func (f *files) list() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.names))
}

// deletion is what the tool takes.
type deletion struct {
	Name string `json:"name" jsonschema:"the file to delete"`
}

// sure is what the guard asks.
func sure(name string) *mcp.ElicitParams {
	return &mcp.ElicitParams{
		Message: "Delete " + name + "?",
		RequestedSchema: json.RawMessage(`{
			"type": "object",
			"properties": {"reason": {"type": "string", "minLength": 1}},
			"required": ["reason"]
		}`),
	}
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
