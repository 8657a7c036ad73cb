package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// connect returns a client of the server, in process, whose person answers each
// question with what answers holds for its key.
func connect(t *testing.T, answers map[string]*protocol.ElicitResult) *client.Client {
	t.Helper()
	srv, err := newServer(nil)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func accept(content string) *protocol.ElicitResult {
	return &protocol.ElicitResult{Action: protocol.ActionAccept, Content: json.RawMessage(content)}
}

// The suite does not look at what tools make of the answers. This does.
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
		refused    bool // when the person says no
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

// connectIn returns a client that is connected by lines and speaks one era.
func connectIn(t *testing.T, era protocol.Era, opts client.Options) *client.Client {
	t.Helper()
	srv, err := newServer(nil)
	if err != nil {
		t.Fatal(err)
	}
	requests, toServer := io.Pipe()
	fromServer, responses := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- srv.ServeStream(context.WithoutCancel(t.Context()), requests, responses, nil)
	}()
	opts.Era = era
	c, err := client.New(client.NewStream(fromServer, toServer, nil), &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		if err := <-served; err != nil {
			t.Errorf("the server ended with %v", err)
		}
		_ = srv.Close()
	})
	return c
}

var eras = map[string]protocol.Era{"modern": protocol.Modern, "legacy": protocol.Legacy}

// The person is shown the page that the tool means, and may refuse to go there.
func TestVisit(t *testing.T) {
	for name, era := range eras {
		for said, want := range map[protocol.ElicitAction]bool{protocol.ActionAccept: true,
			protocol.ActionDecline: false, protocol.ActionCancel: false} {
			t.Run(name+" "+string(said), func(t *testing.T) {
				var shown []string
				c := connectIn(t, era,
					client.Options{ElicitURL: func(_ context.Context,
						q *client.URLQuestion) (*protocol.ElicitResult, error) {
						shown = append(shown, q.URL)
						return &protocol.ElicitResult{Action: said}, nil
					}})
				got, err := c.CallTool(t.Context(), "test_input_required_result_url", nil)
				if err != nil || got.IsError == want ||
					want && text(got.Content) != "On the way to "+pageURL {
					t.Errorf("got %+v, %v", got, err)
				}
				if len(shown) != 1 || shown[0] != pageURL {
					t.Errorf("shown %q, want %q once", shown, pageURL)
				}
			})
		}
	}
}

// The slow tool takes as long as it was told, reports every second and stops
// when the call is cancelled.
func TestSlowTool(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reports []string
				c := connectIn(t, era,
					client.Options{Progress: func(_ context.Context, p *protocol.Progress) {
						reports = append(reports, fmt.Sprint(p.Progress, " ", p.Message))
					}})
				start := time.Now()
				got, err := c.CallTool(t.Context(), "test_slow_tool", map[string]int{"seconds": 3})
				if err != nil || text(got.Content) != "Took 3 seconds." ||
					time.Since(start) != 3*time.Second {
					t.Errorf("got %+v, %v after %v", got, err, time.Since(start))
				}
				if want := []string{"0 0 of 3 seconds", "1 1 of 3 seconds",
					"2 2 of 3 seconds"}; !slices.Equal(reports, want) {
					t.Errorf("reported %q, want %q", reports, want)
				}
				got, err = c.CallTool(t.Context(), "test_slow_tool", nil)
				if err != nil || text(got.Content) != "Took 5 seconds." {
					t.Errorf("got %+v, %v", got, err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if _, err := c.CallTool(ctx, "test_slow_tool",
					map[string]int{"seconds": 600}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the deadline", err)
				}
				if got, err := c.CallTool(t.Context(), "test_slow_tool",
					map[string]int{"seconds": 601}); err != nil || !got.IsError {
					t.Errorf("got %+v, %v, want an error result", got, err)
				}
			})
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

func TestPrompts(t *testing.T) {
	c := connect(t,
		map[string]*protocol.ElicitResult{"user_context": accept(`{"context":"a birthday"}`)})
	for _, test := range []struct {
		prompt string
		args   map[string]string
		want   string
	}{
		{"test_simple_prompt", nil, "This is a simple prompt for testing."},
		{"test_prompt_with_arguments", map[string]string{"arg1": "x", "arg2": "y"}, "Prompt with arguments: arg1='x', arg2='y'"},
		{"test_prompt_with_embedded_resource", map[string]string{"resourceUri": "test://static-text"}, "Please process the embedded resource above."},
		{"test_prompt_with_image", nil, "Please analyze the image above."},
		{"test_input_required_result_prompt", nil, "Use this context: a birthday"},
	} {
		t.Run(test.prompt, func(t *testing.T) {
			got, err := c.GetPrompt(t.Context(), test.prompt, test.args)
			if err != nil {
				t.Error(err)
				return
			}
			var blocks []protocol.Content
			for _, m := range got.Messages {
				blocks = append(blocks, m.Content)
			}
			if text(blocks) != test.want {
				t.Errorf("got %q, want %q", text(blocks), test.want)
			}
		})
	}
	if _, err := c.GetPrompt(t.Context(), "test_prompt_with_embedded_resource",
		map[string]string{"resourceUri": "test://none"}); err == nil {
		t.Error("a prompt embeds a resource that does not exist")
	}
}

func TestResources(t *testing.T) {
	c := connect(t, nil)
	for uri, want := range map[string]string{
		"test://static-text":              "This is the content of the static text resource.",
		"test://template/123/data":        `{"data":"Data for this id","id":"123","templateTest":true}`,
		"test://example-resource":         "Embedded resource content for testing.",
		"test://watched-resource":         "0 changes",
		"test://template/a%2F..%2Fb/data": `{"data":"Data for this id","id":"a/../b","templateTest":true}`,
	} {
		t.Run(uri, func(t *testing.T) {
			got, err := c.ReadResource(t.Context(), uri)
			if err != nil || len(got.Contents) != 1 || got.Contents[0].Text != want ||
				got.Contents[0].URI != uri {
				t.Errorf("got %+v, %v, want %q", got, err, want)
			}
		})
	}
}

func TestChanges(t *testing.T) {
	c := connect(t, nil)
	for i, want := range []bool{true, false, true} {
		if _, err := c.CallTool(t.Context(), "test_trigger_tool_change", nil); err != nil {
			t.Fatal(err)
		}
		list, err := c.ListTools(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		listed := slices.ContainsFunc(list.Tools,
			func(tool protocol.Tool) bool { return tool.Name == "test_occasional_tool" })
		if listed != want {
			t.Errorf("after %d changes the tool is listed: %t, want %t", i+1, listed, want)
		}
	}
	got, err := c.ReadResource(t.Context(), watchedURI)
	if err != nil || got.Contents[0].Text != "3 changes" {
		t.Errorf("got %+v, %v, want 3 changes", got, err)
	}
}

// A client that can be asked nothing is not asked, and a tool that needs more
// is refused before it runs.
func TestWithoutCapabilities(t *testing.T) {
	srv, err := newServer(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(srv, nil)
	if err != nil {
		t.Fatal(err)
	}
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

// TestSurvey: what the command mcpattack says of the tools that ask, in both eras.
func TestSurvey(t *testing.T) {
	connect := roundtriptest.Lines(
		func(ctx context.Context, r io.ReadCloser, w io.WriteCloser) error {
			srv, err := newServer(nil)
			if err != nil {
				return err
			}
			defer srv.Close()
			return srv.ServeStream(ctx, r, w, nil)
		})
	survey := &attack.Survey{Timeout: time.Minute, Target: &attack.Target{
		Connect: func(string) (protocol.Peer, error) { return connect(t, ""), nil }}}
	var calls []attack.ToolCall
	for _, name := range []string{"elicitation", "sampling", "list_roots", "capabilities", "url",
		"request_state", "multi_round", "multiple_inputs"} {
		calls = append(calls, attack.ToolCall{Name: "test_input_required_result_" + name,
			Arguments: json.RawMessage(`{}`)})
	}
	report, err := survey.Report(calls)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report.Print(&out); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out.String())
	if report.Failed {
		t.Error("a tool could not be judged")
	}
	for line := range strings.Lines(out.String()) {
		if !strings.Contains(line, "OPEN") && !strings.Contains(line, "LOST") {
			continue
		}
		// It takes answers that it never asked for (AcceptUnsolicited), for the conformance suite.
		if cells := strings.Fields(line); cells[0] != "2026-07-28" ||
			cells[1] != "test_input_required_result_elicitation" || cells[8] != "OPEN" ||
			slices.Contains(cells[4:8], "OPEN") {
			t.Errorf("found: %s", line)
		}
	}
}
