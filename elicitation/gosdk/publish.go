package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/upstream"
)

// PublishTools adds the tools of the upstream to the gateway's server, under the names that
// rename returns, nil: their own. When the upstream reports that they have changed, and after
// a loss of the connection, it lists them again, and the server tells its clients. The
// connection declares both modes of elicitation: some upstreams hide tools that ask from
// clients that cannot be asked. It is called once. Tools that the SDK's server does not accept, and
// those whose name another upstream has taken, are left out, and named in the error; the others are
// published. One of the host's own with the same name would be replaced: rename to other names.
//
// An upstream that is down need not be the end of the gateway: PublishTools returns the error and
// tries again in the background, after a second, and then after twice the time up to a minute,
// until [Upstream.Close].
func (u *Upstream) PublishTools(ctx context.Context, server *mcp.Server,
	rename func(tool string) string) error {
	return publish(ctx, u, server, &published[mcp.Tool]{
		kind: upstream.Tools,
		list: func(ctx context.Context, on *mcp.ClientSession) iter.Seq2[*mcp.Tool, error] {
			if capabilitiesOf(on).Tools == nil {
				return nil
			}
			return on.Tools(ctx, nil)
		},
		name: func(t *mcp.Tool) *string { return &t.Name }, rename: rename,
		add: func(t *mcp.Tool, name string) {
			if t.InputSchema == nil {
				t.InputSchema = json.RawMessage(`{"type":"object"}`)
			}
			server.AddTool(t, func(ctx context.Context,
				req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return u.CallTool(ctx, req, name)
			})
		},
		remove: func(name string) { server.RemoveTools(name) },
	})
}

// PublishPrompts does for the prompts of the upstream what [Upstream.PublishTools] does for its
// tools. Completion of their arguments is not passed on.
func (u *Upstream) PublishPrompts(ctx context.Context, server *mcp.Server,
	rename func(prompt string) string) error {
	return publish(ctx, u, server, &published[mcp.Prompt]{
		kind: upstream.Prompts,
		list: func(ctx context.Context, on *mcp.ClientSession) iter.Seq2[*mcp.Prompt, error] {
			if capabilitiesOf(on).Prompts == nil {
				return nil
			}
			return on.Prompts(ctx, nil)
		},
		name: func(p *mcp.Prompt) *string { return &p.Name }, rename: rename,
		add: func(p *mcp.Prompt, name string) {
			server.AddPrompt(p, func(ctx context.Context,
				req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return u.GetPrompt(ctx, req, name)
			})
		},
		remove: func(name string) { server.RemovePrompts(name) },
	})
}

// PublishResources does for the resources and the resource templates of the upstream what
// [Upstream.PublishTools] does for its tools. They keep their URIs: where two upstreams have the
// same one, the first that is published serves it. Completion and subscriptions are not passed on.
func (u *Upstream) PublishResources(ctx context.Context, server *mcp.Server) error {
	read := func(ctx context.Context, req *mcp.ReadResourceRequest) (
		*mcp.ReadResourceResult, error) {
		return u.ReadResource(ctx, req, req.Params.URI)
	}
	return errors.Join(publish(ctx, u, server, &published[mcp.Resource]{
		kind: upstream.Resources,
		list: func(ctx context.Context, on *mcp.ClientSession) iter.Seq2[*mcp.Resource, error] {
			if capabilitiesOf(on).Resources == nil {
				return nil
			}
			return on.Resources(ctx, nil)
		},
		name:   func(r *mcp.Resource) *string { return &r.URI },
		add:    func(r *mcp.Resource, _ string) { server.AddResource(r, read) },
		remove: func(uri string) { server.RemoveResources(uri) },
	}), publish(ctx, u, server, &published[mcp.ResourceTemplate]{
		kind: upstream.ResourceTemplates,
		list: func(ctx context.Context, on *mcp.ClientSession) iter.Seq2[*mcp.ResourceTemplate,
			error] {
			if capabilitiesOf(on).Resources == nil {
				return nil
			}
			return on.ResourceTemplates(ctx, nil)
		},
		name:   func(r *mcp.ResourceTemplate) *string { return &r.URITemplate },
		add:    func(r *mcp.ResourceTemplate, _ string) { server.AddResourceTemplate(r, read) },
		remove: func(template string) { server.RemoveResourceTemplates(template) },
	}))
}

// A published says how a list of the upstream is published. Item is the SDK's type of what is in
// it.
type published[Item any] struct {
	kind upstream.Kind
	// list lists the items, nil: the upstream has no such list.
	list func(ctx context.Context, on *mcp.ClientSession) iter.Seq2[*Item, error]
	// name returns where an item has its name or URI.
	name   func(*Item) *string
	rename func(string) string // nil: names stay
	// add adds an item to the gateway's server, and panics where the SDK does not accept it. name
	// is the one that the upstream knows.
	add    func(item *Item, name string)
	remove func(name string) // removes it
}

// publish publishes a list of the upstream.
func publish[Item any](ctx context.Context, u *Upstream, at *mcp.Server,
	p *published[Item]) error {
	refused, err := u.conns.Lists.Publish(ctx, upstream.ListOptions{
		Kind: p.kind, Remove: p.remove, Names: &u.clients.names, Server: at,
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
	conn, err := u.listingConn(ctx)
	if err != nil {
		return nil, err
	}
	list := p.list(ctx, conn.session)
	if list == nil {
		return nil, nil
	}
	for item, err := range list {
		if err != nil {
			return nil, fmt.Errorf("elicitation upstream: listing %ss: %w", p.kind, err)
		}
		publishable, err := upstream.NewItem(p.kind, *item, p.name, p.rename, p.add)
		if err != nil {
			return nil, err
		}
		items = append(items, publishable)
		if err := upstream.CheckCount(p.kind, len(items)); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// capabilitiesOf returns what the upstream declares. It may have said nothing.
func capabilitiesOf(session *mcp.ClientSession) *mcp.ServerCapabilities {
	if r := session.InitializeResult(); r != nil && r.Capabilities != nil {
		return r.Capabilities
	}
	return &mcp.ServerCapabilities{}
}

// listingConn returns the connection on which lists are read, and changes of them reported.
func (u *Upstream) listingConn(ctx context.Context) (*upstreamConn, error) {
	conn, err := u.conns.Standing(ctx)
	if err == nil {
		conn.lists.Store(true)
	}
	return conn, err
}
