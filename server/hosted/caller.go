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
	// Header has the headers of the HTTP request that [KeepHeaders] names; nil elsewhere. It is of
	// the request that a handler serves, and of the first one where a session is opened.
	Header http.Header
	// SessionID is the id of the session that the hosted server sees: one for each session of an
	// older revision; in revision 2026-07-28 one for each principal and client, and for each
	// request of an anonymous caller. Two callers never share one.
	SessionID string
	// Version is the revision of the request that a handler serves.
	Version protocol.Version
	// Client is how the client calls itself, and Capabilities what it can do for the request
	// ([server.Request.Capabilities]).
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

type headersKey struct{}

// KeepHeaders wraps an HTTP handler of a hosted server so that its handlers see the named headers
// of each request, in [Caller].Header. Other values of a request reach handlers by its context.
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

func headersFrom(ctx context.Context) http.Header {
	kept, _ := ctx.Value(headersKey{}).(http.Header)
	return kept
}
