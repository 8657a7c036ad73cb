package client

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
)

// Discover asks what the server is and can do (server/discover).
func (c *Client) Discover(ctx context.Context) (*protocol.DiscoverResult, error) {
	return completeCall[*protocol.DiscoverResult](ctx, c, leg{method: protocol.MethodDiscover, params: &protocol.DiscoverParams{}})
}

// ListTools returns one page of the server's tools. An empty cursor asks for
// the first; the result's NextCursor, if any, for the next. Tools whose
// x-mcp-header annotations are not valid are left out, as the protocol demands
// (see [Options.ToolRejected]). A server that does not declare tools is not
// asked: its list is empty.
func (c *Client) ListTools(ctx context.Context, cursor string) (*protocol.ListToolsResult, error) {
	r, err := listPage[*protocol.ListToolsResult](ctx, c, protocol.MethodListTools, cursor)
	if err == nil {
		c.learnTools(ctx, r)
	}
	return r, err
}

// ListPrompts returns one page of the server's prompts, as [Client.ListTools]
// does.
func (c *Client) ListPrompts(ctx context.Context, cursor string) (*protocol.ListPromptsResult, error) {
	return listPage[*protocol.ListPromptsResult](ctx, c, protocol.MethodListPrompts, cursor)
}

// ListResources returns one page of the server's resources, as
// [Client.ListTools] does.
func (c *Client) ListResources(ctx context.Context, cursor string) (*protocol.ListResourcesResult, error) {
	return listPage[*protocol.ListResourcesResult](ctx, c, protocol.MethodListResources, cursor)
}

// ListResourceTemplates returns one page of the server's resource templates,
// as [Client.ListTools] does. The list of a server that has resources but does
// not know the method is empty too: templates have no capability of their own.
func (c *Client) ListResourceTemplates(ctx context.Context, cursor string) (*protocol.ListResourceTemplatesResult, error) {
	return listPage[*protocol.ListResourceTemplatesResult](ctx, c, protocol.MethodListResourceTemplates, cursor)
}

// Complete suggests values for an argument that is being typed
// (server/utilities/completion). It changes nothing in p.
func (c *Client) Complete(ctx context.Context, p *protocol.CompleteParams) (*protocol.CompleteResult, error) {
	return completeCall[*protocol.CompleteResult](ctx, c, leg{method: protocol.MethodComplete, params: p})
}

func listPage[R protocol.Result](ctx context.Context, c *Client, method, cursor string) (R, error) {
	r, err := completeCall[R](ctx, c, leg{method: method, params: &protocol.ListParams{Cursor: cursor}})
	if said, ok := protocol.AsError(err); ok && said.Code == protocol.CodeInvalidParams && cursor != "" {
		// The list that the cursor leads through is no more, and with it go
		// the pages of it (server/utilities/caching, "Interaction with
		// Pagination").
		c.cache.forgetMethods(method)
	}
	return r, err
}
