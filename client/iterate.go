package client

import (
	"context"
	"fmt"
	"iter"

	"github.com/rondo-mcp/rondo/protocol"
)

// MaxPages is how many pages of one list the iterators read. A server that
// never ends a list must not hold up its clients for ever; honest ones have a
// few pages.
const MaxPages = 1000

// A PagesError says that a list does not end: a cursor came twice, or there
// are more than [MaxPages] pages.
type PagesError struct {
	Method string
	// Cursor is the one that came twice, empty when none did.
	Cursor string
}

// Error names the method and what is wrong.
func (e *PagesError) Error() string {
	if e.Cursor != "" {
		return fmt.Sprintf("client: %s: server sent cursor %.64q twice; the list before it is whole: tell those who run the server", e.Method, e.Cursor)
	}
	return fmt.Sprintf("client: %s: more than %d pages; the list before them can be used", e.Method, MaxPages)
}

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
