package bearer

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// RequireBearer returns a handler that lets requests pass to next whose token has the scopes,
// besides [Options].Scopes. It is for other handlers of the host; the endpoint of the protocol
// takes the Guard as its [serverhttp.Authority]. next finds the token's claims with [TokenFrom],
// and does not see the token: the Authorization header is removed.
func (g *Guard) RequireBearer(next http.Handler, scopes ...string) http.Handler {
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

// writeRefusal sends a refusal, with the words of its challenge as the body.
func writeRefusal(w http.ResponseWriter, err error) {
	refused := (*serverhttp.AuthError)(nil)
	if !errors.As(err, &refused) {
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
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(refused.Status)
	body, _ := json.Marshal(map[string]string{"error": codeOf(refused)}) // strings can be encoded
	_, _ = w.Write(body)                                                 // the client has gone
}

// codeOf returns the error code of a refusal.
func codeOf(refused *serverhttp.AuthError) string {
	if refused.Status == http.StatusServiceUnavailable {
		return "temporarily_unavailable"
	}
	_, rest, ok := strings.Cut(refused.Challenge, `error="`)
	if code, _, closed := strings.Cut(rest, `"`); ok && closed {
		return code
	}
	return "unauthorized"
}
