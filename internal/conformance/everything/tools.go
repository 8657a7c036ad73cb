package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

//go:embed picture.png
var picturePNG []byte

//go:embed sound.wav
var soundWAV []byte

type nothing struct{}

type outcome = protocol.CallToolOutcome

func add[In any](srv *server.Server, name, description string,
	f func(context.Context, *server.ToolCall, In) (outcome, error)) {
	server.AddTool(srv, server.Tool{Name: name, Description: description}, f)
}

func picture() *protocol.ImageContent {
	return &protocol.ImageContent{Data: picturePNG, MIMEType: "image/png"}
}

func embedded(uri, mimeType, text string) *protocol.EmbeddedResource {
	return &protocol.EmbeddedResource{Resource: protocol.ResourceContents{URI: uri,
		MIMEType: mimeType, Text: text}}
}

func addContent(srv *server.Server) {
	text := func(s string) protocol.Content { return &protocol.TextContent{Text: s} }
	for _, tool := range []struct {
		name, description string
		content           []protocol.Content
	}{
		// The first tool of the list can be called without arguments.
		{"test_simple_text", "Answers with text.",
			[]protocol.Content{text("This is a simple text response for testing.")}},
		{"test_image_content", "Answers with an image.", []protocol.Content{picture()}},
		{"test_audio_content", "Answers with a sound.", []protocol.Content{
			&protocol.AudioContent{Data: soundWAV, MIMEType: "audio/wav"}}},
		{"test_embedded_resource", "Answers with a resource within the result.",
			[]protocol.Content{embedded("test://embedded-resource", "text/plain",
				"This is an embedded resource content.")}},
		{"test_multiple_content_types", "Answers with text, an image and a resource.",
			[]protocol.Content{text("Multiple content types test:"), picture(),
				embedded("test://mixed-content-resource", "application/json",
					`{"test":"data","value":123}`)}},
	} {
		add(srv, tool.name, tool.description,
			func(context.Context, *server.ToolCall, nothing) (outcome, error) {
				return &protocol.CallToolResult{Content: tool.content}, nil
			})
	}
	// A plain error becomes a result that the model can read.
	add(srv, "test_error_handling", "Runs and fails.",
		func(context.Context, *server.ToolCall, nothing) (outcome, error) {
			return nil, errors.New("this tool intentionally returns an error for testing")
		})
}

const stepTime = 50 * time.Millisecond

func addNotifying(srv *server.Server) {
	add(srv, "test_tool_with_progress", "Reports progress while it works.", progress)
	server.AddTool(srv, server.Tool{Name: "test_slow_tool",
		Description: "Takes as many seconds as it is told, and reports progress every second.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"seconds":` +
			`{"type":"integer","minimum":1,"maximum":600,"default":5}},` +
			`"additionalProperties":false}`),
	}, workSlowly)
	add(srv, "test_tool_with_logging", "Sends log messages while it works.",
		logs("Tool with logging executed successfully", stepTime, "Tool execution started",
			"Tool processing data", "Tool execution completed"))
	add(srv, "test_logging_tool", "Sends log messages, if the client asks for them.",
		logs("Said all there is to log.", 0, "tool execution started", "tool execution completed"))
	add(srv, "test_reconnection",
		"Hangs up while it works, where the client can come back for the result.", hangUp)
}

func progress(ctx context.Context, call *server.ToolCall, _ nothing) (outcome, error) {
	for done := 0.0; ; done += 50 {
		if err := call.Progress(ctx, done, 100, ""); err != nil {
			return nil, err
		}
		if done == 100 {
			return server.Text("Tool execution completed with progress."), nil
		}
		if err := waiting.Sleep(ctx, stepTime); err != nil {
			return nil, err
		}
	}
}

type slowWork struct {
	Seconds int `json:"seconds"`
}

func workSlowly(ctx context.Context, call *server.ToolCall, in slowWork) (outcome, error) {
	seconds := cmp.Or(in.Seconds, 5)
	for done := range seconds {
		message := fmt.Sprintf("%d of %d seconds", done, seconds)
		if err := call.Progress(ctx, float64(done), float64(seconds), message); err != nil {
			return nil, err
		}
		if err := waiting.Sleep(ctx, time.Second); err != nil {
			return nil, err
		}
	}
	return server.Text(fmt.Sprintf("Took %d seconds.", seconds)), nil
}

// The function logs returns a handler that logs texts with pauses, and then returns done.
func logs(done string, pause time.Duration,
	texts ...string) func(context.Context, *server.ToolCall, nothing) (outcome, error) {
	return func(ctx context.Context, call *server.ToolCall, _ nothing) (outcome, error) {
		for _, text := range texts {
			if err := call.Log(ctx, protocol.LevelInfo, "everything", text); err != nil {
				return nil, err
			}
			if err := waiting.Sleep(ctx, pause); err != nil {
				return nil, err
			}
		}
		return server.Text(done), nil
	}
}

// hangUp closes its stream. If there is no stream, the client simply waits.
func hangUp(ctx context.Context, call *server.ToolCall, _ nothing) (outcome, error) {
	if err := call.CloseStream(ctx,
		100*time.Millisecond); err != nil && !errors.Is(err, server.ErrCannotClose) {
		return nil, err
	}
	if err := waiting.Sleep(ctx, 2*stepTime); err != nil {
		return nil, err
	}
	return server.Text("Reconnection test completed successfully"), nil
}

// contactSchema is listed unchanged, and completely validates arguments. regionSchema has a
// property that clients also send in the header Mcp-Param-Region.
const (
	contactSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {
		"address": {
			"$anchor": "addressDef",
			"type": "object",
			"properties": {"street": {"type": "string"}, "city": {"type": "string"}}
		}
	},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`
	regionSchema = `{
	"type": "object",
	"properties": {
		"region": {"type": "string", "description": "where to run", "x-mcp-header": "Region"},
		"level": {"type": "integer", "description": "how hard to try"}
	}
}`
)

func addSchemas(srv *server.Server) {
	server.AddTool(srv, server.Tool{Name: "json_schema_2020_12_tool",
		Description: "Takes a contact; its schema uses references and conditions.",
		InputSchema: json.RawMessage(contactSchema),
	}, func(_ context.Context, _ *server.ToolCall, in json.RawMessage) (outcome, error) {
		return server.Text(string(in)), nil
	})
	server.AddTool(srv, server.Tool{Name: "test_x_mcp_header",
		Description: "Takes a region, which clients repeat in a header.",
		InputSchema: json.RawMessage(regionSchema),
	}, func(_ context.Context, _ *server.ToolCall, in place) (outcome, error) {
		return server.Text(fmt.Sprintf("ran in region %q at level %d", in.Region, in.Level)), nil
	})
}

type place struct {
	Region string `json:"region"`
	Level  int    `json:"level"`
}

const watchedURI = "test://watched-resource"

// addChanges registers tools that change the lists, and a resource that counts the changes. The
// server announces changes of lists; the author must announce changes of contents.
func addChanges(srv *server.Server) {
	var mu sync.Mutex // allows one change at a time
	changes := 0
	toggle := func(what string, remove func(name string) bool, insert func(name string)) {
		name := "test_occasional_" + what
		add(srv, "test_trigger_"+what+"_change",
			"Adds a "+what+" to the list, or takes it away again.",
			func(context.Context, *server.ToolCall, nothing) (outcome, error) {
				mu.Lock()
				defer mu.Unlock()
				done := "removed "
				if !remove(name) {
					insert(name)
					done = "added "
				}
				changes++
				srv.ResourceUpdated(watchedURI)
				return server.Text(done + name), nil
			})
	}
	toggle("tool", srv.RemoveTool, func(name string) {
		add(srv, name, "Comes and goes.",
			func(context.Context, *server.ToolCall, nothing) (outcome, error) {
				return server.Text("Here I am."), nil
			})
	})
	toggle("prompt", srv.RemovePrompt, func(name string) {
		server.AddPrompt(srv, server.Prompt{Name: name, Description: "Comes and goes."},
			simplePrompt)
	})
	server.AddResource(srv, server.Resource{URI: watchedURI, Name: "Watched",
		Description: "Counts how often the lists of tools and prompts changed.",
		MIMEType:    "text/plain",
	}, func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
		mu.Lock()
		defer mu.Unlock()
		return contents("text/plain", fmt.Sprintf("%d changes", changes)), nil
	})
}
