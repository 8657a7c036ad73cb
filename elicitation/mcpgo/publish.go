package mcpgo

import (
	"context"
	"errors"
	"iter"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

// Publish adds the tools, prompts, resources and resource templates of the upstream to the
// gateway's server, under the names that [UpstreamOptions] gives them. When the upstream reports
// that they have changed, and after it has lost a session, it lists them again. Over HTTP an
// upstream says so on the standing stream of a connection (transport.WithContinuousListening), and
// on those of calls. The connection on which lists are read declares both modes of elicitation:
// some upstreams hide tools that ask from clients that cannot be asked. Publish is called once.
// What mcp-go's server does not accept is left out, and named in the error; the rest is published.
// What the host has under such a name itself would be replaced.
//
// An upstream that is down need not be the end of the gateway: Publish returns the error and tries
// again in the background, after a second, and then after twice the time up to a minute, until
// [Upstream.Close].
//
// mcp-go's server has a kind of list from its first item on. It tells clients of changes only if it
// was made with server.WithToolCapabilities(true), WithPromptCapabilities(true) and
// WithResourceCapabilities(false, true). It cannot remove a template: one that the upstream has no
// more stays, and its resources are answered with the upstream's error.
func (u *Upstream) Publish(ctx context.Context) error {
	at := u.clients.server
	read := func(ctx context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		own, _ := u.conns.Names().OwnURI(r.Params.URI)
		return u.ReadResource(ctx, r, own)
	}
	return errors.Join(upstream.Publish(ctx, u.conns, &upstream.Listing[*upstreamConn, mcp.Tool]{
		Kind: upstream.Tools, All: listTools,
		Name: func(t *mcp.Tool) *string { return &t.Name },
		Add: func(t *mcp.Tool, own string) {
			at.AddTool(*t, func(ctx context.Context,
				r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return u.CallTool(ctx, r, own)
			})
		},
		Remove: func(name string) { at.DeleteTools(name) },
	}), upstream.Publish(ctx, u.conns, &upstream.Listing[*upstreamConn, mcp.Prompt]{
		Kind: upstream.Prompts, All: listPrompts,
		Name: func(p *mcp.Prompt) *string { return &p.Name },
		Add: func(p *mcp.Prompt, own string) {
			at.AddPrompt(*p, func(ctx context.Context,
				r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return u.GetPrompt(ctx, r, own)
			})
		},
		Remove: func(name string) { at.DeletePrompts(name) },
	}), upstream.Publish(ctx, u.conns, &upstream.Listing[*upstreamConn, mcp.Resource]{
		Kind: upstream.Resources, All: listResources,
		Name:   func(r *mcp.Resource) *string { return &r.URI },
		Add:    func(r *mcp.Resource, _ string) { at.AddResource(*r, read) },
		Remove: func(uri string) { at.DeleteResources(uri) },
	}), upstream.Publish(ctx, u.conns, &upstream.Listing[*upstreamConn, listedTemplate]{
		Kind: upstream.ResourceTemplates, All: listTemplates,
		Name: func(t *listedTemplate) *string { return &t.uri },
		Add: func(t *listedTemplate, _ string) {
			t.URITemplate = mcp.NewResourceTemplate(t.uri, t.Name).URITemplate
			at.AddResourceTemplate(t.ResourceTemplate, read)
		},
		Remove: func(string) {},
	}))
}

func listTools(ctx context.Context, on *upstreamConn) iter.Seq2[*mcp.Tool, error] {
	return pages(on.client.GetServerCapabilities().Tools != nil,
		func(page mcp.PaginatedRequest) ([]mcp.Tool, mcp.Cursor, error) {
			r, err := on.client.ListToolsByPage(ctx, mcp.ListToolsRequest{PaginatedRequest: page})
			if err != nil {
				return nil, "", err
			}
			return r.Tools, r.NextCursor, nil
		})
}

func listPrompts(ctx context.Context, on *upstreamConn) iter.Seq2[*mcp.Prompt, error] {
	return pages(on.client.GetServerCapabilities().Prompts != nil,
		func(page mcp.PaginatedRequest) ([]mcp.Prompt, mcp.Cursor, error) {
			r, err := on.client.ListPromptsByPage(ctx,
				mcp.ListPromptsRequest{PaginatedRequest: page})
			if err != nil {
				return nil, "", err
			}
			return r.Prompts, r.NextCursor, nil
		})
}

func listResources(ctx context.Context, on *upstreamConn) iter.Seq2[*mcp.Resource, error] {
	return pages(on.client.GetServerCapabilities().Resources != nil,
		func(page mcp.PaginatedRequest) ([]mcp.Resource, mcp.Cursor, error) {
			r, err := on.client.ListResourcesByPage(ctx,
				mcp.ListResourcesRequest{PaginatedRequest: page})
			if err != nil {
				return nil, "", err
			}
			return r.Resources, r.NextCursor, nil
		})
}

// A listedTemplate is a resource template and its URI as text.
type listedTemplate struct {
	mcp.ResourceTemplate
	uri string
}

// listTemplates lists the resource templates that have a URI: with one that has none mcp-go's
// server would stop.
func listTemplates(ctx context.Context, on *upstreamConn) iter.Seq2[*listedTemplate, error] {
	return pages(on.client.GetServerCapabilities().Resources != nil,
		func(page mcp.PaginatedRequest) (found []listedTemplate, next mcp.Cursor, err error) {
			r, err := on.client.ListResourceTemplatesByPage(ctx,
				mcp.ListResourceTemplatesRequest{PaginatedRequest: page})
			if err != nil {
				return nil, "", err
			}
			for _, t := range r.ResourceTemplates {
				if t.URITemplate != nil && t.URITemplate.Template != nil {
					found = append(found, listedTemplate{t, t.URITemplate.Raw()})
				}
			}
			return found, r.NextCursor, nil
		})
}

// pages returns the items of all pages of a list, nil if the upstream has no such list. read
// returns a page, and where the next one begins.
func pages[T any](has bool, read func(mcp.PaginatedRequest) ([]T, mcp.Cursor, error),
) iter.Seq2[*T, error] {
	if !has {
		return nil
	}
	return func(yield func(*T, error) bool) {
		var page mcp.PaginatedRequest
		for {
			found, next, err := read(page)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range found {
				if !yield(&found[i], nil) {
					return
				}
			}
			if next == "" {
				return
			}
			page.Params.Cursor = next
		}
	}
}

// readLists calls read with a connection on which lists are read.
func (u *Upstream) readLists(ctx context.Context, read func(*upstreamConn) error) error {
	conn, release, err := u.conns.Acquire(ctx, upstream.Modes{Form: true, URL: true},
		protocol.Principal{})
	if err != nil {
		return err
	}
	err = read(conn)
	if isSessionLost(err) {
		conn.ended.Store(true)
	}
	release(err == nil)
	return err
}

// publishResource returns the contents of a resource with the URI under which it is published.
func (u *Upstream) publishResource(contents mcp.ResourceContents) mcp.ResourceContents {
	switch c := contents.(type) {
	case mcp.TextResourceContents:
		c.URI = u.conns.Names().PublishURI(c.URI)
		return c
	case mcp.BlobResourceContents:
		c.URI = u.conns.Names().PublishURI(c.URI)
		return c
	}
	return contents
}

// publishContent returns a block of a result with the URIs under which resources are published.
func (u *Upstream) publishContent(block mcp.Content) mcp.Content {
	switch b := block.(type) {
	case mcp.ResourceLink:
		b.URI = u.conns.Names().PublishURI(b.URI)
		return b
	case mcp.EmbeddedResource:
		b.Resource = u.publishResource(b.Resource)
		return b
	}
	return block
}
