package gosdk

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// A peer is a server of the SDK.
type peer struct {
	*host
	server *mcp.Server

	mu       sync.Mutex
	sessions map[*session]struct{}
	closed   bool
	styles   map[string]style // of handlers, by method and name
}

func (p *peer) OpenSession(ctx context.Context, initialize *protocol.Request,
	back protocol.BackCaller) (protocol.LegacySession, *protocol.Response, error) {
	request := *initialize
	if !p.opts.TrueElicitation {
		var err error
		if request.Params, err = declareElicitation(initialize.Params); err != nil {
			return nil, nil, err
		}
	}
	x, err := newSession(p, hosted.CallerFrom(ctx), initialize.Params, back)
	if err != nil {
		return nil, nil, err
	}
	opened := false
	defer func() { // runs even if the server's middleware panics
		if !opened {
			_ = x.Close()
		}
	}()
	if !p.keep(x) {
		return nil, nil, errGone
	}
	response, err := x.send(ctx, x.pushing, &request, newRun(ctx, x, back))
	if err != nil || response.Error != nil {
		return nil, response, err
	}
	opened = true
	return x, response, nil
}

// declareElicitation adds forms and URLs to the capabilities in initialize parameters.
func declareElicitation(params json.RawMessage) (json.RawMessage, error) {
	var members, declared map[string]json.RawMessage
	err := json.Unmarshal(params, &members)
	if err == nil && members["capabilities"] != nil {
		err = json.Unmarshal(members["capabilities"], &declared)
	}
	if err != nil || members == nil {
		return nil, fmt.Errorf("gosdk: the parameters of initialize cannot be read: %w", err)
	}
	if declared == nil {
		declared = map[string]json.RawMessage{}
	}
	declared["elicitation"] = json.RawMessage(`{"form":{},"url":{}}`)
	if members["capabilities"], err = json.Marshal(declared); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// keep returns false if the peer is closed.
func (p *peer) keep(x *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.sessions[x] = struct{}{}
	}
	return !p.closed
}

func (p *peer) forget(x *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, x)
}

func (p *peer) Close() error {
	p.mu.Lock()
	p.closed = true
	open := maps.Clone(p.sessions)
	p.mu.Unlock()
	var closing sync.WaitGroup
	for x := range open {
		closing.Go(func() { _ = x.Close() })
	}
	closing.Wait()
	return nil
}

type style int

const (
	pushes     style = iota // pushes on its own goroutine, as far as known
	pushesElse              // pushes on other goroutines
	returns                 // returns its questions in the result
)

// The styles are bounded: clients choose resource names. A forgotten name costs one extra run.
const (
	maxStyles    = 10_000
	maxStyleName = 1 << 10
)

func (p *peer) styleOf(name string) style {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.styles[name]
}

func (p *peer) noteStyle(name string, s style) {
	if len(name) > maxStyleName {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.styles) >= maxStyles {
		clear(p.styles)
	}
	p.styles[name] = s
}
