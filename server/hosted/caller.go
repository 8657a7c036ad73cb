package hosted

import (
	"context"
	"net/http"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Caller describes the caller of a hosted server to its handlers. It must not be changed.
type Caller struct {
	Principal protocol.Principal // zero: anonymous
	// Header has the headers named in [KeepHeaders], of the request or of the session's first one.
	Header http.Header
	// SessionID identifies the hosted server's session: one for each session of an older revision;
	// in 2026-07-28 one for each principal and client, or anonymous request. Callers never share.
	SessionID string
	Version   protocol.Version // revision of the handled request
	// Client is self-reported; Capabilities are as in [server.Request.Capabilities].
	Client       protocol.Implementation
	Capabilities protocol.ClientCapabilities
}

type callerKey struct{}

// WithCaller returns a context with the caller c, for tests of handlers.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller of the handler of ctx, or nil outside hosted servers.
func CallerFrom(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

type headersKey struct{}

// KeepHeaders wraps an HTTP handler of a hosted server so that its handlers see the named headers
// in [Caller].Header. Pass other values of a request through its context.
func KeepHeaders(next http.Handler, names ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept := http.Header{}
		for _, name := range names {
			if values := r.Header.Values(name); len(values) > 0 {
				kept[http.CanonicalHeaderKey(name)] = values
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), headersKey{}, kept)))
	})
}
