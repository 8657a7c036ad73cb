//lint:file-ignore SA1019 sampling, roots and logging are deprecated, but supported

package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// A style is a way in which handlers ask. It returns the text of the result,
// or a result of the SDK's that asks.
type style struct {
	name    string
	options []option
	tool    func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error)
	prompt  func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error)
	read    func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error)
}

func styles() []style {
	return []style{
		flow("elicit", changed{}),
		flow("unmodified", untouched{}, withUnmodifiedHandlers()),
		guarded(),
		returnedStyle(),
	}
}

// serverOf returns a server whose handlers play the script.
func serverOf(t testing.TB, s style, more ...option) *mcp.Server {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "script", Version: "1.0.0"}, nil)
	for _, name := range targets() {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: raw(`{"type":"object"}`)}, s.tool)
	}
	server.AddPrompt(&mcp.Prompt{Name: "brief", Arguments: []*mcp.PromptArgument{{Name: "topic"}}},
		s.prompt)
	server.AddResource(&mcp.Resource{Name: "codes", URI: "vault://codes"}, s.read)
	server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "box", URITemplate: "vault://box/{box}"},
		s.read)
	install(t, server, append(s.options, more...))
	return server
}

// An asker puts one question and waits.
type asker interface {
	put(ctx context.Context, session *mcp.ServerSession, q query) (reply, error)
}

// changed uses the counterparts in package gosdk of the session's methods.
type changed struct{}

func (changed) put(ctx context.Context, session *mcp.ServerSession, q query) (reply, error) {
	switch p := params(q).(type) {
	case *mcp.ListRootsParams:
		result, err := gosdk.ListRoots(ctx, session, p)
		return replyOf(result, err)
	case *mcp.CreateMessageParams:
		result, err := gosdk.CreateMessage(ctx, session, p)
		if err != nil {
			return reply{}, err
		}
		return reply{action: "accept", text: result.Content.(*mcp.TextContent).Text}, nil
	default:
		result, err := gosdk.Elicit(ctx, session, p.(*mcp.ElicitParams))
		return replyOf(result, err)
	}
}

// untouched uses the session's own methods.
type untouched struct{}

func (untouched) put(ctx context.Context, session *mcp.ServerSession, q query) (reply, error) {
	switch p := params(q).(type) {
	case *mcp.ListRootsParams:
		result, err := session.ListRoots(ctx, p)
		return replyOf(result, err)
	case *mcp.CreateMessageParams:
		result, err := session.CreateMessage(ctx, p)
		if err != nil {
			return reply{}, err
		}
		return reply{action: "accept", text: result.Content.(*mcp.TextContent).Text}, nil
	default:
		p2 := *p.(*mcp.ElicitParams)
		if p2.URL != "" {
			p2.ElicitationID = "visit-" + q.key
		}
		result, err := session.Elicit(ctx, &p2)
		return replyOf(result, err)
	}
}

// params writes a question as the SDK has it.
func params(q query) mcp.InputRequest {
	switch {
	case q.roots:
		return &mcp.ListRootsParams{}
	case q.sample:
		return &mcp.CreateMessageParams{MaxTokens: 100,
			Messages: []*mcp.SamplingMessage{{Role: "user",
				Content: &mcp.TextContent{Text: q.message}}}}
	case q.url != "":
		return &mcp.ElicitParams{Mode: "url", Message: q.message, URL: q.url}
	}
	return &mcp.ElicitParams{Message: q.message, RequestedSchema: raw(q.schema)}
}

// replyOf reads an answer as the SDK has it.
func replyOf(response mcp.InputResponse, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	switch r := response.(type) {
	case *mcp.ElicitResult:
		return reply{action: r.Action, content: r.Content}, nil
	case *mcp.CreateMessageWithToolsResult:
		return reply{action: "accept", text: r.Content[0].(*mcp.TextContent).Text}, nil
	case *mcp.ListRootsResult:
		var uris []string
		for _, root := range r.Roots {
			uris = append(uris, root.URI)
		}
		return reply{action: "accept", text: strings.Join(uris, " ")}, nil
	}
	return reply{}, errors.New("no answer")
}

// flow is the style of handlers that ask and wait.
func flow(name string, a asker, options ...option) style {
	play := func(ctx context.Context, session *mcp.ServerSession, target string) (string, error) {
		got := replies{}
		for {
			ask, text := script(target, got)
			if ask == nil {
				if text, failed := failure(text); failed {
					return "", errors.New(text)
				}
				return text, nil
			}
			for _, q := range ask {
				answer, err := a.put(ctx, session, q)
				if err != nil {
					return "", err
				}
				got[q.key] = answer
			}
		}
	}
	return style{
		name: name, options: options,
		tool: func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, err := play(ctx, req.Session, req.Params.Name)
			return toolText(text), err
		},
		prompt: func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			text, err := play(ctx, req.Session, req.Params.Name)
			return promptText(text), err
		},
		read: func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult,
			error) {
			text, err := play(ctx, req.Session, req.Params.URI)
			return resourceText(req.Params.URI, text), err
		},
	}
}

func promptText(text string) *mcp.GetPromptResult {
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user",
		Content: &mcp.TextContent{Text: text}}}}
}

func resourceText(uri, text string) *mcp.ReadResourceResult {
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: text}}}
}

// guarded is the style of package roundtrip in the SDK's handlers.
func guarded() style {
	play := func(ctx context.Context, target string) ([]roundtrip.Item, string, error) {
		ask, text := script(target, answered(ctx))
		if ask == nil {
			if text, failed := failure(text); failed {
				return nil, "", errors.New(text)
			}
			return nil, text, nil
		}
		var items []roundtrip.Item
		for _, q := range ask {
			items = append(items, item(q))
		}
		return items, "", nil
	}
	return style{
		name: "guarded",
		tool: func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			asks, text, err := play(ctx, req.Params.Name)
			if asks != nil {
				return gosdk.ToolInput(ctx, asks...)
			}
			return toolText(text), err
		},
		prompt: func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			asks, text, err := play(ctx, req.Params.Name)
			if asks != nil {
				return gosdk.PromptInput(ctx, asks...)
			}
			return promptText(text), err
		},
		read: func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult,
			error) {
			asks, text, err := play(ctx, req.Params.URI)
			if asks != nil {
				return gosdk.ResourceInput(ctx, asks...)
			}
			return resourceText(req.Params.URI, text), err
		},
	}
}

func item(q query) roundtrip.Item {
	switch {
	case q.roots:
		return roundtrip.ListRoots(q.key)
	case q.sample:
		return roundtrip.CreateMessage(q.key,
			&protocol.CreateMessage{MaxTokens: 100, Messages: []protocol.SamplingMessage{
				{Role: protocol.User,
					Content: []protocol.Content{&protocol.TextContent{Text: q.message}}}}})
	case q.url != "":
		return roundtrip.ElicitURL(q.key, q.message, q.url)
	}
	return roundtrip.ElicitSchema(q.key, q.message, raw(q.schema))
}

// answered reads what there is to know from the context.
func answered(ctx context.Context) replies {
	got := replies{}
	actions := map[roundtrip.Outcome]string{roundtrip.Accepted: "accept",
		roundtrip.Declined: "decline", roundtrip.Cancelled: "cancel"}
	for _, key := range []string{"confirm", "region", "size"} {
		if a := roundtrip.RawAnswer(ctx, key); actions[a.Outcome] != "" {
			r := reply{action: actions[a.Outcome]}
			_ = json.Unmarshal(a.Content, &r.content)
			got[key] = r
		}
	}
	if outcome := actions[roundtrip.Visited(ctx, "login")]; outcome != "" {
		got["login"] = reply{action: outcome}
	}
	if result, ok := roundtrip.Sampled(ctx, "summary"); ok {
		got["summary"] = reply{action: "accept",
			text: result.Content[0].(*protocol.TextContent).Text}
	}
	if roots, ok := roundtrip.Roots(ctx, "dirs"); ok {
		var uris []string
		for _, root := range roots {
			uris = append(uris, root.URI)
		}
		got["dirs"] = reply{action: "accept", text: strings.Join(uris, " ")}
	}
	return got
}

// returnedStyle is the style of handlers that return the SDK's own questions.
func returnedStyle() style {
	play := func(target string, responses mcp.InputResponseMap) (mcp.InputRequestMap, string,
		error) {
		got := replies{}
		for key, response := range responses {
			got[key], _ = replyOf(response, nil)
		}
		ask, text := script(target, got)
		if ask == nil {
			if text, failed := failure(text); failed {
				return nil, "", errors.New(text)
			}
			return nil, text, nil
		}
		requests := mcp.InputRequestMap{}
		for _, q := range ask {
			requests[q.key] = params(q)
		}
		return requests, "", nil
	}
	return style{
		name: "returned",
		tool: func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			requests, text, err := play(req.Params.Name, req.Params.InputResponses)
			if requests != nil {
				return &mcp.CallToolResult{InputRequests: requests}, nil
			}
			return toolText(text), err
		},
		prompt: func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			requests, text, err := play(req.Params.Name, req.Params.InputResponses)
			if requests != nil {
				return &mcp.GetPromptResult{InputRequests: requests}, nil
			}
			return promptText(text), err
		},
		read: func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult,
			error) {
			requests, text, err := play(req.Params.URI, req.Params.InputResponses)
			if requests != nil {
				return &mcp.ReadResourceResult{InputRequests: requests}, nil
			}
			return resourceText(req.Params.URI, text), err
		},
	}
}
