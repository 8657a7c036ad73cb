package upstream

import (
	"context"
	"strconv"
	"sync"

	"github.com/rondo-mcp/rondo/elicitation"
)

// A Call is one that is in flight upstream, and the messages about it that its client is to get.
type Call struct {
	*elicitation.Call
	Context  context.Context // of the client's request, from which the SDKs find the stream
	Token    string          // of its progress upstream
	Messages Queue
}

// Calls are those in flight on a connection. The zero value has none. All methods may be called
// concurrently.
type Calls struct {
	mu            sync.Mutex
	last          int64
	byToken, byID map[string]*Call
}

// Add adds a call.
func (c *Calls) Add(ctx context.Context, call *elicitation.Call) *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	added := &Call{Call: call, Context: ctx, Token: "call-" + strconv.FormatInt(c.last, 10)}
	if c.byToken == nil {
		c.byToken, c.byID = make(map[string]*Call), make(map[string]*Call)
	}
	c.byToken[added.Token], c.byID[call.Origin().CallID] = added, added
	return added
}

// Remove takes no more messages about the call and waits for those that it has.
func (c *Calls) Remove(call *Call) {
	c.mu.Lock()
	delete(c.byToken, call.Token)
	delete(c.byID, call.Origin().CallID)
	c.mu.Unlock()
	call.Messages.Finish(call.Context)
}

// FindByToken returns the call with a progress token, nil: there is none.
func (c *Calls) FindByToken(token string) *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byToken[token]
}

// FindByID returns the call with an id, nil: there is none.
func (c *Calls) FindByID(id string) *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

// FindOnly returns the call of a connection that serves one at a time, nil: there is none.
func (c *Calls) FindOnly() *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.byToken {
		if len(c.byToken) == 1 {
			return call
		}
	}
	return nil
}
