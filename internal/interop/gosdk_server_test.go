//lint:file-ignore SA1019 sampling and roots are deprecated, and supported as long as they are

package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

// TestGoSDKServer connects our client to the official Go SDK's server.
func TestGoSDKServer(t *testing.T) {
	routes := []route{
		{"http", openGoSDKServer(false,
			&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})},
		{"events", openGoSDKServer(false, &mcp.StreamableHTTPOptions{Stateless: true})},
		{"stream", func(t *testing.T, who *person, mute bool) (peer, said) {
			ours, theirs, said := stream(t)
			serve(t, theirs, func(ctx context.Context) {
				_ = newGoSDKServer(false).Run(ctx,
					&mcp.IOTransport{Reader: theirs.r, Writer: theirs.w})
			})
			return connectRondo(t, overLines(ours.r, ours.w), who, mute), said
		}},
	}
	matrix(t, modern, wiretest.Client, routes, map[string]defect{
		"state alone": {
			what: "a result that only asks to come back is sent as complete and empty",
			want: "", legs: 1, asked: 1,
		},
		"progress/http": {
			what: "none: a JSON response has no room for notifications",
			want: "went on", legs: 2, asked: 1, silent: true,
		},
	})
}

// Our client detects a server of older revisions, or is configured for one.
func TestGoSDKServerLegacy(t *testing.T) {
	routes := []route{
		{"http", openGoSDKServer(true, nil)},
		{"returned", openGoSDKServer(false, nil)},
		{"stream", func(t *testing.T, who *person, mute bool) (peer, said) {
			ours, theirs, said := stream(t)
			serve(t, theirs, func(ctx context.Context) {
				_ = newGoSDKServer(true).Run(ctx,
					&mcp.IOTransport{Reader: theirs.r, Writer: theirs.w})
			})
			return connectRondoLegacy(t, overLines(ours.r, ours.w), who, mute), said
		}},
	}
	hints := defect{what: "cache hints are of another era", harmless: true,
		leaks: "there is no ttlMs"}
	const oneRound = "what a handler returns is put to the client once, and what it returns then " +
		"leaves as it is"
	const nameless = "a visit has no elicitationId"
	unread := defect{what: "a handler of resources cannot return questions", fails: true,
		want: "nil information", legs: 1}
	unreadTwice := unread
	unreadTwice.legs = 2
	matrix(t, v20251125, wiretest.Client, routes, map[string]defect{
		"list tools": hints, "list prompts": hints, "list resources": hints,
		"list templates": hints,
		"resource":       hints, "resource template": hints, "resource twice": hints,
		"resource/returned": unread, "resource template/returned": unread,
		"resource twice/returned": unreadTwice,
		"three rounds/returned": {what: oneRound, legs: 1, asked: uncounted, pushes: 1,
			leaks: "there is no inputRequests"},
		"defaults/returned": {what: oneRound, legs: 1, asked: uncounted, pushes: 1,
			leaks: "there is no inputRequests"},
		"decline in a later round/returned": {what: oneRound, legs: 1, asked: uncounted, pushes: 1,
			leaks: "there is no inputRequests"},
		"state alone/returned": {what: "a state alone leaves as it is", legs: 1,
			leaks: "there is no requestState"},
		"cannot be asked/returned": {what: "the request fails and not the tool",
			fails: true, want: "elicitation", legs: 1, asked: 1},
		"cannot visit/returned": {what: "the request fails and not the tool",
			fails: true, want: "elicitation", legs: 1, asked: 1},
		"URL/returned": {what: nameless, fails: true, want: "elicitationId",
			legs: 1, pushes: 1},
		"URL declined/returned": {what: nameless, fails: true, want: "elicitationId",
			legs: 1, pushes: 1},
		"all at once/returned": {what: nameless, fails: true, want: "elicitationId",
			legs: 1, asked: uncounted, pushes: 4},
	})
}

// openGoSDKServer opens a server that speaks only older revisions, unless it is Stateless.
func openGoSDKServer(push bool,
	opts *mcp.StreamableHTTPOptions) func(*testing.T, *person, bool) (peer, said) {
	return func(t *testing.T, who *person, mute bool) (peer, said) {
		s := newGoSDKServer(push)
		closeSessionsAfter(t, s)
		endpoint, said := listen(t,
			mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, opts))
		return dialRondo(t, endpoint, who, mute), said
	}
}

// closeSessionsAfter closes sessions that clients leave open. The SDK would keep them for ever.
func closeSessionsAfter(t *testing.T, s *mcp.Server) {
	t.Cleanup(func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
	})
}

// newGoSDKServer plays the script on the official Go SDK. Handlers return questions, or push them.
func newGoSDKServer(push bool) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "script", Version: "1.0.0"}, nil)
	h := goSDKHandlers{push}
	for _, name := range scripted() {
		s.AddTool(&mcp.Tool{Name: name, Description: "Of the script.",
			InputSchema: json.RawMessage(`{"type":"object"}`)}, h.tool)
	}
	s.AddPrompt(&mcp.Prompt{Name: "brief", Description: "Of the script.",
		Arguments: []*mcp.PromptArgument{{Name: "topic"}}}, h.prompt)
	s.AddResource(&mcp.Resource{Name: "codes", URI: "vault://codes"}, h.resource)
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "box", URITemplate: "vault://box/{box}"},
		h.resource)
	return s
}

type goSDKHandlers struct{ push bool }

func (h goSDKHandlers) play(ctx context.Context, session *mcp.ServerSession, t turn,
	responses mcp.InputResponseMap) step {
	if h.push {
		return pushed(t, func(q question) (reply, error) { return goSDKPut(ctx, session, q) })
	}
	t.replies = goSDKReplies(responses)
	return returned(t)
}

func (h goSDKHandlers) tool(ctx context.Context,
	req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	t := turn{target: req.Params.Name, state: req.Params.RequestState}
	if len(req.Params.Arguments) > 0 {
		if err := json.Unmarshal(req.Params.Arguments, &t.args); err != nil {
			return nil, err
		}
	}
	if token := req.Params.GetProgressToken(); token != nil && t.target == "slow" {
		_ = req.Session.NotifyProgress(ctx,
			&mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2})
	}
	s := h.play(ctx, req.Session, t, req.Params.InputResponses)
	result := &mcp.CallToolResult{IsError: s.failed, InputRequests: goSDKQuestions(s.ask),
		RequestState: s.state}
	if s.text != "" {
		result.Content = []mcp.Content{&mcp.TextContent{Text: s.text}}
	}
	return result, nil
}

func (h goSDKHandlers) prompt(ctx context.Context,
	req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	t := turn{target: req.Params.Name, args: req.Params.Arguments, state: req.Params.RequestState}
	s := h.play(ctx, req.Session, t, req.Params.InputResponses)
	if s.failed {
		return nil, errors.New(s.text)
	}
	result := &mcp.GetPromptResult{InputRequests: goSDKQuestions(s.ask), RequestState: s.state}
	if s.text != "" {
		result.Messages = []*mcp.PromptMessage{{Role: "user",
			Content: &mcp.TextContent{Text: s.text}}}
	}
	return result, nil
}

func (h goSDKHandlers) resource(ctx context.Context,
	req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	s := h.play(ctx, req.Session, turn{target: req.Params.URI, state: req.Params.RequestState},
		req.Params.InputResponses)
	if s.failed {
		return nil, errors.New(s.text)
	}
	result := &mcp.ReadResourceResult{InputRequests: goSDKQuestions(s.ask), RequestState: s.state}
	if s.text != "" {
		result.Contents = []*mcp.ResourceContents{{URI: req.Params.URI, Text: s.text}}
		result.Cacheable = mcp.Cacheable{TTLMs: 60_000, CacheScope: "private"}
	}
	return result, nil
}

// goSDKPut sends one question to the client and waits for the answer.
func goSDKPut(ctx context.Context, session *mcp.ServerSession, q question) (reply, error) {
	var response mcp.InputResponse
	var err error
	switch asked := goSDKQuestions([]question{q})[q.key].(type) {
	case *mcp.ListRootsParams:
		response, err = session.ListRoots(ctx, asked)
	case *mcp.CreateMessageParams:
		response, err = session.CreateMessageWithTools(ctx,
			&mcp.CreateMessageWithToolsParams{MaxTokens: asked.MaxTokens,
				Messages: []*mcp.SamplingMessageV2{{Role: "user",
					Content: []mcp.Content{&mcp.TextContent{Text: q.message}}}}})
	case *mcp.ElicitParams:
		if q.url != "" {
			asked.ElicitationID = "visit-" + q.key
		}
		response, err = session.Elicit(ctx, asked)
	}
	if err != nil {
		return reply{}, err
	}
	return goSDKReplies(mcp.InputResponseMap{q.key: response})[q.key], nil
}

// goSDKQuestions returns nil if there are no questions. An empty map would mean something else.
func goSDKQuestions(questions []question) mcp.InputRequestMap {
	var all mcp.InputRequestMap
	for _, q := range questions {
		if all == nil {
			all = mcp.InputRequestMap{}
		}
		switch {
		case q.roots():
			all[q.key] = &mcp.ListRootsParams{}
		case q.sample:
			all[q.key] = &mcp.CreateMessageParams{MaxTokens: 100,
				Messages: []*mcp.SamplingMessage{{Role: "user",
					Content: &mcp.TextContent{Text: q.message}}}}
		case q.url != "":
			all[q.key] = &mcp.ElicitParams{Mode: "url", Message: q.message, URL: q.url}
		default:
			all[q.key] = &mcp.ElicitParams{Mode: "form", Message: q.message,
				RequestedSchema: q.schema}
		}
	}
	return all
}

func goSDKReplies(responses mcp.InputResponseMap) replies {
	all := replies{}
	for key, response := range responses {
		switch r := response.(type) {
		case *mcp.ElicitResult:
			all[key] = reply{action: r.Action, content: r.Content}
		case *mcp.CreateMessageWithToolsResult:
			all[key] = reply{text: goSDKText(r.Content)}
		case *mcp.ListRootsResult:
			var list []string
			for _, root := range r.Roots {
				list = append(list, root.URI)
			}
			all[key] = reply{uris: list}
		}
	}
	return all
}
