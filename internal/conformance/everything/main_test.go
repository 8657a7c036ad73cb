package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var noError = testkit.NoError

// connect returns an in-process client whose user answers each question with its key's answer.
func connect(t *testing.T, answers map[string]*protocol.ElicitResult) *client.Client {
	t.Helper()
	srv, err := newServer(nil)
	noError(t, err)
	c, err := client.New(srv, &client.Options{
		ElicitForm: func(_ context.Context,
			q *client.FormQuestion) (*protocol.ElicitResult, error) {
			return answers[q.Key], nil
		},
		CreateMessage: func(_ context.Context,
			q *client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			said := protocol.TextContent{Text: "an answer to " + q.Key}
			return &protocol.CreateMessageResult{Role: protocol.Assistant, Model: "m",
				Content: []protocol.Content{&said}}, nil
		},
		ListRoots: func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
			return []protocol.Root{{URI: "file:///a"}, {URI: "file:///b"}}, nil
		},
	})
	noError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func accept(content string) *protocol.ElicitResult {
	return &protocol.ElicitResult{Action: protocol.ActionAccept, Content: json.RawMessage(content)}
}

// This test checks how tools use the answers, which the suite does not check.
func TestQuestions(t *testing.T) {
	yes := map[string]*protocol.ElicitResult{
		"user_name": accept(`{"name":"Alice"}`), "confirm": accept(`{"ok":true}`),
		"step1": accept(`{"name":"Bob"}`), "step2": accept(`{"color":"blue"}`),
	}
	no := map[string]*protocol.ElicitResult{
		"user_name": client.Decline(), "confirm": client.Cancel(), "step1": yes["step1"],
		"step2": client.Decline(),
	}
	for _, test := range []struct {
		tool, want string
		refused    bool // result after the user declines
	}{
		{"test_input_required_result_elicitation", "Hello, Alice!", true},
		{"test_streaming_elicitation", "Hello, Alice!", true},
		{"test_input_required_result_capabilities", "Hello, Alice!", true},
		{"test_input_required_result_sampling", "an answer to capital_question", false},
		{"test_missing_capability", "an answer to capital_question", false},
		{"test_input_required_result_list_roots", "2 directories|file:///a|file:///b", false},
		{"test_input_required_result_request_state", "state-ok, confirmed: true", true},
		{"test_input_required_result_tampered_state", "confirmed: true", true},
		{"test_input_required_result_multiple_inputs", "Alice has 2 directories, and m says:|an answer to greeting", true},
		{"test_input_required_result_multi_round", "Bob likes blue", true},
	} {
		t.Run(test.tool, func(t *testing.T) {
			got, err := connect(t, yes).CallTool(t.Context(), test.tool, nil)
			if err != nil || got.IsError || text(got.Content) != test.want {
				t.Errorf("person says yes: got %+v, %v, want %q", got, err, test.want)
			}
			got, err = connect(t, no).CallTool(t.Context(), test.tool, nil)
			if err != nil || got.IsError != test.refused {
				t.Errorf("person says no: got %+v, %v, want an error result: %t", got, err, test.refused)
			}
		})
	}
}

func text(blocks []protocol.Content) string {
	var all []string
	for _, block := range blocks {
		if text, ok := block.(*protocol.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "|")
}

// A client without capabilities gets no questions, and tools that need one are refused at once.
func TestWithoutCapabilities(t *testing.T) {
	srv, err := newServer(nil)
	noError(t, err)
	c, err := client.New(srv, nil)
	noError(t, err)
	defer c.Close()
	got, err := c.CallTool(t.Context(), "test_input_required_result_capabilities", nil)
	if err != nil || text(got.Content) != "There is nothing that you could be asked." {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = c.CallTool(t.Context(), "test_missing_capability", nil)
	if e, ok := protocol.AsError(err); !ok ||
		e.Code != protocol.CodeMissingRequiredClientCapability {
		t.Errorf("error %v, want %d", err, protocol.CodeMissingRequiredClientCapability)
	}
}
