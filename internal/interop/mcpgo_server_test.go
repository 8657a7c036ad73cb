package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestMCPGoServer: our client, mcp-go's server.
func TestMCPGoServer(t *testing.T) {
	routes := []route{
		{"http", openMCPGoServer(server.WithStateLess(true))},
		{"sessions", openMCPGoServer()}, // of older revisions, beside this one
		{"stream", func(t *testing.T, who *person, mute bool) (peer, said) {
			ours, theirs, said := stream(t)
			serve(t, theirs, func(ctx context.Context) {
				s := server.NewStdioServer(newMCPGoServer())
				s.SetErrorLogger(log.New(io.Discard, "", 0))
				_ = s.Listen(ctx, theirs.r, theirs.w)
			})
			return connectRondo(t, client.NewStream(ours.r, ours.w, nil), who, mute), said
		}},
	}
	const cannotAsk = "a handler of resources has contents to return and nothing else"
	matrix(t, modern, wiretest.Client, routes, map[string]defect{
		"resource":          {what: cannotAsk, want: "opened", legs: 1},
		"resource template": {what: cannotAsk, want: "opened", legs: 1},
		"resource twice":    {what: cannotAsk, want: "opened", legs: 2},
		"progress": {
			what: "progress may come after the response, when nobody waits for it any more, or not at all",
			want: "went on", legs: 2, asked: 1, silent: true,
		},
	})
}

func openMCPGoServer(opts ...server.StreamableHTTPOption) func(*testing.T, *person, bool) (peer, said) {
	return func(t *testing.T, who *person, mute bool) (peer, said) {
		endpoint, said := listen(t, server.NewStreamableHTTPServer(newMCPGoServer(), opts...))
		return dialRondo(t, endpoint, who, mute), said
	}
}

// newMCPGoServer returns a server of mcp-go that plays the script.
func newMCPGoServer() *server.MCPServer {
	s := server.NewMCPServer("script", "1.0.0", server.WithToolCapabilities(false), server.WithPromptCapabilities(false),
		server.WithResourceCapabilities(false, false), server.WithElicitation(), server.WithRoots())
	for _, name := range scripted() {
		s.AddTool(mcp.NewToolWithRawSchema(name, "Of the script.", json.RawMessage(`{"type":"object"}`)),
			func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcpGoTool(ctx, s, r)
			})
	}
	s.AddPrompt(mcp.NewPrompt("brief", mcp.WithPromptDescription("Of the script."), mcp.WithArgument("topic")), mcpGoPrompt)
	s.AddResource(mcp.NewResource("vault://codes", "codes"), mcpGoResource)
	s.AddResourceTemplate(mcp.NewResourceTemplate("vault://box/{box}", "box"), mcpGoResource)
	return s
}

func mcpGoTool(ctx context.Context, s *server.MCPServer, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	t := turn{target: r.Params.Name, args: map[string]string{}, state: r.Params.RequestState}
	for name := range r.GetArguments() {
		t.args[name] = r.GetString(name, "")
	}
	if t.target == "slow" && r.Params.Meta != nil && r.Params.Meta.ProgressToken != nil {
		report := map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": 1, "total": 2}
		if err := s.SendNotificationToClient(ctx, protocol.NotifyProgress, report); err != nil {
			return nil, err
		}
	}
	t.replies = mcpGoReplies(r.Params.InputResponses)
	step := script(t)
	switch {
	case step.text == "":
		return mcpGoQuestions(step).ToolResult(), nil
	case step.failed:
		return mcp.NewToolResultError(step.text), nil
	}
	return mcp.NewToolResultText(step.text), nil
}

func mcpGoPrompt(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	step := script(turn{target: r.Params.Name, args: r.Params.Arguments,
		replies: mcpGoReplies(r.Params.InputResponses), state: r.Params.RequestState})
	switch {
	case step.text == "":
		return mcpGoQuestions(step).PromptResult(), nil
	case step.failed:
		return nil, errors.New(step.text)
	}
	return mcp.NewGetPromptResult("", []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(step.text))}), nil
}

// mcpGoResource does not play the script: a handler of resources has contents to return and nothing else.
func mcpGoResource(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI, Text: "opened"}}, nil
}

func mcpGoQuestions(s step) *server.InputRequestBuilder {
	b := server.NewInputRequestBuilder(s.state)
	for _, q := range s.ask {
		switch {
		case q.roots():
			b.Roots(q.key)
		case q.sample:
			b.Sample(q.key, mcp.CreateMessageParams{MaxTokens: 100,
				Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(q.message)}}})
		case q.url != "":
			b.Elicit(q.key, mcp.ElicitationParams{Mode: mcp.ElicitationModeURL, Message: q.message, URL: q.url})
		default:
			b.Elicit(q.key, mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: q.message, RequestedSchema: q.schema})
		}
	}
	return b
}

// mcpGoReplies decodes each answer as what its key says it is: any answer decodes as anything.
func mcpGoReplies(responses mcp.InputResponses) replies {
	all := replies{}
	for key := range responses {
		switch key {
		case "summary":
			if said := server.SamplingResponse(responses, key); said != nil {
				text, _ := textOfBlock(said.Content) // empty shows in the result
				all[key] = reply{text: text}
			}
		case "dirs":
			if listed := server.RootsResponse(responses, key); listed != nil {
				var list []string
				for _, root := range listed.Roots {
					list = append(list, root.URI)
				}
				all[key] = reply{uris: list}
			}
		default:
			if answered := server.ElicitationResponse(responses, key); answered != nil {
				content, _ := answered.Content.(map[string]any)
				all[key] = reply{action: string(answered.Action), content: content}
			}
		}
	}
	return all
}
