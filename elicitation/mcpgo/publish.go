package mcpgo

import (
	"context"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

// PublishTools adds the tools of the upstream to the gateway's server, under the names that
// rename returns, nil: their own. When the upstream reports that they have changed, and after it
// has lost a session, it lists them again, and the server tells its clients. Over HTTP an
// upstream says so on the standing stream of a connection (transport.WithContinuousListening), and
// on those of calls. The connection on which tools are listed declares both modes of
// elicitation: some upstreams hide tools that ask from clients that cannot be asked. PublishTools
// is called once. Tools that mcp-go's server does not accept, and those whose name another upstream
// has taken, are left out, and named in the error; the others are published. One of the host's own
// with the same name would be replaced: rename to other names.
//
// An upstream that is down need not be the end of the gateway: PublishTools returns the error and
// tries again in the background, after a second, and then after twice the time up to a minute,
// until [Upstream.Close].
// mcp-go's server lists tools from the first one on; clients that have connected before are told
// only if it was made with server.WithToolCapabilities(true).
func (u *Upstream) PublishTools(ctx context.Context, rename func(tool string) string) error {
	return publish(ctx, u, &published[mcp.Tool]{
		kind: upstream.Tools,
		list: func(ctx context.Context, on *client.Client, page mcp.PaginatedRequest) ([]mcp.Tool,
			mcp.Cursor, error) {
			if on.GetServerCapabilities().Tools == nil {
				return nil, "", nil
			}
			r, err := on.ListToolsByPage(ctx, mcp.ListToolsRequest{PaginatedRequest: page})
			if err != nil {
				return nil, "", err
			}
			return r.Tools, r.NextCursor, nil
		},
		name: func(t *mcp.Tool) *string { return &t.Name }, rename: rename,
		add: func(t *mcp.Tool, name string) {
			u.clients.server.AddTool(*t, func(ctx context.Context,
				r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return u.CallTool(ctx, r, name)
			})
		},
		remove: func(name string) { u.clients.server.DeleteTools(name) },
	})
}

// PublishPrompts does for the prompts of the upstream what [Upstream.PublishTools] does for its
// tools. mcp-go's server tells clients of changes only if it was made with
// server.WithPromptCapabilities(true). Completion of arguments is not passed on.
func (u *Upstream) PublishPrompts(ctx context.Context, rename func(prompt string) string) error {
	return publish(ctx, u, &published[mcp.Prompt]{
		kind: upstream.Prompts,
		list: func(ctx context.Context, on *client.Client, page mcp.PaginatedRequest) ([]mcp.Prompt,
			mcp.Cursor, error) {
			if on.GetServerCapabilities().Prompts == nil {
				return nil, "", nil
			}
			r, err := on.ListPromptsByPage(ctx, mcp.ListPromptsRequest{PaginatedRequest: page})
			if err != nil {
				return nil, "", err
			}
			return r.Prompts, r.NextCursor, nil
		},
		name: func(p *mcp.Prompt) *string { return &p.Name }, rename: rename,
		add: func(p *mcp.Prompt, name string) {
			u.clients.server.AddPrompt(*p, func(ctx context.Context,
				r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return u.GetPrompt(ctx, r, name)
			})
		},
		remove: func(name string) { u.clients.server.DeletePrompts(name) },
	})
}

// PublishResources does for the resources and the resource templates of the upstream what
// [Upstream.PublishTools] does for its tools. They keep their URIs: where two upstreams have the
// same one, the first that is published serves it. mcp-go's server cannot remove a template: one
// that the upstream has no more stays, and its resources are answered with the upstream's error.
// mcp-go's server tells clients of changes only if it was made with
// server.WithResourceCapabilities(false, true). Completion and subscriptions are not passed on.
func (u *Upstream) PublishResources(ctx context.Context) error {
	read := func(ctx context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return u.ReadResource(ctx, r, r.Params.URI)
	}
	return errors.Join(publish(ctx, u, &published[mcp.Resource]{
		kind: upstream.Resources,
		list: func(ctx context.Context, on *client.Client, page mcp.PaginatedRequest) (
			[]mcp.Resource, mcp.Cursor, error) {
			if on.GetServerCapabilities().Resources == nil {
				return nil, "", nil
			}
			r, err := on.ListResourcesByPage(ctx, mcp.ListResourcesRequest{PaginatedRequest: page})
			if err != nil {
				return nil, "", err
			}
			return r.Resources, r.NextCursor, nil
		},
		name:   func(r *mcp.Resource) *string { return &r.URI },
		add:    func(r *mcp.Resource, _ string) { u.clients.server.AddResource(*r, read) },
		remove: func(uri string) { u.clients.server.DeleteResources(uri) },
	}), publish(ctx, u, &published[listedTemplate]{
		kind: upstream.ResourceTemplates,
		list: listTemplates,
		name: func(t *listedTemplate) *string { return &t.uri },
		add: func(t *listedTemplate, _ string) {
			u.clients.server.AddResourceTemplate(t.ResourceTemplate, read)
		},
		remove: func(string) {},
	}))
}

// A listedTemplate is a resource template and its URI as text.
type listedTemplate struct {
	mcp.ResourceTemplate
	uri string
}

// listTemplates returns the resource templates of an upstream that have a URI: with one that has
// none mcp-go's server would stop.
func listTemplates(ctx context.Context, on *client.Client, page mcp.PaginatedRequest) (
	found []listedTemplate, next mcp.Cursor, err error) {
	if on.GetServerCapabilities().Resources == nil {
		return nil, "", nil
	}
	r, err := on.ListResourceTemplatesByPage(ctx,
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
}

// A published says how a list of the upstream is published. Item is the type of what is in it.
type published[Item any] struct {
	kind upstream.Kind
	// list returns a page of the list, and where the next one begins, "": it was the last.
	list func(ctx context.Context, on *client.Client, page mcp.PaginatedRequest) ([]Item,
		mcp.Cursor, error)
	// name returns where an item has its name or URI.
	name   func(*Item) *string
	rename func(string) string // nil: names stay
	// add adds an item to the gateway's server, and may panic where mcp-go does not accept it. name
	// is the one that the upstream knows.
	add    func(item *Item, name string)
	remove func(name string) // removes it
}

// publish publishes a list of the upstream.
func publish[Item any](ctx context.Context, u *Upstream, p *published[Item]) error {
	refused, err := u.conns.Lists.Publish(ctx, upstream.ListOptions{
		Kind: p.kind, Remove: p.remove, Names: &u.clients.names,
		Warn: u.opts.Warn,
		Find: func(ctx context.Context) ([]upstream.Item, error) {
			return findItems(ctx, u, p)
		},
	})
	return errors.Join(err, refused)
}

// findItems returns what the upstream lists, for the gateway's server.
func findItems[Item any](ctx context.Context, u *Upstream, p *published[Item]) (
	items []upstream.Item, err error) {
	conn, release, err := u.conns.Acquire(ctx, upstream.Modes{Form: true, URL: true},
		protocol.Principal{})
	if err != nil {
		return nil, err
	}
	found, err := listAll(ctx, conn.client, p)
	if isSessionLost(err) {
		conn.ended.Store(true)
	}
	release(err == nil)
	if err != nil {
		return nil, err
	}
	for _, item := range found {
		publishable, err := upstream.NewItem(p.kind, item, p.name, p.rename, p.add)
		if err != nil {
			return nil, err
		}
		items = append(items, publishable)
	}
	return items, nil
}

// listAll returns all pages of a list of the upstream.
func listAll[Item any](ctx context.Context, on *client.Client, p *published[Item]) (
	all []Item, err error) {
	var page mcp.PaginatedRequest
	for {
		found, next, err := p.list(ctx, on, page)
		if err != nil {
			return nil, fmt.Errorf("elicitation upstream: listing %ss: %w", p.kind, err)
		}
		all = append(all, found...)
		if err := upstream.CheckCount(p.kind, len(all)); err != nil || next == "" {
			return all, err
		}
		page.Params.Cursor = next
	}
}
