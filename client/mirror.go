package client

import (
	"context"
	"slices"
	"sync"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

const maxToolPages = 100 // an endless list must not block a call

const maxMirrored = 10_000 // a server must not fill the client's memory

// The type mirrors remembers which arguments of which tools are copied into HTTP headers.
type mirrors struct {
	mu     sync.RWMutex
	tables map[string]rules.Mirrors // by tool; only those with mirrored arguments
}

func (m *mirrors) storeTable(tool string, table rules.Mirrors) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case len(table) == 0:
		delete(m.tables, tool)
	case m.tables == nil:
		m.tables = map[string]rules.Mirrors{tool: table}
	default:
		if _, known := m.tables[tool]; !known && len(m.tables) >= maxMirrored {
			// Evict any tool: if a call of it is refused, the client learns it again.
			for other := range m.tables {
				delete(m.tables, other)
				break
			}
		}
		m.tables[tool] = table
	}
}

// learnTools notes the mirrored arguments of listed tools and removes tools with invalid
// annotations, which clients must not offer (basic/transports/streamable-http, "Schema Extension").
func (c *Client) learnTools(ctx context.Context, list *protocol.ListToolsResult) {
	if c.negotiator.current.Load().isLegacy() {
		return // legacy revisions mirror nothing
	}
	list.Tools = slices.DeleteFunc(list.Tools, func(tool protocol.Tool) bool {
		if jsonx.KindOf(tool.InputSchema) != jsonx.Object {
			return false // no annotations
		}
		table, err := rules.ParseMirrors(tool.InputSchema)
		if err != nil {
			c.mirrors.storeTable(tool.Name, nil)
			c.opts.warn(ctx, errPrefix.Errorf("tool %.64q is left out: %w", tool.Name, err))
			return true
		}
		c.mirrors.storeTable(tool.Name, table)
		return false
	})
}

func (c *Client) mirroredParams(l leg) ([]protocol.MirroredParam, error) {
	p, ok := l.params.(*protocol.CallToolParams)
	if !ok || c.negotiator.current.Load().isLegacy() {
		return nil, nil
	}
	c.mirrors.mu.RLock()
	table := c.mirrors.tables[p.Name]
	c.mirrors.mu.RUnlock()
	if len(table) == 0 {
		return nil, nil
	}
	if p.Arguments != nil {
		if err := jsonx.Check(p.Arguments); err != nil {
			return nil, errPrefix.Errorf("tool %.64q: arguments: %w", p.Name, err)
		}
	}
	values, err := table.Values(p.Arguments)
	if err != nil {
		return nil, errPrefix.Errorf("tool %.64q: %w", p.Name, err)
	}
	return values, nil
}

// sendWithMirroredParams sends one leg with its mirrored arguments. If the server refuses it
// because of missing or wrong headers, it reads the tool list and, if the headers have changed,
// sends the leg once more under a new id (basic/transports/streamable-http, "Client Behavior").
func (c *Client) sendWithMirroredParams(ctx context.Context, l leg) (protocol.Result, error) {
	sent, err := c.mirroredParams(l)
	if err != nil {
		return nil, err
	}
	result, err := c.sendNegotiated(ctx, l, sent)
	if c.negotiator.current.Load() == nil {
		return result, err // the negotiation failed: no call was sent
	}
	if said, ok := protocol.AsError(err); !ok || said.Code != protocol.CodeHeaderMismatch ||
		l.method != protocol.MethodCallTool {
		return result, err
	}
	if c.relearnTool(ctx, l.target) != nil {
		return nil, err // the first refusal is more helpful
	}
	again, failed := c.mirroredParams(l)
	if failed != nil {
		return nil, failed
	}
	if slices.Equal(sent, again) {
		return nil, err
	}
	return c.sendNegotiated(ctx, l, again)
}

// relearnTool reads the tool list up to the page with the tool.
func (c *Client) relearnTool(ctx context.Context, tool string) error {
	cursor := ""
	for range maxToolPages {
		p := &protocol.ListParams{Cursor: cursor}
		result, err := c.sendNegotiated(ctx, leg{method: protocol.MethodListTools, params: p}, nil)
		if err != nil {
			return err
		}
		list, ok := result.(*protocol.ListToolsResult)
		if !ok {
			return errPrefix.Errorf("tools/list: unexpected result %T", result)
		}
		found := slices.ContainsFunc(list.Tools,
			func(t protocol.Tool) bool { return t.Name == tool })
		c.learnTools(ctx, list)
		if found || list.NextCursor == "" {
			return nil
		}
		cursor = list.NextCursor
	}
	return errPrefix.Errorf("tools/list: more than %d pages", maxToolPages)
}
