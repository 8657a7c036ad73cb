package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// listTimeout bounds the listing of an upstream's tools.
	listTimeout = 30 * time.Second
	// firstRelist and lastRelist are the times after which the tools are listed again where
	// that failed: each is twice the one before.
	firstRelist = 100 * time.Millisecond
	lastRelist  = 30 * time.Second
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
	p := &publication{up: u, server: server, rename: rename, tools: make(map[string]string)}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	u.mu.Lock()
	again, closed := u.tools != nil, u.closed
	if !again && !closed {
		u.tools = p
	}
	u.mu.Unlock()
	switch {
	case again:
		return errors.New("elicitation upstream: PublishTools was called before")
	case closed:
		return errUpstreamClosed
	}
	refused, err := p.list(ctx)
	return errors.Join(err, refused)
}

// republishTools lists the tools again, if they were published.
func (u *Upstream) republishTools() {
	u.mu.Lock()
	p := u.tools
	u.mu.Unlock()
	if p != nil {
		p.relist()
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

// A publication keeps the tools of a gateway's server like those of an upstream.
type publication struct {
	up     *Upstream
	server *mcp.Server
	rename func(string) string
	ctx    context.Context // ends with the upstream
	cancel context.CancelFunc

	listing sync.Mutex        // held while tools are listed
	tools   map[string]string // published, as JSON, by name; guarded by listing

	mu      sync.Mutex
	running bool // relistUntilDone runs
	wanted  bool // and has to do it once more
}

// stop ends the publication. The tools stay on the server.
func (p *publication) stop() { p.cancel() }

// relist lists the tools again in the background, once for any number of changes.
func (p *publication) relist() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = true
	if !p.running && p.ctx.Err() == nil {
		p.running = true
		go p.relistUntilDone()
	}
}

func (p *publication) relistUntilDone() {
	delay := firstRelist
	for {
		p.mu.Lock()
		if !p.wanted || p.ctx.Err() != nil {
			p.running = false
			p.mu.Unlock()
			return
		}
		p.wanted = false
		p.mu.Unlock()
		if _, err := p.list(p.ctx); err == nil {
			delay = firstRelist
			continue
		}
		p.mu.Lock()
		p.wanted = true
		p.mu.Unlock()
		select {
		case <-time.After(delay):
			delay = min(2*delay, lastRelist)
		case <-p.ctx.Done():
		}
	}
}

// list publishes the tools that the upstream has now, and removes those that it has no more.
// refused says which tools the server does not accept.
func (p *publication) list(ctx context.Context) (refused, err error) {
	p.listing.Lock()
	defer p.listing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	conn, err := p.up.listingConn(ctx)
	if err != nil {
		return nil, err
	}
	var tools []*mcp.Tool
	for tool, err := range conn.session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("elicitation upstream: listing tools: %w", err)
		}
		tools = append(tools, tool)
	}
	found := make(map[string]string, len(tools))
	for _, tool := range tools {
		published := *tool
		published.Name = p.rename(tool.Name)
		text, err := json.Marshal(&published)
		if err != nil {
			return nil, fmt.Errorf("elicitation upstream: tool %q: %w", tool.Name, err)
		}
		if p.tools[published.Name] != string(text) { // else clients would be told for nothing
			if err := p.add(&published, tool.Name); err != nil {
				refused = errors.Join(refused, err)
				continue
			}
		}
		found[published.Name] = string(text)
	}
	for name := range p.tools {
		if _, ok := found[name]; !ok {
			p.server.RemoveTools(name)
		}
	}
	p.tools = found
	return refused, nil
}

// add adds a tool to the server, which panics where the SDK does not accept its schema.
func (p *publication) add(published *mcp.Tool, name string) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("elicitation upstream: tool %q: %v", name, reason)
		}
	}()
	if published.InputSchema == nil {
		published.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	p.server.AddTool(published, func(ctx context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return p.up.CallTool(ctx, req, name)
	})
	return nil
}
