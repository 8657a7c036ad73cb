package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/upstream"
)

// Publish adds the tools, prompts, resources and resource templates of the upstream to the
// gateway's server, under the names that [UpstreamOptions] gives them. When the upstream reports
// that they have changed, and after a loss of the connection, it lists them again, and the server
// tells its clients. The connection declares both modes of elicitation: some upstreams hide tools
// that ask from clients that cannot be asked. It is called once. What the SDK's server does not
// accept is left out, and named in the error; the rest is published. What the host has under such a
// name itself would be replaced.
//
// An upstream that is down need not be the end of the gateway: Publish returns the error and
// tries again in the background, after a second, and then after twice the time up to a minute,
// until [Upstream.Close].
func (u *Upstream) Publish(ctx context.Context, server *mcp.Server) error {
	read := func(ctx context.Context, req *mcp.ReadResourceRequest) (
		*mcp.ReadResourceResult, error) {
		own, _ := u.conns.Names().OwnURI(req.Params.URI)
		return u.ReadResource(ctx, req, own)
	}
	return errors.Join(upstream.Publish(ctx, u.conns, &upstream.Listing[*upstreamConn, mcp.Tool]{
		Kind: upstream.Tools,
		All: func(ctx context.Context, on *upstreamConn) iter.Seq2[*mcp.Tool, error] {
			return listIf(on.declares().Tools != nil, on.session.Tools(ctx, nil))
		},
		Name: func(t *mcp.Tool) *string { return &t.Name },
		Add: func(t *mcp.Tool, own string) {
			if t.InputSchema == nil {
				t.InputSchema = json.RawMessage(`{"type":"object"}`)
			}
			server.AddTool(t, func(ctx context.Context,
				req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return u.CallTool(ctx, req, own)
			})
		},
		Remove: func(name string) { server.RemoveTools(name) },
	}), upstream.Publish(ctx, u.conns, &upstream.Listing[*upstreamConn, mcp.Prompt]{
		Kind: upstream.Prompts,
		All: func(ctx context.Context, on *upstreamConn) iter.Seq2[*mcp.Prompt, error] {
			return listIf(on.declares().Prompts != nil, on.session.Prompts(ctx, nil))
		},
		Name: func(p *mcp.Prompt) *string { return &p.Name },
		Add: func(p *mcp.Prompt, own string) {
			server.AddPrompt(p, func(ctx context.Context,
				req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return u.GetPrompt(ctx, req, own)
			})
		},
		Remove: func(name string) { server.RemovePrompts(name) },
	}), upstream.Publish(ctx, u.conns, &upstream.Listing[*upstreamConn, mcp.Resource]{
		Kind: upstream.Resources,
		All: func(ctx context.Context, on *upstreamConn) iter.Seq2[*mcp.Resource, error] {
			return listIf(on.declares().Resources != nil, on.session.Resources(ctx, nil))
		},
		Name:   func(r *mcp.Resource) *string { return &r.URI },
		Add:    func(r *mcp.Resource, _ string) { server.AddResource(r, read) },
		Remove: func(uri string) { server.RemoveResources(uri) },
	}), upstream.Publish(ctx, u.conns, &upstream.Listing[*upstreamConn, mcp.ResourceTemplate]{
		Kind: upstream.ResourceTemplates,
		All: func(ctx context.Context, on *upstreamConn) iter.Seq2[*mcp.ResourceTemplate, error] {
			return listIf(on.declares().Resources != nil, on.session.ResourceTemplates(ctx, nil))
		},
		Name:   func(r *mcp.ResourceTemplate) *string { return &r.URITemplate },
		Add:    func(r *mcp.ResourceTemplate, _ string) { server.AddResourceTemplate(r, read) },
		Remove: func(template string) { server.RemoveResourceTemplates(template) },
	}))
}

// listIf returns items, nil if the upstream has no such list.
func listIf[T any](has bool, items iter.Seq2[T, error]) iter.Seq2[T, error] {
	if !has {
		return nil
	}
	return items
}

// readLists calls read with the connection on which lists are read, and changes of them reported.
func (u *Upstream) readLists(ctx context.Context, read func(*upstreamConn) error) error {
	conn, err := u.conns.Standing(ctx)
	if err != nil {
		return err
	}
	conn.lists.Store(true)
	return read(conn)
}

// publishResource changes the URI in the contents of a resource to the one under which it is
// published.
func (u *Upstream) publishResource(contents *mcp.ResourceContents) {
	if contents != nil {
		contents.URI = u.conns.Names().PublishURI(contents.URI)
	}
}

// publishContent changes the URIs in blocks of a result in the same way.
func (u *Upstream) publishContent(blocks ...mcp.Content) {
	for _, block := range blocks {
		switch b := block.(type) {
		case *mcp.ResourceLink:
			b.URI = u.conns.Names().PublishURI(b.URI)
		case *mcp.EmbeddedResource:
			u.publishResource(b.Resource)
		}
	}
}
