package hosted

import (
	"context"
	"net/http"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Caller is who a hosted server works for, as its handlers may see it. It must not be changed.
type Caller struct {
	// Principal is who calls; zero: an anonymous caller.
	Principal protocol.Principal
	// Header has the headers of the HTTP request that Options.Headers names; nil elsewhere.
	Header http.Header
	// SessionID is the id of the session that the hosted server sees. Two callers never share one.
	SessionID string
	// Client is how the client calls itself, and Capabilities what it has declared.
	Client       protocol.Implementation
	Capabilities protocol.ClientCapabilities
}

type callerKey struct{}

// WithCaller returns a context whose [CallerFrom] is c: for tests of what handlers do with it.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns who the handler of ctx works for, and nil outside of hosted servers.
func CallerFrom(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}
