package bearer

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A reason is the class of a refusal or failure. The client gets it with a hint as
// error_description. The server's observer also gets the cause.
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
	issuerUnreachable reason = "the authorization server does not answer as it must"
	lookUpsSpent      reason = "too many tokens were looked up that did not count"
	hostSilent        reason = "a function of the host has not returned"
	keyNotPublished   reason = "the authorization server has not published the key of the token"
	severalHeaders    reason = "several Authorization headers"
	badHeader         reason = "Authorization header"
)

// A hint says why a token was refused, and which option would allow it, without quoting the token.
type hint string

const (
	hintOpaque hint = "it is not a JSON Web Token, and the server looks none up (see " +
		"Issuer.Introspection, Issuer.Verify)"
	hintEncrypted hint = "it is encrypted, so request one that is signed, of Auth0 with the " +
		"parameter audience, or have the issuer look it up (see Issuer.Introspection)"
	hintAlgorithm  hint = "its signature algorithm is not accepted"
	hintType       hint = "typ in its header is not an access token's (see Issuer.Type)"
	hintNotAccess  hint = "it is an ID token, or another that is not for access"
	hintUnmarked   hint = "it may be an ID token (see Issuer.Unmarked)"
	hintTokenType  hint = "the issuer says that it is no bearer token"
	hintBound      hint = "it is bound to a key, so that it is no bearer token"
	hintIssuer     hint = "its iss is not accepted (see Options.Issuers, Issuer.AnyTenant)"
	hintTenant     hint = "its tid is not the tenant in its iss (see Issuer.AnyTenant)"
	hintKey        hint = "its issuer does not publish the key (see Issuer.KeysURL)"
	hintSignature  hint = "its issuer publishes another key under its key id"
	hintAudience   hint = "the token must be for %s (see Issuer.Audiences)" // with Options.Resource
	hintNoAudience hint = "the token has no aud; it must be for %s (see Issuer.NoAudience)"
	hintClient     hint = "the token has no aud, and its client is not in Issuer.NoAudience"
	hintOwnScope   hint = "the token has no aud, and lacks the scope in Issuer.NoAudience"
	hintSubject    hint = "Options.Subject refused it"
	hintNobody     hint = "it has no sub (see Issuer.Machines, Options.Subject)"
	hintClientName hint = "its sub looks like a client (see Options.Subject)"
	hintScopes     hint = "Issuer.ScopesOf refused it"
	hintNoExpiry   hint = "it has no exp"
	hintClock      hint = "compare the clocks"
)

// A refusedError refuses a request: permanently with 400 or 401, or 503 if verification must wait.
type refusedError struct {
	why        reason
	hint       hint          // may be empty
	cause      error         // may be nil
	retryAfter time.Duration // pause before a retry; 0: permanent
}

func (e *refusedError) Error() string {
	text := "bearer: "
	if e.retryAfter == 0 {
		text += "token refused: "
	}
	text += string(e.why)
	if e.hint != "" {
		text += ": " + string(e.hint)
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

func (e *refusedError) Unwrap() error { return e.cause }

func refuse(why reason, hint hint, cause error) *refusedError {
	return &refusedError{why, hint, cause, 0}
}

// postpone returns the error of a transient failure. after must be positive. cause may be nil.
func postpone(why reason, after time.Duration, cause error) *refusedError {
	return &refusedError{why, "", cause, after}
}

func isRefusal(err error) bool {
	_, ok := errors.AsType[*refusedError](err)
	return ok
}

const defaultRetry = 5 * time.Second // while the issuer is unreachable

// authError returns the response for an error of authenticateRequest (RFC 6750, section 3.1).
func (g *ResourceServer) authError(err error) *serverhttp.AuthError {
	refused, ok := errors.AsType[*refusedError](err)
	if !ok {
		refused = refuse(malformed, "", err)
	}
	if refused.retryAfter > 0 {
		return &serverhttp.AuthError{Status: http.StatusServiceUnavailable,
			RetryAfter: refused.retryAfter, Err: err}
	}
	switch refused.why {
	case noToken: // the response to a request without a token has no error code
		return &serverhttp.AuthError{Status: http.StatusUnauthorized,
			Challenge: g.formatChallenge("", "", g.opts.Scopes), Err: err}
	case badHeader, severalHeaders:
		return &serverhttp.AuthError{Status: http.StatusBadRequest,
			Challenge: g.formatChallenge("invalid_request", string(refused.why), nil), Err: err}
	}
	description := string(refused.why)
	if refused.hint != "" {
		description += ": " + string(refused.hint)
	}
	challenge := g.formatChallenge("invalid_token", description, g.opts.Scopes)
	return &serverhttp.AuthError{Status: http.StatusUnauthorized, Challenge: challenge, Err: err}
}

// nameResource inserts Options.Resource, escaped for error_description (RFC 6750, section 3).
func (g *ResourceServer) nameResource(h hint) hint {
	u, _ := url.Parse(g.opts.Resource) // New has checked it
	return hint(strings.Replace(string(h), "%s", u.String(), 1))
}

// Challenge implements [serverhttp.Authority]. It names [Options].Scopes and the scopes of lack,
// which may be nil. The status is 403, or 401 for an anonymous request.
func (g *ResourceServer) Challenge(id serverhttp.Identity,
	lack *server.ScopeError) *serverhttp.AuthError {
	need := rules.UniteScopes(g.opts.Scopes)
	if lack != nil {
		need = rules.UniteScopes(need, lack.Need)
	}
	if id.Principal.Anonymous() {
		return &serverhttp.AuthError{Status: http.StatusUnauthorized,
			Challenge: g.formatChallenge("", "", need)}
	}
	var have []string
	if id.Access != nil {
		have = id.Access.Scopes
	}
	return &serverhttp.AuthError{Status: http.StatusForbidden,
		Challenge: g.formatChallenge("insufficient_scope", "more scopes are needed", need),
		Err: fmt.Errorf("bearer: more scopes are needed: %s; %w (see Issuer.ScopesOf, "+
			"Options.Implies)", quoteValues(need), describeScopes(have))}
}

// formatChallenge returns a WWW-Authenticate header (RFC 6750, section 3; RFC 9728, section 5.1).
// Its parameters need no escaping.
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
