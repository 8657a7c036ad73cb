//lint:file-ignore SA1019 sampling and roots are deprecated, and supported: they are to be tried for as long as they are

package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/wiretest"
)

// TestGoSDKServer: our client, the official Go SDK's server.
func TestGoSDKServer(t *testing.T) {
	routes := []route{
		{"http", openGoSDKServer(&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})},
		{"events", openGoSDKServer(&mcp.StreamableHTTPOptions{Stateless: true})},
		{"stream", func(t *testing.T, who *person, mute bool) (peer, said) {
			ours, theirs, said := stream(t)
			serve(t, theirs, func(ctx context.Context) {
				_ = newGoSDKServer().Run(ctx, &mcp.IOTransport{Reader: theirs.r, Writer: theirs.w})
			})
			return connectRondo(t, client.NewStream(ours.r, ours.w, nil), who, mute), said
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

// openGoSDKServer needs Stateless: other handlers of theirs speak older revisions only.
func openGoSDKServer(opts *mcp.StreamableHTTPOptions) func(*testing.T, *person, bool) (peer, said) {
	return func(t *testing.T, who *person, mute bool) (peer, said) {
		s := newGoSDKServer()
		endpoint, said := listen(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, opts))
		return dialRondo(t, endpoint, who, mute), said
	}
}

// newGoSDKServer returns a server of the official Go SDK that plays the script.
func newGoSDKServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "script", Version: "1.0.0"}, nil)
	for _, name := range scripted() {
		s.AddTool(&mcp.Tool{Name: name, Description: "Of the script.", InputSchema: json.RawMessage(`{"type":"object"}`)}, goSDKTool)
	}
	s.AddPrompt(&mcp.Prompt{Name: "brief", Description: "Of the script.", Arguments: []*mcp.PromptArgument{{Name: "topic"}}}, goSDKPrompt)
	s.AddResource(&mcp.Resource{Name: "codes", URI: "vault://codes"}, goSDKResource)
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "box", URITemplate: "vault://box/{box}"}, goSDKResource)
	return s
}

func goSDKTool(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	t := turn{target: req.Params.Name, replies: goSDKReplies(req.Params.InputResponses), state: req.Params.RequestState}
	if len(req.Params.Arguments) > 0 {
		if err := json.Unmarshal(req.Params.Arguments, &t.args); err != nil {
			return nil, err
		}
	}
	if token := req.Params.GetProgressToken(); token != nil && t.target == "slow" {
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2})
	}
	s := script(t)
	result := &mcp.CallToolResult{IsError: s.failed, InputRequests: goSDKQuestions(s.ask), RequestState: s.state}
	if s.text != "" {
		result.Content = []mcp.Content{&mcp.TextContent{Text: s.text}}
	}
	return result, nil
}

func goSDKPrompt(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	s := script(turn{target: req.Params.Name, args: req.Params.Arguments,
		replies: goSDKReplies(req.Params.InputResponses), state: req.Params.RequestState})
	if s.failed {
		return nil, errors.New(s.text)
	}
	result := &mcp.GetPromptResult{InputRequests: goSDKQuestions(s.ask), RequestState: s.state}
	if s.text != "" {
		result.Messages = []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: s.text}}}
	}
	return result, nil
}

func goSDKResource(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	s := script(turn{target: req.Params.URI, replies: goSDKReplies(req.Params.InputResponses), state: req.Params.RequestState})
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

// goSDKQuestions is nil for none: an empty map is something else there.
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
				Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: q.message}}}}
		case q.url != "":
			all[q.key] = &mcp.ElicitParams{Mode: "url", Message: q.message, URL: q.url}
		default:
			all[q.key] = &mcp.ElicitParams{Mode: "form", Message: q.message, RequestedSchema: q.schema}
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
