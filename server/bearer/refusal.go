package bearer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/headers"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A reason is the class of a refusal, or of a token that cannot be verified now. It is the
// error_description that the client gets. Causes have the details; they go to the observer of the
// server alone.
type reason string

const (
	noToken           reason = "no token"
	malformed         reason = "malformed"
	badAlgorithm      reason = "algorithm"
	badType           reason = "type"
	unknownIssuer     reason = "issuer"
	unknownKey        reason = "key"
	badSignature      reason = "signature"
	expired           reason = "expired"
	notYetValid       reason = "not yet valid"
	wrongAudience     reason = "audience"
	wrongSubject      reason = "subject"
	badScopes         reason = "scopes"
	inactive          reason = "inactive"
	issuerUnreachable reason = "the authorization server cannot be reached"
	hostSilent        reason = "a function of the host has not returned"
	keyNotPublished   reason = "the authorization server has not published the key of the token"
	severalHeaders    reason = "several Authorization headers"
	badHeader         reason = "Authorization header"
)

// A refusedError refuses a token for good, or a request without one. The client gets 400 or 401.
type refusedError struct {
	why   reason
	cause error // may be nil
}

func (e *refusedError) Error() string {
	if e.cause == nil {
		return "bearer: token refused: " + string(e.why)
	}
	return fmt.Sprintf("bearer: token refused: %s: %v", e.why, e.cause)
}

func (e *refusedError) Unwrap() error { return e.cause }

// refuse returns the error that refuses a token. cause may be nil.
func refuse(why reason, cause error) *refusedError { return &refusedError{why, cause} }

// An unavailableError is a transient failure: the token cannot be verified now. The client gets
// 503.
type unavailableError struct {
	why        reason
	retryAfter time.Duration // pause before the client may send the request again
	cause      error         // may be nil
}

func (e *unavailableError) Error() string {
	if e.cause == nil {
		return "bearer: " + string(e.why)
	}
	return fmt.Sprintf("bearer: %s: %v", e.why, e.cause)
}

func (e *unavailableError) Unwrap() error { return e.cause }

// defaultRetry is the pause before a client may send its request again if the issuer is
// unreachable.
const defaultRetry = 5 * time.Second

// authError returns the response to a request that [ResourceServer.authenticateRequest] refused
// (RFC 6750, section 3.1).
func (g *ResourceServer) authError(err error) *serverhttp.AuthError {
	if e := (*unavailableError)(nil); errors.As(err, &e) {
		return &serverhttp.AuthError{Status: http.StatusServiceUnavailable,
			RetryAfter: e.retryAfter, Err: err}
	}
	refused := (*refusedError)(nil)
	if !errors.As(err, &refused) {
		refused = refuse(malformed, err)
	}
	switch refused.why {
	case noToken: // a response to a request without a token has no error code
		return &serverhttp.AuthError{Status: http.StatusUnauthorized,
			Challenge: g.formatChallenge("", "", g.opts.Scopes), Err: err}
	case badHeader, severalHeaders:
		return &serverhttp.AuthError{Status: http.StatusBadRequest,
			Challenge: g.formatChallenge("invalid_request", string(refused.why), nil), Err: err}
	}
	challenge := g.formatChallenge("invalid_token", g.describeReason(refused.why), g.opts.Scopes)
	return &serverhttp.AuthError{Status: http.StatusUnauthorized, Challenge: challenge, Err: err}
}

// describeReason returns the error_description for a reason. For a wrong audience it names the
// resource, which is public, but neither the audiences of the token nor [Options].Audiences.
func (g *ResourceServer) describeReason(why reason) string {
	if why == wrongAudience && isDescription(g.opts.Resource) {
		return string(why) + ": " + g.audienceHint()
	}
	return string(why)
}

// audienceHint returns a text with the audience that a token must have.
func (g *ResourceServer) audienceHint() string { return "the token must be for " + g.opts.Resource }

// isDescription reports whether text may stand in an error_description (RFC 6750, section 3).
func isDescription(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' || r > '~' || r == '"' || r == '\\'
	})
}

// Challenge implements [serverhttp.Authority]. Its challenge names the scopes of lack and
// [Options].Scopes. The status is 403, and 401 for an anonymous request. lack may be nil.
func (g *ResourceServer) Challenge(id serverhttp.Identity,
	lack *server.ScopeError) *serverhttp.AuthError {
	var need []string
	if lack != nil {
		need = lack.Need
	}
	return g.insufficientScopeError(id.Principal.Anonymous(), need)
}

// insufficientScopeError returns the response to a request that lacks one of the scopes need, or of
// those that every request needs. One without a token is to come back with one.
func (g *ResourceServer) insufficientScopeError(anonymous bool,
	need []string) *serverhttp.AuthError {
	need = headers.UniteScopes(g.opts.Scopes, need)
	if anonymous {
		return &serverhttp.AuthError{Status: http.StatusUnauthorized,
			Challenge: g.formatChallenge("", "", need)}
	}
	return &serverhttp.AuthError{Status: http.StatusForbidden,
		Challenge: g.formatChallenge("insufficient_scope", "more scopes are needed", need)}
}

// formatChallenge returns the value of a WWW-Authenticate header (RFC 6750, section 3; RFC 9728,
// section 5.1). Nothing needs to be escaped: code is one of a fixed set, and description and scopes
// have been checked.
func (g *ResourceServer) formatChallenge(code, description string, scopes []string) string {
	var params []string
	add := func(name, value string) {
		if value != "" {
			params = append(params, name+`="`+value+`"`)
		}
	}
	add("error", code)
	add("error_description", description)
	add("scope", strings.Join(scopes, " "))
	add("resource_metadata", g.metadataURL)
	return "Bearer " + strings.Join(params, ", ")
}
