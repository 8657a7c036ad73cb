//lint:file-ignore SA1019 sampling and roots are deprecated, but supported, so they are tested

package mcpgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	hostclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
)

// rondo's own client.
type rondoPeer struct{ *client.Client }

func dialRondo(t *testing.T, endpoint, revision string, who *person) peer {
	t.Helper()
	over, err := clienthttp.New(endpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	return newRondo(t, over, revision, who)
}

func openRondo(t *testing.T, r io.ReadCloser, w io.WriteCloser, revision string, who *person) peer {
	return newRondo(t, client.NewStream(r, w, nil), revision, who)
}

func newRondo(t *testing.T, over protocol.Peer, revision string, who *person) peer {
	opts := &client.Options{Timeout: 10 * time.Second}
	if revision != modern {
		opts.Era = protocol.Legacy
	}
	if !who.mute {
		opts.ElicitForm = func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			action, content := who.answer(q.Message)
			return &protocol.ElicitResult{Action: protocol.ElicitAction(action), Content: content},
				nil
		}
		opts.ElicitURL = func(_ context.Context, q *client.URLQuestion) (*protocol.ElicitResult,
			error) {
			action, _ := who.answer(q.Message)
			return &protocol.ElicitResult{Action: protocol.ElicitAction(action)}, nil
		}
		opts.CreateMessage = func(context.Context,
			*client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			who.note("sampling")
			return &protocol.CreateMessageResult{Role: protocol.Assistant, Model: "m",
				Content: []protocol.Content{&protocol.TextContent{Text: summary}}}, nil
		}
		opts.ListRoots = func(context.Context, *client.RootsQuestion) ([]protocol.Root, error) {
			return []protocol.Root{{URI: rootURI}}, nil
		}
	}
	c, err := client.New(over, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return rondoPeer{c}
}

func (c rondoPeer) tool(ctx context.Context, name string, args map[string]any) (string, error) {
	var given any
	if args != nil {
		given = args
	}
	result, err := c.CallTool(ctx, name, given)
	if err != nil {
		return "", err
	}
	return spell(result.IsError, result.Content...), nil
}

func (c rondoPeer) prompt(ctx context.Context, name string) (string, error) {
	result, err := c.GetPrompt(ctx, name, nil)
	if err != nil {
		return "", err
	}
	return spell(false, result.Messages[0].Content), nil
}

func (c rondoPeer) resource(ctx context.Context, uri string) (string, error) {
	result, err := c.ReadResource(ctx, uri)
	if err != nil {
		return "", err
	}
	return result.Contents[0].Text, nil
}

// spell returns the text of blocks of any make.
func spell[B any](failed bool, blocks ...B) string {
	var texts []string
	for _, b := range blocks {
		switch b := any(b).(type) {
		case *protocol.TextContent:
			texts = append(texts, b.Text)
		case mcp.TextContent:
			texts = append(texts, b.Text)
		default:
			texts = append(texts, fmt.Sprintf("%T", b))
		}
	}
	if failed {
		return "error: " + strings.Join(texts, " ")
	}
	return strings.Join(texts, " ")
}

// mcp-go's client.
type hostPeer struct{ *hostclient.Client }

func dialHost(t *testing.T, endpoint, revision string, who *person) peer {
	t.Helper()
	opts := []transport.StreamableHTTPCOption{
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler))}
	if revision != modern { // whose sampling requests come on a stream of their own
		opts = append(opts, transport.WithContinuousListening())
	}
	over, err := transport.NewStreamableHTTP(endpoint, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return newHost(t, over, revision, who)
}

func openHost(t *testing.T, r io.ReadCloser, w io.WriteCloser, revision string, who *person) peer {
	return newHost(t, transport.NewIO(r, w, io.NopCloser(strings.NewReader(""))), revision, who)
}

func newHost(t *testing.T, over transport.Interface, revision string, who *person) peer {
	t.Helper()
	opts := []hostclient.ClientOption{hostclient.WithProtocolVersion(revision)}
	if !who.mute {
		h := hostPerson{who}
		opts = append(opts, hostclient.WithElicitationHandler(h), hostclient.WithSamplingHandler(h),
			hostclient.WithRootsHandler(h),
			hostclient.WithClientCapabilities(mcp.ClientCapabilities{
				Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}}))
	}
	c := hostclient.NewClient(over, opts...)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	var hello mcp.InitializeRequest
	hello.Params.ClientInfo = mcp.Implementation{Name: "test", Version: "1"}
	if _, err := c.Initialize(within(t), hello); err != nil {
		t.Fatal(err)
	}
	return hostPeer{c}
}

type hostPerson struct{ *person }

func (p hostPerson) Elicit(_ context.Context,
	r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	action, content := p.answer(r.Params.Message)
	result := &mcp.ElicitationResult{}
	result.Action = mcp.ElicitationResponseAction(action)
	if content != nil && r.Params.Mode != mcp.ElicitationModeURL {
		var v map[string]any
		if err := json.Unmarshal(content, &v); err != nil {
			return nil, err
		}
		result.Content = v
	}
	return result, nil
}

func (p hostPerson) CreateMessage(context.Context,
	mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	p.note("sampling")
	result := &mcp.CreateMessageResult{Model: "m"}
	result.Role, result.Content = mcp.RoleAssistant, mcp.NewTextContent(summary)
	return result, nil
}

func (p hostPerson) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: rootURI}}}, nil
}

func (c hostPeer) tool(ctx context.Context, name string, args map[string]any) (string, error) {
	var r mcp.CallToolRequest
	r.Params.Name = name
	if args != nil {
		r.Params.Arguments = args
	}
	result, err := c.CallTool(ctx, r)
	if err != nil {
		return "", err
	}
	return spell(result.IsError, result.Content...), nil
}

func (c hostPeer) prompt(ctx context.Context, name string) (string, error) {
	var r mcp.GetPromptRequest
	r.Params.Name = name
	result, err := c.GetPrompt(ctx, r)
	if err != nil {
		return "", err
	}
	return spell(false, result.Messages[0].Content), nil
}

func (c hostPeer) resource(ctx context.Context, uri string) (string, error) {
	var r mcp.ReadResourceRequest
	r.Params.URI = uri
	result, err := c.ReadResource(ctx, r)
	if err != nil {
		return "", err
	}
	text, ok := result.Contents[0].(mcp.TextResourceContents)
	if !ok {
		return "", fmt.Errorf("contents of type %T", result.Contents[0])
	}
	return text.Text, nil
}
