package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/internal/connpool"
	"github.com/rondo-mcp/rondo/internal/toollist"
	"github.com/rondo-mcp/rondo/protocol"
)

// PublishTools adds the tools of the upstream to the gateway's server, under the names that
// rename returns, nil: their own. When the upstream says that they have changed, and after it
// has lost a session, it lists them again, and the server tells its clients. Over HTTP an
// upstream says so on the standing stream of a connection (transport.WithContinuousListening), and
// on those of calls. The connection on which tools are listed declares both modes of
// elicitation: some upstreams hide tools that ask from clients that cannot be asked. PublishTools
// is called once. Tools that mcp-go's server does not accept are left out, and named in the
// error; the others are published.
func (u *Upstream) PublishTools(ctx context.Context, rename func(tool string) string) error {
	if rename == nil {
		rename = func(tool string) string { return tool }
	}
	list := toollist.New(ctx, toollist.Options{
		Find: func(ctx context.Context) ([]toollist.Tool, error) {
			return u.findTools(ctx, rename)
		},
		Remove: func(name string) { u.clients.server.DeleteTools(name) },
	})
	u.mu.Lock()
	again, closed := u.tools != nil, u.closed
	if !again && !closed {
		u.tools = list
	}
	u.mu.Unlock()
	switch {
	case again:
		return errors.New("elicitation upstream: PublishTools was called before")
	case closed:
		return fmt.Errorf("elicitation upstream: %w", connpool.ErrClosed)
	}
	refused, err := list.Update(ctx)
	return errors.Join(err, refused)
}

// republishTools lists the tools again, if they were published.
func (u *Upstream) republishTools() {
	u.mu.Lock()
	list := u.tools
	u.mu.Unlock()
	if list != nil {
		list.UpdateLater()
	}
}

// findTools returns the tools of the upstream for the gateway's server.
func (u *Upstream) findTools(ctx context.Context,
	rename func(string) string) (tools []toollist.Tool, err error) {
	conn, release, err := u.acquire(ctx, modes{form: true, url: true}, protocol.Principal{})
	if err != nil {
		return nil, err
	}
	result, err := conn.client.ListTools(ctx, mcp.ListToolsRequest{})
	if isSessionLost(err) {
		conn.ended.Store(true)
	}
	release(err == nil)
	if err != nil {
		return nil, fmt.Errorf("elicitation upstream: listing tools: %w", err)
	}
	for _, tool := range result.Tools {
		published := tool
		published.Name = rename(tool.Name)
		text, err := json.Marshal(&published)
		if err != nil {
			return nil, fmt.Errorf("elicitation upstream: tool %q: %w", tool.Name, err)
		}
		tools = append(tools, toollist.Tool{Name: published.Name, Text: string(text),
			Add: func() { u.publish(published, tool.Name) }})
	}
	return tools, nil
}

// publish adds a tool to the gateway's server.
func (u *Upstream) publish(published mcp.Tool, name string) {
	u.clients.server.AddTool(published, func(ctx context.Context,
		r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return u.CallTool(ctx, r, name)
	})
}
