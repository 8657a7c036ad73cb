package bearer

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// RequireBearer returns a handler that calls next if the request's token has the scopes and
// [Options].Scopes. Other requests get status 400, 401 or 403 and a challenge, or 503 and
// Retry-After if the token cannot be verified now. It is for other handlers of the host; the MCP
// endpoint takes the ResourceServer as its [serverhttp.Authority]. next gets the claims with
// [TokenFrom]: the Authorization header is removed. Requests are handled concurrently.
func (g *ResourceServer) RequireBearer(next http.Handler, scopes ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := g.Identify(r)
		if err == nil && id.Access.Check(scopes...) != nil {
			err = g.Challenge(id, &server.ScopeError{Need: scopes})
		}
		if err != nil {
			writeRefusal(w, err)
			return
		}
		ctx := r.Context()
		if id.Values != nil {
			ctx = id.Values(ctx)
		}
		r = r.WithContext(ctx)
		r.Header = r.Header.Clone()
		r.Header.Del("Authorization")
		next.ServeHTTP(w, r)
	})
}

// writeRefusal sends the response to a refused request. If err is no AuthError, the status is 401.
func writeRefusal(w http.ResponseWriter, err error) {
	refused, ok := errors.AsType[*serverhttp.AuthError](err)
	if !ok {
		refused = &serverhttp.AuthError{Status: http.StatusUnauthorized}
	}
	h := w.Header()
	if refused.Challenge != "" {
		h.Set("WWW-Authenticate", refused.Challenge)
	}
	if refused.Status == http.StatusServiceUnavailable {
		seconds := math.Ceil(max(refused.RetryAfter, time.Second).Seconds())
		h.Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(refused.Status)
}
