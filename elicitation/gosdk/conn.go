//lint:file-ignore SA1019 logging is deprecated, and supported for as long as it exists

package gosdk

import (
	"context"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/upstream"
)

// An upstreamConn is a connection of an [Upstream] and the calls that use it.
type upstreamConn struct {
	key     elicitation.UpstreamKey
	shared  bool // by several calls at once
	session *mcp.ClientSession
	answers *upstream.Book // nil: nobody sees whether answers arrive
	ended   chan struct{}  // closed when the session has ended
	lost    atomic.Bool    // the upstream does not know the session
	lists   atomic.Bool    // its changes of lists count
	calls   upstream.Calls
}

// declares returns the capabilities of the upstream. It may have said nothing.
func (c *upstreamConn) declares() *mcp.ServerCapabilities {
	if r := c.session.InitializeResult(); r != nil && r.Capabilities != nil {
		return r.Capabilities
	}
	return &mcp.ServerCapabilities{}
}

// HasEnded implements [upstream.Conn].
func (c *upstreamConn) HasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return c.lost.Load() // the SDK reports the end later
	}
}

// IsAlive implements [upstream.Conn]. The SDK reports the end of a connection.
func (c *upstreamConn) IsAlive(context.Context) bool { return true }

// Close implements [upstream.Conn].
func (c *upstreamConn) Close() {
	_ = c.session.Close() // the reason why it ended is of no use any more
	<-c.ended
}

// clientKey is that of the client's session in the context of a call.
type clientKey struct{}

// relay is the receiving middleware that passes progress and log messages on to the client
// of the call that they are about.
func (c *upstreamConn) relay(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch r := req.(type) {
		case *mcp.ProgressNotificationClientRequest:
			_, _ = takeTag(r.Params.Meta) // the token says more: of which request it is
			token, _ := r.Params.ProgressToken.(string)
			if call := c.calls.FindByToken(token); call != nil {
				call.Messages.Add(func() { _ = RelayProgress(call.Context, call.Call, r.Params) })
				return nil, nil
			}
		case *mcp.LoggingMessageRequest:
			tag, _ := takeTag(r.Params.Meta)
			if call := c.findByTag(tag); call != nil {
				client, _ := call.Context.Value(clientKey{}).(*mcp.ServerSession)
				call.Messages.Add(func() { _ = client.Log(call.Context, r.Params) })
				return nil, nil
			}
		}
		return next(ctx, method, req)
	}
}

// findByTag returns the call with an id, or the only one of a connection that serves one at
// a time.
func (c *upstreamConn) findByTag(tag string) *upstream.Call {
	if tag == "" && !c.shared {
		return c.calls.FindOnly()
	}
	return c.calls.FindByID(tag)
}
