//lint:file-ignore SA1019 sampling and roots are deprecated, and supported as long as they are

package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestMCPGoServer connects our client to mcp-go's server.
func TestMCPGoServer(t *testing.T) {
	routes := []route{
		{"http", openMCPGoServer(dialRondo, false, server.WithStateLess(true))},
		{"sessions", openMCPGoServer(dialRondo, false)}, // of older revisions, besides this one
		{"stream", func(t *testing.T, who *person, mute bool) (peer, said) {
			ours, theirs, said := stream(t)
			serve(t, theirs, func(ctx context.Context) {
				runMCPGo(ctx, theirs, false)
			})
			return connectRondo(t, overLines(ours.r, ours.w), who, mute), said
		}},
	}
	const cannotAsk = "a handler of resources has contents to return and nothing else"
	matrix(t, modern, wiretest.Client, routes, map[string]defect{
		"resource":          {what: cannotAsk, want: "opened", legs: 1},
		"resource template": {what: cannotAsk, want: "opened", legs: 1},
		"resource twice":    {what: cannotAsk, want: "opened", legs: 2},
		"progress": {
			what: "progress may come after the response, when nobody waits for it any more, or " +
				"not at all",
			want: "went on", legs: 2, asked: 1, silent: true,
		},
	})
}

// Our client opens a session, although the server also speaks newer revisions.
func TestMCPGoServerLegacy(t *testing.T) {
	over := func(push bool) func(*testing.T, *person, bool) (peer, said) {
		return func(t *testing.T, who *person, mute bool) (peer, said) {
			ours, theirs, said := stream(t)
			serve(t, theirs, func(ctx context.Context) { runMCPGo(ctx, theirs, push) })
			return connectRondoLegacy(t, overLines(ours.r, ours.w), who, mute), said
		}
	}
	routes := []route{
		{"http", openMCPGoServer(dialRondoLegacy, true)},
		{"stream", over(true)},
		{"returned", openMCPGoServer(dialRondoLegacy, false)},
		{"returned stream", over(false)},
	}
	const (
		unread   = "a handler of resources cannot return questions"
		nameless = "a visit has no elicitationId, and is not sent for want of it"
		noState  = "a state alone is taken for an overloaded server"
		anyway   = "what the client does not declare is asked all the same"
	)
	defects := map[string]defect{"progress": {
		what: "progress goes out on the stream of the session, or behind the response: it " +
			"may come when nobody waits for it any more",
		harmless: true, silent: true,
	}}
	for route, text := range map[string]string{
		"/http":   `error: elicitation/create error -32601: method not found: "elicitation/create"`,
		"/stream": `error: elicitation request failed: method not found: "elicitation/create"`,
	} {
		defects["cannot be asked"+route] = defect{what: anyway, want: text, legs: 1, asked: 1,
			pushes: 1}
		defects["cannot visit"+route] = defect{what: anyway, want: text, legs: 1, asked: 1,
			pushes: 1}
	}
	for _, route := range []string{"/returned", "/returned stream"} {
		defects["resource"+route] = defect{what: unread, want: "opened", legs: 1}
		defects["resource template"+route] = defect{what: unread, want: "opened", legs: 1}
		defects["resource twice"+route] = defect{what: unread, want: "opened", legs: 2}
		defects["URL"+route] = defect{what: nameless, fails: true, want: "elicitationId", legs: 1}
		defects["URL declined"+route] = defect{what: nameless, fails: true, want: "elicitationId",
			legs: 1}
		defects["all at once"+route] = defect{what: nameless, fails: true, want: "elicitationId",
			legs: 1, asked: uncounted, pushes: uncounted}
		defects["state alone"+route] = defect{what: noState, fails: true, want: "busy", legs: 1}
		defects["cannot be asked"+route] = defect{what: anyway, fails: true,
			want: "method not found", legs: 1, asked: 1, pushes: 1}
		defects["cannot visit"+route] = defect{what: nameless, fails: true, want: "elicitationId",
			legs: 1, asked: 1}
	}
	matrix(t, v20251125, wiretest.Client, routes, defects)
}

func runMCPGo(ctx context.Context, end line, push bool) {
	s := server.NewStdioServer(newMCPGoServer(push))
	s.SetErrorLogger(log.New(io.Discard, "", 0))
	_ = s.Listen(ctx, end.r, end.w)
}

func openMCPGoServer(dial dialer, push bool,
	opts ...server.StreamableHTTPOption) func(*testing.T, *person, bool) (peer, said) {
	quiet := server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler))
	return func(t *testing.T, who *person, mute bool) (peer, said) {
		endpoint, said := listen(t, server.NewStreamableHTTPServer(newMCPGoServer(push),
			append(opts, quiet)...))
		return dial(t, endpoint, who, mute), said
	}
}

// newMCPGoServer plays the script on mcp-go. Handlers return their questions, or push them.
func newMCPGoServer(push bool) *server.MCPServer {
	s := server.NewMCPServer("script", "1.0.0", server.WithToolCapabilities(false),
		server.WithPromptCapabilities(false),
		server.WithResourceCapabilities(false, false), server.WithElicitation(), server.WithRoots())
	s.EnableSampling()
	h := mcpGoHandlers{s, push}
	for _, name := range scripted() {
		s.AddTool(mcp.NewToolWithRawSchema(name, "Of the script.",
			json.RawMessage(`{"type":"object"}`)), h.tool)
	}
	s.AddPrompt(mcp.NewPrompt("brief", mcp.WithPromptDescription("Of the script."),
		mcp.WithArgument("topic")), h.prompt)
	s.AddResource(mcp.NewResource("vault://codes", "codes"), h.resource)
	s.AddResourceTemplate(mcp.NewResourceTemplate("vault://box/{box}", "box"), h.resource)
	return s
}

type mcpGoHandlers struct {
	server *server.MCPServer
	push   bool
}

func (h mcpGoHandlers) play(ctx context.Context, t turn, responses mcp.InputResponses) step {
	if h.push {
		return pushed(t, func(q question) (reply, error) { return h.put(ctx, q) })
	}
	t.replies = mcpGoReplies(responses)
	return returned(t)
}

func (h mcpGoHandlers) tool(ctx context.Context,
	r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	t := turn{target: r.Params.Name, args: map[string]string{}, state: r.Params.RequestState}
	for name := range r.GetArguments() {
		t.args[name] = r.GetString(name, "")
	}
	if t.target == "slow" && r.Params.Meta != nil && r.Params.Meta.ProgressToken != nil {
		report := map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": 1,
			"total": 2}
		if err := h.server.SendNotificationToClient(ctx, protocol.NotifyProgress,
			report); err != nil {
			return nil, err
		}
	}
	step := h.play(ctx, t, r.Params.InputResponses)
	switch {
	case step.text == "":
		return mcpGoQuestions(step).ToolResult(), nil
	case step.failed:
		return mcp.NewToolResultError(step.text), nil
	}
	return mcp.NewToolResultText(step.text), nil
}

func (h mcpGoHandlers) prompt(ctx context.Context,
	r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	t := turn{target: r.Params.Name, args: r.Params.Arguments, state: r.Params.RequestState}
	step := h.play(ctx, t, r.Params.InputResponses)
	switch {
	case step.text == "":
		return mcpGoQuestions(step).PromptResult(), nil
	case step.failed:
		return nil, errors.New(step.text)
	}
	return mcp.NewGetPromptResult("",
		[]mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(step.text))}), nil
}

// resource plays the script only if it can push, as it can return only contents.
func (h mcpGoHandlers) resource(ctx context.Context,
	r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	s := step{text: "opened"}
	if h.push {
		s = h.play(ctx, turn{target: r.Params.URI}, nil)
	}
	if s.failed {
		return nil, errors.New(s.text)
	}
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI, Text: s.text}}, nil
}

func (h mcpGoHandlers) put(ctx context.Context, q question) (reply, error) {
	switch {
	case q.roots():
		listed, err := h.server.RequestRoots(ctx, mcp.ListRootsRequest{})
		if err != nil {
			return reply{}, err
		}
		return reply{uris: mcpGoURIs(listed)}, nil
	case q.sample:
		said, err := h.server.RequestSampling(ctx,
			mcp.CreateMessageRequest{CreateMessageParams: mcpGoSampling(q)})
		if err != nil {
			return reply{}, err
		}
		text, err := textOfBlock(said.Content)
		return reply{text: text}, err
	}
	params := mcpGoElicitation(q)
	if q.url != "" {
		params.ElicitationID = "visit-" + q.key
	}
	answered, err := h.server.RequestElicitation(ctx, mcp.ElicitationRequest{Params: params})
	if err != nil {
		return reply{}, err
	}
	return mcpGoReply(answered), nil
}

func mcpGoQuestions(s step) *server.InputRequestBuilder {
	b := server.NewInputRequestBuilder(s.state)
	for _, q := range s.ask {
		switch {
		case q.roots():
			b.Roots(q.key)
		case q.sample:
			b.Sample(q.key, mcpGoSampling(q))
		default:
			b.Elicit(q.key, mcpGoElicitation(q))
		}
	}
	return b
}

func mcpGoSampling(q question) mcp.CreateMessageParams {
	return mcp.CreateMessageParams{MaxTokens: 100,
		Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser,
			Content: mcp.NewTextContent(q.message)}}}
}

func mcpGoElicitation(q question) mcp.ElicitationParams {
	if q.url != "" {
		return mcp.ElicitationParams{Mode: mcp.ElicitationModeURL, Message: q.message, URL: q.url}
	}
	return mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: q.message,
		RequestedSchema: q.schema}
}

// mcpGoReplies decodes each answer by its key, because any answer decodes as any type.
func mcpGoReplies(responses mcp.InputResponses) replies {
	all := replies{}
	for key := range responses {
		switch key {
		case "summary":
			if said := server.SamplingResponse(responses, key); said != nil {
				text, _ := textOfBlock(said.Content) // an empty text shows in the result
				all[key] = reply{text: text}
			}
		case "dirs":
			if listed := server.RootsResponse(responses, key); listed != nil {
				all[key] = reply{uris: mcpGoURIs(listed)}
			}
		default:
			if answered := server.ElicitationResponse(responses, key); answered != nil {
				all[key] = mcpGoReply(answered)
			}
		}
	}
	return all
}

func mcpGoURIs(listed *mcp.ListRootsResult) (list []string) {
	for _, root := range listed.Roots {
		list = append(list, root.URI)
	}
	return list
}

func mcpGoReply(answered *mcp.ElicitationResult) reply {
	content, _ := answered.Content.(map[string]any)
	return reply{action: string(answered.Action), content: content}
}
