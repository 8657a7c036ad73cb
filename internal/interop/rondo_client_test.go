package interop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
)

type rondo struct {
	*client.Client
	who *person
}

type dialer func(t *testing.T, endpoint string, who *person, mute bool) peer

// dialRondo connects our client, which negotiates the revision.
func dialRondo(t *testing.T, endpoint string, who *person, mute bool) peer {
	return connectRondo(t, over(t, endpoint), who, mute)
}

func dialRondoLegacy(t *testing.T, endpoint string, who *person, mute bool) peer {
	return connectRondoLegacy(t, over(t, endpoint), who, mute)
}

func over(t *testing.T, endpoint string) protocol.Peer {
	t.Helper()
	transport, err := clienthttp.New(endpoint, nil)
	noError(t, err)
	return transport
}

func connectRondo(t *testing.T, transport protocol.Peer, who *person, mute bool) peer {
	return newRondo(t, transport, who, mute, &client.Options{Timeout: patience})
}

// connectRondoLegacy makes our client open a session, although the server is also a modern one.
func connectRondoLegacy(t *testing.T, transport protocol.Peer, who *person, mute bool) peer {
	return newRondo(t, transport, who, mute,
		&client.Options{Timeout: patience, Era: protocol.Legacy})
}

// overLines connects our client to the other end of a stream, with enough time for the probe.
func overLines(r io.ReadCloser, w io.WriteCloser) protocol.Peer {
	return client.NewStream(r, w, &client.StreamOptions{ProbeTimeout: patience})
}

func newRondo(t *testing.T, transport protocol.Peer, who *person, mute bool,
	opts *client.Options) peer {
	if !mute {
		opts.ElicitForm = func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			return who.result(ctx, q.Message, "")
		}
		opts.ElicitURL = func(ctx context.Context, q *client.URLQuestion) (*protocol.ElicitResult,
			error) {
			return who.result(ctx, q.Message, q.URL)
		}
		opts.CreateMessage = func(_ context.Context,
			q *client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			text := who.answer(textOf(q.Request.Messages[0].Content))
			return &protocol.CreateMessageResult{Role: protocol.Assistant, Model: "model-1",
				Content: []protocol.Content{&protocol.TextContent{Text: text}}}, nil
		}
		opts.ListRoots = func(context.Context, *client.RootsQuestion) (roots []protocol.Root,
			_ error) {
			for _, uri := range who.roots() {
				roots = append(roots, protocol.Root{URI: uri})
			}
			return roots, nil
		}
	}
	c, err := client.New(transport, opts)
	noError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return rondo{c, who}
}

func (p *person) result(ctx context.Context, question, url string) (*protocol.ElicitResult, error) {
	switch action, content := p.elicit(ctx, question, url); action {
	case "decline":
		return client.Decline(), nil
	case "cancel":
		return client.Cancel(), nil
	default:
		return client.Accept(content)
	}
}

func (c rondo) do(ctx context.Context, r request) (string, error) {
	switch r.Method {
	case protocol.MethodCallTool:
		return c.callTool(ctx, r)
	case protocol.MethodGetPrompt:
		result, err := c.GetPrompt(ctx, r.Target, r.Args)
		if err != nil {
			return "", err
		}
		var blocks []protocol.Content
		for _, m := range result.Messages {
			blocks = append(blocks, m.Content)
		}
		return textOf(blocks), nil
	case protocol.MethodReadResource:
		result, err := c.ReadResource(ctx, r.Target)
		if err != nil {
			return "", err
		}
		return joined(result.Contents, func(x protocol.ResourceContents) string { return x.Text }),
			nil
	case protocol.MethodListTools:
		result, err := c.ListTools(ctx, "")
		if err != nil {
			return "", err
		}
		return joined(result.Tools, func(x protocol.Tool) string { return x.Name }), nil
	case protocol.MethodListPrompts:
		result, err := c.ListPrompts(ctx, "")
		if err != nil {
			return "", err
		}
		return joined(result.Prompts, func(x protocol.Prompt) string { return x.Name }), nil
	case protocol.MethodListResources:
		result, err := c.ListResources(ctx, "")
		if err != nil {
			return "", err
		}
		return joined(result.Resources, func(x protocol.Resource) string { return x.URI }), nil
	case protocol.MethodListResourceTemplates:
		result, err := c.ListResourceTemplates(ctx, "")
		if err != nil {
			return "", err
		}
		return joined(result.ResourceTemplates,
			func(x protocol.ResourceTemplate) string { return x.URITemplate }), nil
	}
	return "", fmt.Errorf("method %s: %w", r.Method, errors.ErrUnsupported)
}

func (c rondo) callTool(ctx context.Context, r request) (string, error) {
	if r.Progress {
		ctx = client.WithProgress(ctx,
			func(context.Context, *protocol.Progress) { c.who.progress <- struct{}{} })
	}
	var args any
	if given := r.arguments(); given != nil {
		args = given
	}
	result, err := c.CallTool(ctx, r.Target, args)
	if err != nil {
		return "", err
	}
	text := textOf(result.Content)
	if result.IsError {
		text = "error: " + text
	}
	return text, nil
}
