package client

import (
	"context"
	"errors"
	"iter"

	"github.com/rondo-mcp/rondo/protocol"
)

// Discover returns the server's description and capabilities (server/discover).
func (c *Client) Discover(ctx context.Context) (*protocol.DiscoverResult, error) {
	return completeCall[*protocol.DiscoverResult](ctx, c, discoverLeg())
}

func discoverLeg() leg {
	return leg{method: protocol.MethodDiscover, params: &protocol.RequestMeta{}}
}

// ListTools returns one page of the server's tools. An empty cursor means the first page, a
// result's NextCursor the next. Tools with invalid x-mcp-header annotations are omitted, as the
// protocol requires ([Options.Warn]). If the server does not declare tools, the list is empty.
func (c *Client) ListTools(ctx context.Context, cursor string) (*protocol.ListToolsResult, error) {
	r, err := listPage[*protocol.ListToolsResult](ctx, c, protocol.MethodListTools, cursor)
	if err == nil {
		c.learnTools(ctx, r)
	}
	return r, err
}

// ListPrompts is [Client.ListTools] for prompts.
func (c *Client) ListPrompts(ctx context.Context,
	cursor string) (*protocol.ListPromptsResult, error) {
	return listPage[*protocol.ListPromptsResult](ctx, c, protocol.MethodListPrompts, cursor)
}

// ListResources is [Client.ListTools] for resources.
func (c *Client) ListResources(ctx context.Context,
	cursor string) (*protocol.ListResourcesResult, error) {
	return listPage[*protocol.ListResourcesResult](ctx, c, protocol.MethodListResources, cursor)
}

// ListResourceTemplates is [Client.ListTools] for resource templates. Templates have no capability
// of their own: the list is also empty if the server has resources but does not know the method.
func (c *Client) ListResourceTemplates(ctx context.Context,
	cursor string) (*protocol.ListResourceTemplatesResult, error) {
	return listPage[*protocol.ListResourceTemplatesResult](ctx, c,
		protocol.MethodListResourceTemplates, cursor)
}

// Complete suggests values for a typed prefix (server/utilities/completion). p is unchanged.
func (c *Client) Complete(ctx context.Context,
	p *protocol.CompleteParams) (*protocol.CompleteResult, error) {
	return completeCall[*protocol.CompleteResult](ctx, c,
		leg{method: protocol.MethodComplete, params: p})
}

func listPage[R protocol.Result](ctx context.Context, c *Client, method, cursor string) (R, error) {
	l := leg{method: method, params: &protocol.ListParams{Cursor: cursor}}
	return completeCall[R](ctx, c, l)
}

const maxPages = 1000 // per list: an endless list must not block the caller

// ErrListWhole is wrapped by the error that ends a loop over an endless list, such as one whose
// cursor repeats. The entries before the error are valid.
var ErrListWhole = errors.New("the list before it is whole")

// Tools returns the tools of all pages of [Client.ListTools], read lazily. An error comes with a
// zero tool and ends the loop. If the list changes meanwhile, tools may be repeated or missing.
func (c *Client) Tools(ctx context.Context) iter.Seq2[protocol.Tool, error] {
	return walkPages(ctx, protocol.MethodListTools, c.ListTools,
		func(r *protocol.ListToolsResult) ([]protocol.Tool, string) {
			return r.Tools, r.NextCursor
		})
}

// Prompts is [Client.Tools] for prompts.
func (c *Client) Prompts(ctx context.Context) iter.Seq2[protocol.Prompt, error] {
	return walkPages(ctx, protocol.MethodListPrompts, c.ListPrompts,
		func(r *protocol.ListPromptsResult) ([]protocol.Prompt, string) {
			return r.Prompts, r.NextCursor
		})
}

// Resources is [Client.Tools] for resources.
func (c *Client) Resources(ctx context.Context) iter.Seq2[protocol.Resource, error] {
	return walkPages(ctx, protocol.MethodListResources, c.ListResources,
		func(r *protocol.ListResourcesResult) ([]protocol.Resource, string) {
			return r.Resources, r.NextCursor
		})
}

// ResourceTemplates is [Client.Tools] for resource templates.
func (c *Client) ResourceTemplates(
	ctx context.Context) iter.Seq2[protocol.ResourceTemplate, error] {
	return walkPages(ctx, protocol.MethodListResourceTemplates, c.ListResourceTemplates,
		func(r *protocol.ListResourceTemplatesResult) ([]protocol.ResourceTemplate, string) {
			return r.ResourceTemplates, r.NextCursor
		})
}

// walkPages iterates over all pages. entries returns a page's entries and the next cursor.
func walkPages[T, P any](ctx context.Context, method string, read func(context.Context, string) (P,
	error), entries func(P) ([]T, string)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		seen := map[string]bool{}
		for cursor := ""; ; {
			page, err := read(ctx, cursor)
			if err != nil {
				yield(none, err)
				return
			}
			list, next := entries(page)
			for _, entry := range list {
				if !yield(entry, nil) {
					return
				}
			}
			switch {
			case next == "":
				return
			case seen[next]:
				yield(none, errPrefix.Errorf("%s: server sent cursor %.64q twice; "+
					"%w: tell the server's operator", method, next, ErrListWhole))
				return
			case len(seen) == maxPages-1:
				yield(none, errPrefix.Errorf("%s: more than %d pages; %w", method, maxPages,
					ErrListWhole))
				return
			}
			seen[next] = true
			cursor = next
		}
	}
}

// undeclaredList returns the empty result of a list that a legacy server does not declare
// (server/tools, "Capabilities"), otherwise nil. A modern server may have added the list since.
func undeclaredList(conn *connection, method string) protocol.Result {
	if !conn.isLegacy() || declaresList(&conn.session.agreed.Load().Capabilities, method) {
		return nil
	}
	return newEmptyList(method)
}

// unknownList returns an empty list for an undeclared list whose method the server refuses with err
// as unknown, else nil. It requests a modern server's capabilities if they are unknown.
func (c *Client) unknownList(ctx context.Context, conn *connection, method string,
	err error) protocol.Result {
	said, ok := protocol.AsError(err)
	if !ok || said.Code != protocol.CodeMethodNotFound {
		return nil
	}
	empty := newEmptyList(method)
	switch {
	case empty == nil:
		return nil
	case method == protocol.MethodListResourceTemplates:
		return empty // templates have no capability of their own
	case conn.isLegacy():
		return nil // undeclaredList found it declared
	}
	declared := conn.capabilities.Load()
	if declared == nil {
		result, err := c.sendOnce(ctx, conn, discoverLeg(), nil)
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

func newEmptyList(method string) protocol.Result {
	switch method {
	case protocol.MethodListTools:
		return &protocol.ListToolsResult{Tools: []protocol.Tool{}}
	case protocol.MethodListPrompts:
		return &protocol.ListPromptsResult{Prompts: []protocol.Prompt{}}
	case protocol.MethodListResources:
		return &protocol.ListResourcesResult{Resources: []protocol.Resource{}}
	case protocol.MethodListResourceTemplates:
		return &protocol.ListResourceTemplatesResult{
			ResourceTemplates: []protocol.ResourceTemplate{}}
	}
	return nil
}

func declaresList(caps *protocol.ServerCapabilities, method string) bool {
	switch method {
	case protocol.MethodListTools:
		return caps.Tools != nil
	case protocol.MethodListPrompts:
		return caps.Prompts != nil
	}
	return caps.Resources != nil
}
