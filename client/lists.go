package client

import (
	"context"
	"iter"

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

// MaxPages is how many pages of one list the iterators read. A server that
// never ends a list must not hold up its clients for ever; honest ones have a
// few pages.
const MaxPages = 1000

// Tools returns the server's tools, page after page, as [Client.ListTools]
// gives them. Pages are read as the loop needs them. After an error, which
// comes with a zero tool, there is nothing more. A list that changes in the
// meantime may show a tool twice or not at all.
func (c *Client) Tools(ctx context.Context) iter.Seq2[protocol.Tool, error] {
	return walkPages(ctx, protocol.MethodListTools, func(ctx context.Context, cursor string) ([]protocol.Tool, string, error) {
		r, err := c.ListTools(ctx, cursor)
		if err != nil {
			return nil, "", err
		}
		return r.Tools, r.NextCursor, nil
	})
}

// Prompts is to [Client.ListPrompts] what [Client.Tools] is to
// [Client.ListTools].
func (c *Client) Prompts(ctx context.Context) iter.Seq2[protocol.Prompt, error] {
	return walkPages(ctx, protocol.MethodListPrompts, func(ctx context.Context, cursor string) ([]protocol.Prompt, string, error) {
		r, err := c.ListPrompts(ctx, cursor)
		if err != nil {
			return nil, "", err
		}
		return r.Prompts, r.NextCursor, nil
	})
}

// Resources is to [Client.ListResources] what [Client.Tools] is to
// [Client.ListTools].
func (c *Client) Resources(ctx context.Context) iter.Seq2[protocol.Resource, error] {
	return walkPages(ctx, protocol.MethodListResources, func(ctx context.Context, cursor string) ([]protocol.Resource, string, error) {
		r, err := c.ListResources(ctx, cursor)
		if err != nil {
			return nil, "", err
		}
		return r.Resources, r.NextCursor, nil
	})
}

// ResourceTemplates is to [Client.ListResourceTemplates] what [Client.Tools]
// is to [Client.ListTools].
func (c *Client) ResourceTemplates(ctx context.Context) iter.Seq2[protocol.ResourceTemplate, error] {
	return walkPages(ctx, protocol.MethodListResourceTemplates, func(ctx context.Context, cursor string) ([]protocol.ResourceTemplate, string, error) {
		r, err := c.ListResourceTemplates(ctx, cursor)
		if err != nil {
			return nil, "", err
		}
		return r.ResourceTemplates, r.NextCursor, nil
	})
}

// pages walks a list. Every loop over the result starts from the beginning.
func walkPages[T any](ctx context.Context, method string, read func(context.Context, string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		seen := map[string]bool{}
		for cursor := ""; ; {
			list, next, err := read(ctx, cursor)
			if err != nil {
				yield(none, err)
				return
			}
			for _, entry := range list {
				if !yield(entry, nil) {
					return
				}
			}
			switch {
			case next == "":
				return
			case seen[next]:
				yield(none, &PagesError{Method: method, Cursor: next})
				return
			case len(seen) == MaxPages-1:
				yield(none, &PagesError{Method: method})
				return
			}
			seen[next] = true
			cursor = next
		}
	}
}

// emptyList returns the answer to a list request for a server that declares no
// such list (server/tools, "Capabilities"), nil when the server is to be asked.
// What a legacy server declared holds for its session; what a modern one did,
// for as long as that is fresh.
func (c *Client) undeclaredList(ctx context.Context, conn *connection, method string) protocol.Result {
	empty := newEmptyList(method)
	if empty == nil {
		return nil
	}
	if conn.isLegacy() {
		if declaresList(&conn.session.agreed.Capabilities, method) {
			return nil
		}
		return empty
	}
	if caps := c.cachedCapabilities(ctx); caps == nil || declaresList(caps, method) {
		return nil
	}
	return empty
}

// refusedList returns an empty list in the place of an error that says that the
// server does not know the method, if the server does not declare the list
// either; else nil. A modern server that was never asked what it declares is
// asked now.
func (c *Client) unknownList(ctx context.Context, conn *connection, method string, err error) protocol.Result {
	said, ok := protocol.AsError(err)
	if !ok || said.Code != protocol.CodeMethodNotFound {
		return nil
	}
	empty := newEmptyList(method)
	switch {
	case empty == nil:
		return nil
	case method == protocol.MethodListResourceTemplates:
		return empty // no capability of its own says that there are none
	case conn.isLegacy():
		return nil // it declares what it does not know
	}
	declared := c.cachedCapabilities(ctx)
	if declared == nil {
		declared = conn.capabilities.Load()
	}
	if declared == nil {
		result, err := c.sendOnce(ctx, conn, leg{method: protocol.MethodDiscover, params: &protocol.DiscoverParams{}}, nil)
		found, ok := result.(*protocol.DiscoverResult)
		if err != nil || !ok {
			return nil
		}
		declared = &found.Capabilities
		conn.capabilities.Store(declared)
	}
	if declaresList(declared, method) {
		return nil
	}
	return empty
}

// freshCapabilities returns what a modern server declared as long as it said
// that this holds, else nil.
func (c *Client) cachedCapabilities(ctx context.Context) *protocol.ServerCapabilities {
	l := leg{method: protocol.MethodDiscover, params: &protocol.DiscoverParams{}}
	if found, ok := c.cache.slotFor(ctx, c.version, l).loadFresh(ctx).(*protocol.DiscoverResult); ok {
		return &found.Capabilities
	}
	return nil
}

// newEmptyList returns the empty result of a list method, nil for all others.
func newEmptyList(method string) protocol.Result {
	switch method {
	case protocol.MethodListTools:
		return &protocol.ListToolsResult{Tools: []protocol.Tool{}}
	case protocol.MethodListPrompts:
		return &protocol.ListPromptsResult{Prompts: []protocol.Prompt{}}
	case protocol.MethodListResources:
		return &protocol.ListResourcesResult{Resources: []protocol.Resource{}}
	case protocol.MethodListResourceTemplates:
		return &protocol.ListResourceTemplatesResult{ResourceTemplates: []protocol.ResourceTemplate{}}
	}
	return nil
}

// declaresList reports whether a server with these capabilities has the list.
func declaresList(caps *protocol.ServerCapabilities, method string) bool {
	switch method {
	case protocol.MethodListTools:
		return caps.Tools != nil
	case protocol.MethodListPrompts:
		return caps.Prompts != nil
	}
	return caps.Resources != nil
}
