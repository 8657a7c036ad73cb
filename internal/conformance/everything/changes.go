package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// changes keeps what comes and goes while the server runs.
type changes struct {
	srv *server.Server
	mu  sync.Mutex // one change at a time
	n   int        // how many there were
}

const watchedURI = "test://watched-resource"

// addChanges registers tools that change the lists, and a resource that counts
// the changes.
func addChanges(srv *server.Server) {
	c := &changes{srv: srv}
	add(srv, "test_trigger_tool_change",
		"Adds a tool to the list, or takes it away again.", c.changeTools)
	add(srv, "test_trigger_prompt_change",
		"Adds a prompt to the list, or takes it away again.", c.changePrompts)
	server.AddResource(srv, server.Resource{
		URI: watchedURI, Name: "Watched", Description: "Counts how often the lists of tools and prompts changed.", MIMEType: "text/plain",
	}, c.read)
}

// changeTools need not announce anything: the server tells those who subscribed
// to the list.
func (c *changes) changeTools(context.Context, *server.ToolCall, nothing) (outcome, error) {
	const name = "test_occasional_tool"
	return c.change(func() string {
		if c.srv.RemoveTool(name) {
			return "removed " + name
		}
		server.AddTool(c.srv, server.Tool{Name: name, Description: "Comes and goes."}, simpleText)
		return "added " + name
	}), nil
}

func (c *changes) changePrompts(context.Context, *server.ToolCall, nothing) (outcome, error) {
	const name = "test_occasional_prompt"
	return c.change(func() string {
		if c.srv.RemovePrompt(name) {
			return "removed " + name
		}
		server.AddPrompt(c.srv, server.Prompt{Name: name, Description: "Comes and goes."},
			simplePrompt)
		return "added " + name
	}), nil
}

// change makes one change and tells who watches the resource: that its contents
// are others now is something only the author knows.
func (c *changes) change(toggle func() string) *protocol.CallToolResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := toggle()
	c.n++
	c.srv.ResourceUpdated(watchedURI)
	return server.Text(done)
}

func (c *changes) read(context.Context,
	*server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{
		{MIMEType: "text/plain", Text: fmt.Sprintf("%d changes", c.n)},
	}}, nil
}
