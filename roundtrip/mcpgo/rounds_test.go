//lint:file-ignore SA1019 sampling and roots are deprecated, but supported, so they are tested

package mcpgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

type confirmation struct {
	Zeal   string `json:"zeal"`
	Amount int    `json:"amount,omitempty" default:"2"`
}

var confirm = roundtrip.MustQuestion[confirmation]("confirm")

// form is a form in mcp-go's words.
func form(message string) mcp.ElicitationParams {
	return mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: message,
		RequestedSchema: json.RawMessage(formSchema)}
}

func visit(message string) mcp.ElicitationParams {
	return mcp.ElicitationParams{Mode: mcp.ElicitationModeURL, Message: message, URL: visitURL,
		ElicitationID: "visit-1"}
}

func sampling() mcp.CreateMessageParams {
	return mcp.CreateMessageParams{MaxTokens: 10,
		Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser,
			Content: mcp.NewTextContent("Summarize.")}}}
}

// describeAnswer is what an answer comes to.
func describeAnswer(r *mcp.ElicitationResult) string {
	content, _ := r.Content.(map[string]any)
	if _, more := content["evil"]; more {
		return "evil"
	}
	return fmt.Sprintf("%s %v %v", r.Action, content["zeal"], content["amount"])
}

// addGuard adds handlers of guard style.
func addGuard(s *server.MCPServer) {
	s.AddTool(mcp.NewTool("typed"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			switch answer := confirm.Answer(ctx); answer.Outcome {
			case roundtrip.Accepted:
				return mcp.NewToolResultText(fmt.Sprintf("%s %d", answer.Content.Zeal,
					answer.Content.Amount)), nil
			case roundtrip.Declined, roundtrip.Cancelled:
				return mcp.NewToolResultText(answer.Outcome.String()), nil
			}
			return mcpgo.ToolInput(confirm.Elicit("Sure?")), nil
		})
	s.AddTool(mcp.NewTool("steps"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			first, ok := mcpgo.Elicited(ctx, "first")
			if !ok {
				return mcpgo.ToolInput(mcpgo.Question("first", form("First?"))), nil
			}
			second, ok := mcpgo.Elicited(ctx, "second")
			if !ok {
				return mcpgo.ToolInput(mcpgo.Question("second", form("Second?")),
					mcpgo.Question("go", visit("Go there?"))), nil
			}
			away, ok := mcpgo.Elicited(ctx, "go")
			return mcp.NewToolResultText(fmt.Sprintf("%s, %s, %v %s", describeAnswer(&first),
				describeAnswer(&second), ok, away.Action)), nil
		})
	s.AddTool(mcp.NewTool("machine"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			message, ok := mcpgo.Sampled(ctx, "model")
			roots, found := mcpgo.Roots(ctx, "dirs")
			if !ok || !found {
				return mcpgo.ToolInput(mcpgo.SamplingQuestion("model", sampling()),
					roundtrip.ListRoots("dirs")), nil
			}
			return mcp.NewToolResultText(message.Content.(mcp.TextContent).Text + " " +
				roots.Roots[0].URI), nil
		})
	s.AddPrompt(mcp.NewPrompt("brief"),
		func(ctx context.Context, _ mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			answer, ok := confirm.AcceptedContent(ctx)
			if !ok {
				return mcpgo.PromptInput(confirm.Elicit("Which brief?")), nil
			}
			return briefed(answer.Zeal), nil
		})
	read := func(ctx context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		answer, ok := confirm.AcceptedContent(ctx)
		if !ok {
			return mcpgo.ResourceInput(confirm.Elicit("May I read?"))
		}
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI,
			Text: answer.Zeal}}, nil
	}
	s.AddResource(mcp.NewResource("vault://codes", "codes"), read)
	s.AddResourceTemplate(mcp.NewResourceTemplate("vault://box/{box}", "box"), read)
}

func briefed(text string) *mcp.GetPromptResult {
	return mcp.NewGetPromptResult("",
		[]mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text))})
}

// eras runs a test with every client, over every transport, in both eras.
func eras(t *testing.T, opts mcpgo.Options, add func(*server.MCPServer), scenarios []scenario) {
	for _, revision := range []string{modern, v20251125} {
		all := links(revision)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			for _, sc := range scenarios {
				t.Run(revision+"/"+name+"/"+sc.name, func(t *testing.T) {
					if sc.skip != nil {
						if why := sc.skip(revision, name); why != "" {
							t.Skip(why)
						}
					}
					s := newHostServer()
					add(s)
					found := &bugs{}
					own := opts
					own.Observer = found
					who := newPerson(sc.answers)
					p := all[name](t, install(t, s, &own), s, who)
					got, err := sc.call(within(t), p)
					if err != nil {
						got = "failed: " + err.Error()
					}
					if !strings.Contains(got, sc.want) || sc.want == "" {
						t.Errorf("got %q, want %q", got, sc.want)
					}
					who.once(t, sc.asked...)
					if err := found.err(); err != nil {
						t.Errorf("reported as a bug: %v", err)
					}
				})
			}
		}
	}
}

type scenario struct {
	name    string
	answers map[string]string
	call    func(context.Context, peer) (string, error)
	want    string
	asked   []string
	skip    func(revision, link string) string
}

func tool(name string) func(context.Context, peer) (string, error) {
	return func(ctx context.Context, p peer) (string, error) { return p.tool(ctx, name, nil) }
}

func prompt(name string) func(context.Context, peer) (string, error) {
	return func(ctx context.Context, p peer) (string, error) { return p.prompt(ctx, name) }
}

func resource(uri string) func(context.Context, peer) (string, error) {
	return func(ctx context.Context, p peer) (string, error) { return p.resource(ctx, uri) }
}

func TestGuardStyle(t *testing.T) {
	eras(t, mcpgo.Options{}, addGuard, []scenario{
		{name: "typed", call: tool("typed"), want: "much 2", asked: []string{"Sure?"}},
		{name: "declined", answers: map[string]string{"Sure?": "decline"}, call: tool("typed"),
			want: "declined", asked: []string{"Sure?"}},
		{name: "cancelled", answers: map[string]string{"Sure?": "cancel"}, call: tool("typed"),
			want: "cancelled", asked: []string{"Sure?"}},
		{name: "steps", answers: map[string]string{"First?": `{"zeal":"a","amount":1}`,
			"Second?": `{"zeal":"b"}`}, call: tool("steps"),
			want:  "accept a 1, accept b 2, true accept",
			asked: []string{"First?", "Second?", "Go there?"}},
		{name: "machine", call: tool("machine"), want: summary + " " + rootURI,
			asked: []string{"sampling"}},
		{name: "nagging", answers: map[string]string{"Which brief?": "decline"},
			want: "declined: confirm", asked: []string{"Which brief?"},
			call: prompt("brief")},
		{name: "prompt", want: "much", asked: []string{"Which brief?"},
			call: prompt("brief")},
		{name: "resource", want: "much", asked: []string{"May I read?"},
			call: resource("vault://codes")},
		{name: "template", want: "much", asked: []string{"May I read?"},
			call: resource("vault://box/7")},
	})
}

// addNative adds handlers written for mcp-go's own rounds: they are not
// changed at all.
func addNative(s *server.MCPServer) {
	s.AddTool(mcp.NewTool("native"),
		func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			first := server.ElicitationResponse(r.Params.InputResponses, "first")
			if first == nil {
				return server.NewInputRequestBuilder("one").Elicit("first",
					form("First?")).ToolResult(), nil
			}
			second := server.ElicitationResponse(r.Params.InputResponses, "second")
			if second == nil {
				return server.NewInputRequestBuilder(r.Params.RequestState+"+two").Elicit("second",
					visit("Second?")).ToolResult(), nil
			}
			return mcp.NewToolResultText(fmt.Sprintf("%s, %s, %s", r.Params.RequestState,
				describeAnswer(first), second.Action)), nil
		})
	s.AddPrompt(mcp.NewPrompt("brief"),
		func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			roots := server.RootsResponse(r.Params.InputResponses, "dirs")
			message := server.SamplingResponse(r.Params.InputResponses, "model")
			if roots == nil || message == nil {
				return server.NewInputRequestBuilder("").Roots("dirs").Sample("model",
					sampling()).PromptResult(), nil
			}
			text, err := json.Marshal(message.Content)
			return briefed(roots.Roots[0].URI + string(text)), err
		})
}

// TestNativeRounds: handlers that ask in mcp-go's own way get their state and
// all their answers back, verified.
func TestNativeRounds(t *testing.T) {
	eras(t, mcpgo.Options{}, addNative, []scenario{
		{name: "tool", call: tool("native"), want: "one+two, accept much 2, accept",
			asked: []string{"First?", "Second?"}},
		{name: "declined", answers: map[string]string{"First?": "decline", "Second?": "cancel"},
			call: tool("native"),
			want: "one+two, decline <nil> <nil>, cancel", asked: []string{"First?", "Second?"}},
		{name: "prompt", want: rootURI + `{"`, asked: []string{"sampling"},
			call: prompt("brief")},
	})
}

// A caller puts questions to the client, in mcp-go's words.
type caller struct {
	elicit func(ctx context.Context, key string,
		params mcp.ElicitationParams) (*mcp.ElicitationResult, error)
	sample func(ctx context.Context, key string,
		params mcp.CreateMessageParams) (*mcp.CreateMessageResult, error)
	roots func(ctx context.Context, key string) (*mcp.ListRootsResult, error)
}

// changed is a handler in which one call was changed.
func changed() caller {
	return caller{
		func(ctx context.Context, key string, params mcp.ElicitationParams) (*mcp.ElicitationResult,
			error) {
			return mcpgo.Elicit(ctx, key, mcp.ElicitationRequest{Params: params})
		},
		func(ctx context.Context, key string,
			params mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return mcpgo.CreateMessage(ctx, key,
				mcp.CreateMessageRequest{CreateMessageParams: params})
		},
		func(ctx context.Context, key string) (*mcp.ListRootsResult,
			error) {
			return mcpgo.ListRoots(ctx, key)
		},
	}
}

// unchanged is one that calls the server as it always has.
func unchanged(s *server.MCPServer) caller {
	return caller{
		func(ctx context.Context, _ string, params mcp.ElicitationParams) (*mcp.ElicitationResult,
			error) {
			return s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: params})
		},
		func(ctx context.Context, _ string,
			params mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return s.RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: params})
		},
		func(ctx context.Context, _ string) (*mcp.ListRootsResult, error) {
			return s.RequestRoots(ctx, mcp.ListRootsRequest{})
		},
	}
}

// addFlow adds handlers that ask in the middle of their code.
func addFlow(s *server.MCPServer, c caller) {
	s.AddTool(mcp.NewTool("steps"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			first, err := c.elicit(ctx, "first", form("First?"))
			if err != nil {
				return nil, err
			}
			second, err := c.elicit(ctx, "second", form("Second after "+describeAnswer(first)+"?"))
			if err != nil {
				return nil, err
			}
			third, err := c.elicit(ctx, "third", visit("Third?"))
			if err != nil {
				return nil, err
			}
			return mcp.NewToolResultText(fmt.Sprintf("%s, %s, %s", describeAnswer(first),
				describeAnswer(second), third.Action)), nil
		})
	s.AddTool(mcp.NewTool("machine"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			message, err := c.sample(ctx, "model", sampling())
			if err != nil {
				return nil, err
			}
			roots, err := c.roots(ctx, "dirs")
			if err != nil {
				return nil, err
			}
			return mcp.NewToolResultText(message.Content.(mcp.TextContent).Text + " " +
				roots.Roots[0].URI), nil
		})
	s.AddPrompt(mcp.NewPrompt("brief"),
		func(ctx context.Context, _ mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			answer, err := c.elicit(ctx, "brief", form("Which brief?"))
			if err != nil {
				return nil, err
			}
			return briefed(describeAnswer(answer)), nil
		})
	read := func(ctx context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		answer, err := c.elicit(ctx, "read", form("May I read?"))
		if err != nil {
			return nil, err
		}
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI,
			Text: describeAnswer(answer)}}, nil
	}
	s.AddResource(mcp.NewResource("vault://codes", "codes"), read)
	s.AddResourceTemplate(mcp.NewResourceTemplate("vault://box/{box}", "box"), read)
}

func flowScenarios() []scenario {
	// Toward older revisions handlers that are not changed get what the client
	// sends, and mcp-go's client fills no defaults in.
	full := func(messages ...string) map[string]string {
		answers := map[string]string{}
		for _, m := range messages {
			answers[m] = `{"zeal":"much","amount":2}`
		}
		return answers
	}
	all := full("First?", "Second after accept much 2?", "Second after decline <nil> <nil>?",
		"Which brief?", "May I read?")
	declined := maps.Clone(all)
	declined["First?"] = "decline"
	return []scenario{
		{name: "steps", answers: all, call: tool("steps"),
			want:  "accept much 2, accept much 2, accept",
			asked: []string{"First?", "Second after accept much 2?", "Third?"}},
		{name: "declined", answers: declined, call: tool("steps"),
			want:  "decline <nil> <nil>, accept much 2, accept",
			asked: []string{"First?", "Second after decline <nil> <nil>?", "Third?"}},
		{name: "machine", call: tool("machine"), want: summary + " " + rootURI,
			asked: []string{"sampling"}},
		{name: "prompt", answers: all, want: "accept much 2", asked: []string{"Which brief?"},
			call: prompt("brief")},
		{name: "resource", answers: all, want: "accept much 2", asked: []string{"May I read?"},
			call: resource("vault://codes")},
		{name: "template", answers: all, want: "accept much 2", asked: []string{"May I read?"},
			call: resource("vault://box/7")},
	}
}

// TestChangedCall: one call of each handler was changed.
func TestChangedCall(t *testing.T) {
	eras(t, mcpgo.Options{}, func(s *server.MCPServer) { addFlow(s, changed()) }, flowScenarios())
}

// TestUnmodifiedHandlers: none was. Toward older revisions mcp-go serves the
// call as it always has, default values and all.
func TestUnmodifiedHandlers(t *testing.T) {
	eras(t, mcpgo.Options{UnmodifiedHandlers: true},
		func(s *server.MCPServer) { addFlow(s, unchanged(s)) }, flowScenarios())
}

// TestResourcesAndStructuredToolsAsk: resources and structured handlers.
func TestResourcesAndStructuredToolsAsk(t *testing.T) {
	type result struct {
		Zeal string `json:"zeal"`
	}
	add := func(s *server.MCPServer) {
		addGuard(s)
		s.AddTool(mcp.NewTool("structured", mcp.WithOutputSchema[result]()),
			mcp.NewStructuredToolHandler(
				func(ctx context.Context, _ mcp.CallToolRequest, _ struct{}) (result, error) {
					answer, err := mcpgo.Elicit(ctx, "confirm",
						mcp.ElicitationRequest{Params: form("Sure?")})
					if err != nil {
						return result{}, err
					}
					return result{Zeal: describeAnswer(answer)}, nil
				}))
	}
	over(t, nil, add, func(t *testing.T, send sender) {
		for _, r := range []request{
			{method: protocol.MethodReadResource, target: "vault://codes"},
			{method: protocol.MethodReadResource, target: "vault://box/9"},
			{method: protocol.MethodCallTool, target: "structured", arguments: `{}`},
		} {
			first := send(r.message())
			wiretest.Validate(t, modern, wiretest.Server, []byte(first.body), r.method)
			if first.text() != "asks" || strings.Contains(first.body, "ttlMs") ||
				strings.Contains(first.body, `"contents"`) {
				t.Fatalf("%s: got %s", r.target, first.body)
			}
			got := send(r.retry(first, yes).message())
			wiretest.Validate(t, modern, wiretest.Server, []byte(got.body), r.method)
			if !strings.Contains(got.text(), "much") {
				t.Errorf("%s: got %s", r.target, got.body)
			}
		}
	})
}
