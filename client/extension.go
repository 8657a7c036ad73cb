package client

import (
	"context"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
)

// CallExtension sends a request that an extension defines, to a server of revision 2026-07-28. p
// are its parameters, nil for none; target is the member of them that the extension has repeated
// in the header Mcp-Name, empty for none. The client must have declared the extension, in
// [Options.Extensions], where the extension wants it. P is not changed. Errors are those of
// [Client.CallTool].
func (c *Client) CallExtension(ctx context.Context, method, target string,
	p *protocol.ExtensionParams) (*protocol.ExtensionResult, error) {
	if p == nil {
		p = &protocol.ExtensionParams{}
	}
	ctx, done := c.beginCall(ctx)
	defer done()
	l := leg{method: method, target: target, params: p}
	k := c.newCall(l)
	l.params = copyParams(p)
	result, err := c.sendWithBusyRetry(ctx, k, l)
	if err != nil {
		return nil, preferClosed(ctx, err)
	}
	r, ok := result.(*protocol.ExtensionResult)
	if !ok {
		return nil, &ResponseError{method, fmt.Errorf("unexpected result %T", result)}
	}
	return r, nil
}
