package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

func TestPrompts(t *testing.T) {
	h := newHarness(t, nil)
	server.AddPrompt(h.Server, server.Prompt{
		Name:      "review",
		Arguments: []protocol.PromptArgument{{Name: "code", Required: true}, {Name: "style"}},
	}, func(_ context.Context, c *server.PromptCall) (protocol.GetPromptOutcome, error) {
		return &protocol.GetPromptResult{Messages: []protocol.PromptMessage{
			server.UserText(fmt.Sprint(c.Name, c.Arguments)), server.AssistantText("Right away."),
		}}, nil
	})
	r := h.send(protocol.MethodGetPrompt, `"name":"review","arguments":{"code":"x=1"}`)
	messages, _ := r.result["messages"].([]any)
	if len(messages) != 2 || at(messages[0], "content", "text") != "reviewmap[code:x=1]" ||
		at(messages[1], "role") != "assistant" {
		t.Errorf("result is %s", r.raw)
	}
	h.send(protocol.MethodGetPrompt, `"name":"review"`).refused(protocol.CodeInvalidParams, "code")
	h.send(protocol.MethodGetPrompt, `"name":"review","arguments":{"Code":"x"}`).refused(protocol.CodeInvalidParams, "code")
	h.send(protocol.MethodGetPrompt, `"name":"review","arguments":{"code":5}`).refused(protocol.CodeInvalidParams, "code")
	h.send(protocol.MethodGetPrompt, `"name":"review","arguments":{"code":null}`).refused(protocol.CodeInvalidParams, "code")
	h.send(protocol.MethodGetPrompt, `"name":"nowhere"`).refused(protocol.CodeInvalidParams,
		"unknown prompt", "nowhere")
}

func TestErrorsOfPrompts(t *testing.T) {
	h := newHarness(t, nil)
	add := func(name string, result protocol.GetPromptOutcome, err error) {
		server.AddPrompt(h.Server, server.Prompt{Name: name},
			func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
				return result, err
			})
	}
	add("plain", nil, errors.New("out of ideas"))
	add("protocol", nil, protocol.Errorf(1234, "no"))
	add("nil", nil, nil)
	add("typed nil", (*protocol.GetPromptResult)(nil), nil)
	add("nil content",
		&protocol.GetPromptResult{Messages: []protocol.PromptMessage{{Role: protocol.User}}}, nil)
	add("asks", nil,
		&server.InputRequiredError{Result: roundtrip.InputRequired(roundtrip.ListRoots("r"))})
	send := func(name string) reply { return h.send(protocol.MethodGetPrompt, `"name":"`+name+`"`) }
	send("plain").refused(protocol.CodeHandlerError, "out of ideas")
	send("protocol").refused(1234, "no")
	for _, name := range []string{"nil", "typed nil", "nil content"} {
		send(name).refused(protocol.CodeInternalError)
	}
	send("asks").asks("r")
}

func TestBadPrompts(t *testing.T) {
	s := newHarness(t, nil).Server
	wantPanic(t, "name", func() { server.AddPrompt(s, server.Prompt{}, getNothing) })
	wantPanic(t, "handler", func() { server.AddPrompt(s, server.Prompt{Name: "x"}, nil) })
	twice := []protocol.PromptArgument{{Name: "a"}, {Name: "a"}}
	wantPanic(t, "twice", func() {
		server.AddPrompt(s, server.Prompt{Name: "x", Arguments: twice}, getNothing)
	})
	wantPanic(t, "argument", func() {
		server.AddPrompt(s, server.Prompt{Name: "x", Arguments: []protocol.PromptArgument{{}}},
			getNothing)
	})
}
