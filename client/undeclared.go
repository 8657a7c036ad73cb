package client

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
)

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

// freshCapabilities returns what a modern server declared as long as it said
// that this holds, else nil.
func (c *Client) cachedCapabilities(ctx context.Context) *protocol.ServerCapabilities {
	l := leg{method: protocol.MethodDiscover, params: &protocol.DiscoverParams{}}
	if found, ok := c.cache.slotFor(ctx, c.version, l).loadFresh(ctx).(*protocol.DiscoverResult); ok {
		return &found.Capabilities
	}
	return nil
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
