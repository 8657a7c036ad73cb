package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/toollist"
)

// PublishTools adds the tools of the upstream to the gateway's server, under the names that
// rename returns, nil: their own. When the upstream says that they have changed, and after
// a loss of the connection, it lists them again, and the server tells its clients. The
// connection declares both modes of elicitation: some upstreams hide tools that ask from
// clients that cannot be asked. It is called once. Tools that the SDK's server does not accept
// are left out, and named in the error; the others are published.
func (u *Upstream) PublishTools(ctx context.Context, server *mcp.Server,
	rename func(tool string) string) error {
	if rename == nil {
		rename = func(tool string) string { return tool }
	}
	list := toollist.New(ctx, toollist.Options{
		Find: func(ctx context.Context) ([]toollist.Tool, error) {
			return u.findTools(ctx, server, rename)
		},
		Remove: func(name string) { server.RemoveTools(name) },
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
		return errUpstreamClosed
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

// listingConn returns the connection on which tools are listed, and changes reported. It
// serves calls, too, where any number may use it.
func (u *Upstream) listingConn(ctx context.Context) (*upstreamConn, error) {
	conns := u.standing
	if u.shares {
		conns = u.shared
	}
	conn, err := u.share(ctx, conns, modes{form: true, url: true})
	if err == nil {
		conn.lists.Store(true)
	}
	return conn, err
}

// findTools returns the tools of the upstream for the gateway's server.
func (u *Upstream) findTools(ctx context.Context, server *mcp.Server,
	rename func(string) string) (tools []toollist.Tool, err error) {
	conn, err := u.listingConn(ctx)
	if err != nil {
		return nil, err
	}
	for tool, err := range conn.session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("elicitation upstream: listing tools: %w", err)
		}
		published := *tool
		published.Name = rename(tool.Name)
		text, err := json.Marshal(&published)
		if err != nil {
			return nil, fmt.Errorf("elicitation upstream: tool %q: %w", tool.Name, err)
		}
		tools = append(tools, toollist.Tool{Name: published.Name, Text: string(text),
			Add: func() { u.publish(server, published, tool.Name) }})
	}
	return tools, nil
}

// publish adds a tool to the server, which panics where the SDK does not accept its schema.
func (u *Upstream) publish(server *mcp.Server, published mcp.Tool, name string) {
	if published.InputSchema == nil {
		published.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	server.AddTool(&published, func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return u.CallTool(ctx, req, name)
	})
}
