package gosdk

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// leg is one run of a handler. It travels in the handler's context, and behind
// the session that stands in for the client's where there is one.
type leg struct {
	call *call
	// shown is the session that the handler sees.
	shown *mcp.ServerSession
	ctx   context.Context // the handler's, for questions asked without it

	mu sync.Mutex
	// asks is what the handler asks for with a builder of this package.
	asks *protocol.InputRequiredResult
	// bridged says that the SDK was about to put questions, which the handler
	// has returned, to the client itself.
	bridged bool
	unkeyed unkeyed

	turn sync.Mutex // held while a question without a key is asked, where nobody waits
}

type legKey struct{}

func legFrom(ctx context.Context) *leg {
	l, _ := ctx.Value(legKey{}).(*leg)
	return l
}

func (l *leg) setAsks(asks *protocol.InputRequiredResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asks = asks
}

func (l *leg) asked() *protocol.InputRequiredResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asks
}

func (l *leg) setBridged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bridged = true
}

func (l *leg) wasBridged() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bridged
}
