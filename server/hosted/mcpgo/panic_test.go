package mcpgo_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
)

type panicking struct{ value any }

// CompletePromptArgument implements server.PromptCompletionProvider.
func (p panicking) CompletePromptArgument(context.Context, string, mcp.CompleteArgument,
	mcp.CompleteContext) (*mcp.Completion, error) {
	panic(p.value)
}

func TestPanicComesOutOfHandle(t *testing.T) {
	value := &struct{ text string }{"boom"}
	s := newServer(mcpserver.WithPromptCompletionProvider(panicking{value}),
		mcpserver.WithToolHandlerMiddleware(aroundTools("middleware",
			func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				panic(value)
			})),
		mcpserver.WithToolFilter(func(ctx context.Context, tools []mcp.Tool) []mcp.Tool {
			if len(tools) > 1 {
				panic(value)
			}
			return tools
		}))
	addTool(s, "tool", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
		if err := progress(s, ctx, 1); err != nil {
			return "", err
		}
		panic(value)
	})
	addTool(s, "middleware", nil)
	addTool(s, "exit", func(context.Context, mcp.CallToolRequest) (string, error) {
		runtime.Goexit()
		return "", nil
	})
	s.AddPrompt(mcp.NewPrompt("prompt"),
		func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			panic(value)
		})
	read := func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		panic(value)
	}
	s.AddResource(mcp.NewResource("x://r", "r"), read)
	s.AddResourceTemplate(mcp.NewResourceTemplate("y://{id}", "t"), read)
	c := open(t, s, nil)
	for _, test := range []struct{ method, params string }{
		{protocol.MethodCallTool, `{"name":"tool"}`},
		{protocol.MethodCallTool, `{"name":"middleware"}`},
		{protocol.MethodListTools, `{}`},
		{protocol.MethodGetPrompt, `{"name":"prompt"}`},
		{protocol.MethodReadResource, `{"uri":"x://r"}`},
		{protocol.MethodReadResource, `{"uri":"y://1"}`},
		{protocol.MethodComplete,
			`{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"a","value":"b"}}`},
	} {
		c.WantPanic(test.method, test.params, value)
	}
	b := &back{}
	func() {
		defer func() { _ = recover() }()
		c.Call("tool", b)
	}()
	wantLines(t, "sent before the panic", b.Sent(), progressText(1))
	want(t, "a handler that ends its goroutine", c.Call("exit", nil),
		"error: mcpgo: the server has not answered tools/call")
}

func TestRecoveryOfMCPGoStillWorks(t *testing.T) {
	s := newServer(mcpserver.WithRecovery())
	addTool(s, "tool", func(context.Context, mcp.CallToolRequest) (string, error) {
		panic("boom")
	})
	want(t, "a panic", open(t, s, nil).Call("tool", nil),
		"-32603 panic recovered in tool tool handler: boom")
}

func TestPanicOfAHook(t *testing.T) {
	panicAlways := func(context.Context, mcpserver.ClientSession) { panic("boom") }
	for name, add := range map[string]func(h *mcpserver.Hooks){
		"register": func(h *mcpserver.Hooks) { h.AddOnRegisterSession(panicAlways) },
		"initialize": func(h *mcpserver.Hooks) {
			h.AddBeforeInitialize(func(context.Context, any, *mcp.InitializeRequest) {
				panic("boom")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			hooks := &mcpserver.Hooks{}
			add(hooks)
			s := newServer(mcpserver.WithHooks(hooks))
			defer func() {
				if v := recover(); v != "boom" {
					t.Errorf("panic with %v", v)
				}
				if err := s.SendNotificationToSpecificClient("s1", "x", nil); err == nil {
					t.Error("the session is still registered")
				}
			}()
			_, _, err := mcpgo.Peer(s).OpenSession(
				hosted.WithCaller(context.Background(), &hosted.Caller{SessionID: "s1"}),
				hostedtest.Initialize(declared), &back{})
			t.Error("OpenSession returned", err)
		})
	}
	hooks := &mcpserver.Hooks{}
	hooks.AddOnUnregisterSession(panicAlways)
	err := open(t, newServer(mcpserver.WithHooks(hooks)), nil).Session.Close()
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("Close: %v", err)
	}
}
