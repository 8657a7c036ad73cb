package bearer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/scope"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A reason is why a token is refused. Clients are told these words and nothing else: causes go to
// the observer of the server.
type reason string

const (
	notSaid        reason = "no token"
	malformed      reason = "malformed"
	badAlgorithm   reason = "algorithm"
	badType        reason = "type"
	unknownIssuer  reason = "issuer"
	unknownKey     reason = "key"
	badSignature   reason = "signature"
	expired        reason = "expired"
	notYetValid    reason = "not yet valid"
	wrongAudience  reason = "audience"
	wrongSubject   reason = "subject"
	inactive       reason = "inactive"
	notJudged      reason = "the authorization server cannot be reached"
	severalHeaders reason = "several Authorization headers"
	badHeader      reason = "Authorization header"
)

// A refusedError refuses a token.
type refusedError struct {
	why   reason
	cause error // nil: nothing more to say
}

func (e *refusedError) Error() string {
	if e.cause == nil {
		return "bearer: token refused: " + string(e.why)
	}
	return fmt.Sprintf("bearer: token refused: %s: %v", e.why, e.cause)
}

func (e *refusedError) Unwrap() error { return e.cause }

func refuse(why reason, cause error) *refusedError { return &refusedError{why, cause} }

// An unavailableError says that a token cannot be judged now.
type unavailableError struct {
	after time.Duration // when to ask again
	cause error
}

func (e *unavailableError) Error() string {
	return fmt.Sprintf("bearer: %s: %v", notJudged, e.cause)
}

func (e *unavailableError) Unwrap() error { return e.cause }

// defaultRetry is when a client may come back that met an issuer which does not answer.
const defaultRetry = 5 * time.Second

// refusal turns an error into the response that the client gets.
func (g *Guard) refusal(err error) *serverhttp.AuthError {
	if e := (*unavailableError)(nil); errors.As(err, &e) {
		return &serverhttp.AuthError{Status: http.StatusServiceUnavailable, RetryAfter: e.after,
			Err: err}
	}
	refused := (*refusedError)(nil)
	if !errors.As(err, &refused) {
		refused = refuse(malformed, err)
	}
	switch refused.why {
	case notSaid: // RFC 6750, 3.1: no error code where there was no token
		return &serverhttp.AuthError{Status: http.StatusUnauthorized,
			Challenge: g.challenge("", "", g.opts.Scopes), Err: err}
	case badHeader, severalHeaders:
		return &serverhttp.AuthError{Status: http.StatusBadRequest,
			Challenge: g.challenge("invalid_request", string(refused.why), nil), Err: err}
	}
	return &serverhttp.AuthError{Status: http.StatusUnauthorized,
		Challenge: g.challenge("invalid_token", string(refused.why), g.opts.Scopes), Err: err}
}

// Challenge implements [serverhttp.Authority]: it names all scopes that the request needs, and
// those that every request needs.
func (g *Guard) Challenge(id serverhttp.Identity, lack *server.ScopeError) *serverhttp.AuthError {
	var need []string
	if lack != nil {
		need = lack.Need
	}
	return g.lackOfScope(id.Principal.Anonymous(), need)
}

func (g *Guard) lackOfScope(anonymous bool, need []string) *serverhttp.AuthError {
	need = scope.Union(g.opts.Scopes, need)
	if anonymous {
		return &serverhttp.AuthError{Status: http.StatusUnauthorized,
			Challenge: g.challenge("", "", need)}
	}
	return &serverhttp.AuthError{Status: http.StatusForbidden,
		Challenge: g.challenge("insufficient_scope", "more scopes are needed", need)}
}

// challenge returns the value of a WWW-Authenticate header (RFC 6750, 3; RFC 9728, 5.1). code and
// text are of a fixed set, scopes have been checked: nothing needs to be escaped.
func (g *Guard) challenge(code, text string, scopes []string) string {
	var params []string
	add := func(name, value string) {
		if value != "" {
			params = append(params, name+`="`+value+`"`)
		}
	}
	add("error", code)
	add("error_description", text)
	add("scope", strings.Join(scopes, " "))
	add("resource_metadata", g.metadataURL)
	return "Bearer " + strings.Join(params, ", ")
}
