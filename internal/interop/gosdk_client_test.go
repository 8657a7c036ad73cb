//lint:file-ignore SA1019 sampling and roots are deprecated, and supported as long as they are

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestGoSDKClient connects the official Go SDK's client to our server.
func TestGoSDKClient(t *testing.T) {
	matrix(t, modern, wiretest.Server, goSDKRoutes(modern), map[string]defect{
		"state alone": {
			what: "a result that only asks to come back is taken as final, and empty",
			want: "", legs: 1, asked: 1,
		},
		"resource twice": {
			what: "what took an answer is cached all the same, and the second reading is served " +
				"from there",
			want: "opened: it is tested", legs: 2, asked: 1,
		},
	})
}

// TestGoSDKClientLegacy uses the same client, configured for older revisions.
func TestGoSDKClientLegacy(t *testing.T) {
	for _, revision := range legacy() {
		t.Run(revision, func(t *testing.T) {
			parallelMatrix(t, revision, wiretest.Server, goSDKRoutes(revision), nil)
		})
	}
}

func goSDKRoutes(revision string) []route {
	return []route{
		{"http", func(t *testing.T, who *person, mute bool) (peer, said) {
			endpoint, said := listen(t, servertest.NewHandler(t, newSubject(t), nil))
			return connectGoSDK(t, who, mute, revision,
				&mcp.StreamableClientTransport{Endpoint: endpoint,
					HTTPClient: newHTTPClient(t)}), said
		}},
		{"stream", func(t *testing.T, who *person, mute bool) (peer, said) {
			ours, said := serveSubject(t)
			return connectGoSDK(t, who, mute, revision,
				&mcp.IOTransport{Reader: ours.r, Writer: ours.w}), said
		}},
	}
}

type goSDK struct{ *mcp.ClientSession }

func connectGoSDK(t *testing.T, who *person, mute bool, revision string,
	transport mcp.Transport) peer {
	t.Helper()
	opts := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	if !mute {
		opts = answering(who)
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, opts)
	if !mute {
		roots := strings.Fields(who.answers["roots"])
		who.answers = maps.Clone(who.answers)
		delete(who.answers, "roots") // the client keeps the directories itself
		for _, uri := range roots {
			c.AddRoots(&mcp.Root{URI: uri})
		}
	}
	session, err := c.Connect(within(t, patience), transport,
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	noError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return goSDK{session}
}

func answering(who *person) *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			RootsV2: &mcp.RootCapabilities{},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{},
				URL: &mcp.URLElicitationCapabilities{}},
		},
		ElicitationHandler: func(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult,
			error) {
			action, content := who.elicit(ctx, req.Params.Message, req.Params.URL)
			return &mcp.ElicitResult{Action: action, Content: content}, nil
		},
		CreateMessageHandler: func(_ context.Context,
			req *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			text := who.answer(req.Params.Messages[0].Content.(*mcp.TextContent).Text)
			return &mcp.CreateMessageResult{Role: "assistant", Model: "model-1",
				Content: &mcp.TextContent{Text: text}}, nil
		},
		ProgressNotificationHandler: func(context.Context,
			*mcp.ProgressNotificationClientRequest) {
			who.progress <- struct{}{}
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			who.changed <- struct{}{}
		},
	}
}

func (c goSDK) do(ctx context.Context, r request) (string, error) {
	switch r.Method {
	case protocol.MethodCallTool:
		return c.callTool(ctx, r)
	case protocol.MethodGetPrompt:
		result, err := c.GetPrompt(ctx, &mcp.GetPromptParams{Name: r.Target, Arguments: r.Args})
		if err != nil {
			return "", err
		}
		var blocks []mcp.Content
		for _, m := range result.Messages {
			blocks = append(blocks, m.Content)
		}
		return goSDKText(blocks), nil
	case protocol.MethodReadResource:
		result, err := c.ReadResource(ctx, &mcp.ReadResourceParams{URI: r.Target})
		if err != nil {
			return "", err
		}
		return joined(result.Contents, func(x *mcp.ResourceContents) string { return x.Text }), nil
	case protocol.MethodListTools:
		result, err := c.ListTools(ctx, nil)
		if err != nil {
			return "", err
		}
		return joined(result.Tools, func(x *mcp.Tool) string { return x.Name }), nil
	case protocol.MethodListPrompts:
		result, err := c.ListPrompts(ctx, nil)
		if err != nil {
			return "", err
		}
		return joined(result.Prompts, func(x *mcp.Prompt) string { return x.Name }), nil
	case protocol.MethodListResources:
		result, err := c.ListResources(ctx, nil)
		if err != nil {
			return "", err
		}
		return joined(result.Resources, func(x *mcp.Resource) string { return x.URI }), nil
	case protocol.MethodListResourceTemplates:
		result, err := c.ListResourceTemplates(ctx, nil)
		if err != nil {
			return "", err
		}
		return joined(result.ResourceTemplates,
			func(x *mcp.ResourceTemplate) string { return x.URITemplate }), nil
	}
	return "", fmt.Errorf("method %s: %w", r.Method, errors.ErrUnsupported)
}

func (c goSDK) callTool(ctx context.Context, r request) (string, error) {
	params := &mcp.CallToolParams{Name: r.Target}
	if args := r.arguments(); args != nil { // a nil map in an interface would be sent as null
		params.Arguments = args
	}
	if r.Progress {
		params.SetProgressToken("progress")
	}
	result, err := c.CallTool(ctx, params)
	if err != nil {
		return "", err
	}
	text := goSDKText(result.Content)
	if result.IsError {
		text = "error: " + text
	}
	return text, nil
}

func goSDKText(blocks []mcp.Content) string {
	return joined(blocks, func(block mcp.Content) string {
		if text, ok := block.(*mcp.TextContent); ok {
			return text.Text
		}
		return fmt.Sprintf("%T", block)
	})
}

func joined[E any](list []E, text func(E) string) string {
	var parts []string
	for _, e := range list {
		parts = append(parts, text(e))
	}
	return strings.Join(parts, " ")
}
