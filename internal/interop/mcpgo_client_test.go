package interop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestMCPGoClient connects mcp-go's client to our server.
func TestMCPGoClient(t *testing.T) {
	matrix(t, modern, wiretest.Server, mcpGoRoutes(modern), map[string]defect{
		"cannot be asked": {
			what: "the error does not say what is missing, although the server does: " +
				"requiredCapabilities is not read",
			want: `missing required client capability: ""`, fails: true, legs: 1, asked: 1,
		},
		"cannot visit": {
			what: "as above",
			want: `missing required client capability: ""`, fails: true, legs: 1, asked: 1,
		},
	})
}

// TestMCPGoClientLegacy uses the same client, configured for older revisions.
func TestMCPGoClientLegacy(t *testing.T) {
	for _, revision := range legacy() {
		t.Run(revision, func(t *testing.T) {
			parallelMatrix(t, revision, wiretest.Server, mcpGoRoutes(revision), nil)
		})
	}
}

func mcpGoRoutes(revision string) []route {
	return []route{
		{"http", func(t *testing.T, who *person, mute bool) (peer, said) {
			endpoint, said := listen(t, servertest.NewHandler(t, newSubject(t), nil))
			// The result may overtake an answer. The client then drops the answer and logs that.
			quiet := transport.WithHTTPLogger(slog.New(slog.DiscardHandler))
			over, err := transport.NewStreamableHTTP(endpoint, quiet,
				transport.WithHTTPBasicClient(newHTTPClient(t)))
			noError(t, err)
			return connectMCPGo(t, who, mute, revision, over), said
		}},
		{"stream", func(t *testing.T, who *person, mute bool) (peer, said) {
			ours, said := serveSubject(t)
			return connectMCPGo(t, who, mute, revision,
				transport.NewIO(ours.r, ours.w, io.NopCloser(strings.NewReader("")))), said
		}},
	}
}

type mcpGo struct{ *client.Client }

func connectMCPGo(t *testing.T, who *person, mute bool, revision string,
	over transport.Interface) peer {
	t.Helper()
	opts := []client.ClientOption{client.WithProtocolVersion(revision)}
	if !mute {
		opts = append(opts,
			client.WithElicitationHandler(mcpGoPerson{who}),
			client.WithSamplingHandler(mcpGoPerson{who}), client.WithRootsHandler(mcpGoPerson{who}),
			client.WithClientCapabilities(mcp.ClientCapabilities{
				Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}},
			}),
		)
	}
	c := client.NewClient(over, opts...)
	noError(t, c.Start(t.Context()))
	t.Cleanup(func() { _ = c.Close() })
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		switch n.Method {
		case protocol.NotifyProgress:
			who.progress <- struct{}{}
		case protocol.NotifyToolsChanged:
			who.changed <- struct{}{}
		}
	})
	var hello mcp.InitializeRequest
	hello.Params.ClientInfo = mcp.Implementation{Name: "interop", Version: "1.0.0"}
	if _, err := c.Initialize(within(t, patience), hello); err != nil {
		t.Fatal(err)
	}
	return mcpGo{c}
}

// A mcpGoPerson is the person, in the types of mcp-go's client.
type mcpGoPerson struct{ *person }

func (p mcpGoPerson) Elicit(ctx context.Context,
	r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	action, content := p.elicit(ctx, r.Params.Message, r.Params.URL)
	result := &mcp.ElicitationResult{}
	result.Action = mcp.ElicitationResponseAction(action)
	if content != nil { // a nil map in an interface would be sent as null
		result.Content = content
	}
	return result, nil
}

func (p mcpGoPerson) CreateMessage(_ context.Context,
	r mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	asked, err := textOfBlock(r.Messages[0].Content)
	if err != nil {
		return nil, err
	}
	result := &mcp.CreateMessageResult{Model: "model-1"}
	result.Role, result.Content = mcp.RoleAssistant, mcp.NewTextContent(p.answer(asked))
	return result, nil
}

func (p mcpGoPerson) ListRoots(context.Context,
	mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	result := &mcp.ListRootsResult{}
	for _, uri := range p.roots() {
		result.Roots = append(result.Roots, mcp.Root{URI: uri})
	}
	return result, nil
}

// textOfBlock returns the text of a block, whether it is decoded or not.
func textOfBlock(block any) (string, error) {
	switch block := block.(type) {
	case mcp.TextContent:
		return block.Text, nil
	case map[string]any:
		if text, ok := block["text"].(string); ok {
			return text, nil
		}
	}
	return "", fmt.Errorf("a message with content of type %T", block)
}

func (c mcpGo) do(ctx context.Context, r request) (string, error) {
	switch r.Method {
	case protocol.MethodCallTool:
		return c.callTool(ctx, r)
	case protocol.MethodGetPrompt:
		var params mcp.GetPromptRequest
		params.Params.Name, params.Params.Arguments = r.Target, r.Args
		result, err := c.GetPrompt(ctx, params)
		if err != nil {
			return "", err
		}
		var blocks []mcp.Content
		for _, m := range result.Messages {
			blocks = append(blocks, m.Content)
		}
		return mcpGoText(blocks), nil
	case protocol.MethodReadResource:
		var params mcp.ReadResourceRequest
		params.Params.URI = r.Target
		result, err := c.ReadResource(ctx, params)
		if err != nil {
			return "", err
		}
		return joined(result.Contents, func(x mcp.ResourceContents) string {
			if text, ok := x.(mcp.TextResourceContents); ok {
				return text.Text
			}
			return fmt.Sprintf("%T", x)
		}), nil
	case protocol.MethodListTools:
		result, err := c.ListTools(ctx, mcp.ListToolsRequest{})
		if err != nil {
			return "", err
		}
		return joined(result.Tools, func(x mcp.Tool) string { return x.Name }), nil
	case protocol.MethodListPrompts:
		result, err := c.ListPrompts(ctx, mcp.ListPromptsRequest{})
		if err != nil {
			return "", err
		}
		return joined(result.Prompts, func(x mcp.Prompt) string { return x.Name }), nil
	case protocol.MethodListResources:
		result, err := c.ListResources(ctx, mcp.ListResourcesRequest{})
		if err != nil {
			return "", err
		}
		return joined(result.Resources, func(x mcp.Resource) string { return x.URI }), nil
	case protocol.MethodListResourceTemplates:
		result, err := c.ListResourceTemplates(ctx, mcp.ListResourceTemplatesRequest{})
		if err != nil {
			return "", err
		}
		return joined(result.ResourceTemplates,
			func(x mcp.ResourceTemplate) string { return x.URITemplate.Raw() }), nil
	}
	return "", fmt.Errorf("method %s: %w", r.Method, errors.ErrUnsupported)
}

func (c mcpGo) callTool(ctx context.Context, r request) (string, error) {
	var params mcp.CallToolRequest
	params.Params.Name = r.Target
	if args := r.arguments(); args != nil {
		params.Params.Arguments = args
	}
	if r.Progress {
		params.Params.Meta = &mcp.Meta{ProgressToken: "progress"}
	}
	result, err := c.CallTool(ctx, params)
	if err != nil {
		return "", err
	}
	text := mcpGoText(result.Content)
	if result.IsError {
		text = "error: " + text
	}
	return text, nil
}

func mcpGoText(blocks []mcp.Content) string {
	return joined(blocks, func(block mcp.Content) string {
		if text, ok := block.(mcp.TextContent); ok {
			return text.Text
		}
		return fmt.Sprintf("%T", block)
	})
}
