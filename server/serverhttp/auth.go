package serverhttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// An Authority authenticates and authorizes requests, and makes the challenge for missing scopes
// (basic/authorization). Calls overlap. Errors are treated like those of [Options].Authenticate.
type Authority interface {
	// Identify identifies the sender of an HTTP request, also within a session, by its headers; it
	// must not read the body. An [*AuthError] chooses the refusal, any other error is 401. The
	// owner of a session identifies a forwarded request again.
	Identify(r *http.Request) (Identity, error)
	// Challenge returns the refusal of a request that lacks scopes: 403, or 401 for a caller
	// without credentials. Nil means 403 with the challenge of [RFC 6750], without a metadata URL.
	//
	// [RFC 6750]: https://www.rfc-editor.org/rfc/rfc6750#section-3.1
	Challenge(id Identity, lack *server.ScopeError) *AuthError
}

// An Identity describes the sender of a request.
type Identity struct {
	// Principal is the sender. Sessions and sealed state are bound to it.
	Principal protocol.Principal
	// Access holds the permissions of this request. In a session each request has its own. Nil
	// permits nothing that has scopes.
	Access *server.Access
	// Values derives the context of the request's handler, for example with the claims of a token.
	// It must not add the token itself: a handler could pass it on to another server. May be nil.
	Values func(context.Context) context.Context
}

// An AuthError is the refusal of a request by [Options.Authenticate] or an [Authority]
// (basic/authorization, "Error Handling").
type AuthError struct {
	// Status is 401 for missing or invalid credentials, or 403 if they do not suffice. An
	// [Authority] may also return 400 for malformed credentials, and 503 while it cannot check
	// them. Any other value counts as 401.
	Status int
	// Challenge is the WWW-Authenticate header, for example
	//
	//	Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"
	//
	// Empty means "Bearer" with status 401, otherwise no header.
	Challenge  string
	RetryAfter time.Duration // of a 503, rounded up to seconds; 0 means 5 seconds
	// Err is the cause, for the server's observer only ([event.RequestRefused]). Credentials in its
	// text are masked. May be nil.
	Err error
}

// Error returns the text of Err, or of the status.
func (e *AuthError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return http.StatusText(e.statusCode())
}

// Unwrap returns Err.
func (e *AuthError) Unwrap() error { return e.Err }

func (e *AuthError) statusCode() int {
	switch e.Status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusServiceUnavailable:
		return e.Status
	}
	return http.StatusUnauthorized
}

// defaultAuthRetry is the Retry-After while credentials cannot be checked.
const defaultAuthRetry = 5 * time.Second

func (e *AuthError) retryAfter() time.Duration {
	return cmp.Or(max(e.RetryAfter, 0), defaultAuthRetry)
}

func (e *AuthError) responseHeader() (name, value string) {
	switch e.statusCode() {
	case http.StatusUnauthorized:
		return "WWW-Authenticate", cmp.Or(e.Challenge, "Bearer")
	case http.StatusServiceUnavailable:
		return "Retry-After", retrySeconds(e.retryAfter())
	}
	return "WWW-Authenticate", e.Challenge
}

// authenticate returns the sender of r and sets an authority's result in rw.
func (h *Handler) authenticate(rw *responseWriter, r *http.Request) (protocol.Principal, *fault) {
	switch {
	case h.opts.Authority != nil:
		id, err := h.opts.Authority.Identify(r)
		if err != nil {
			return protocol.Principal{}, newAuthFault(r, "Authority", err)
		}
		rw.access, rw.values = id.Access, id.Values
		return id.Principal, nil
	case h.opts.Authenticate != nil:
		principal, err := h.opts.Authenticate(r)
		if err != nil {
			return protocol.Principal{}, newAuthFault(r, "Authenticate", err)
		}
		return principal, nil
	}
	return protocol.Principal{}, nil
}

func (o *Options) authenticates() bool { return o.Authenticate != nil || o.Authority != nil }

// newAuthFault returns the fault for a request that the hook of an option refuses.
func newAuthFault(r *http.Request, option string, err error) *fault {
	refused, ok := errors.AsType[*AuthError](err)
	if !ok {
		refused = &AuthError{}
	} else if refused == nil {
		refused = &AuthError{}
		err = refused // a nil pointer cannot be printed
	}
	if s := refused.statusCode(); option == "Authenticate" && s != http.StatusForbidden {
		refused = &AuthError{Challenge: refused.Challenge} // no other status
	}
	cause := newHookError(r, option, err)
	if refused.statusCode() == http.StatusServiceUnavailable {
		f := busyFault(http.StatusServiceUnavailable, words.RefusedUnverified, quota.None,
			refused.retryAfter(), "credentials cannot be checked at the moment")
		f.cause = cause
		return f
	}
	f := &fault{status: refused.statusCode(), reason: reasonOf(refused.statusCode()), cause: cause}
	f.header, f.value = refused.responseHeader()
	// The hook's text might help an attacker.
	f.err = protocol.Errorf(protocol.CodeInvalidRequest, "%s", http.StatusText(f.status))
	return f
}

func reasonOf(status int) event.RefusalReason {
	switch status {
	case http.StatusBadRequest:
		return words.RefusedCredentials
	case http.StatusForbidden:
		return words.RefusedForbidden
	}
	return words.RefusedUnauthenticated
}

type lack struct {
	err       *server.ScopeError
	principal protocol.Principal
	access    *server.Access
}

// lackOf returns the scopes that a call lacks, or nil. It is not inlined into serveCall, whose
// frame stays on the stack while a call waits.
//
//go:noinline
func lackOf(admitted *server.Admission) *lack {
	err := admitted.ScopeError()
	if err == nil {
		return nil
	}
	request := admitted.Request()
	return &lack{err, request.Principal, request.Access}
}

// challengeLack sets the challenge header for missing scopes, reports the authority's reason, and
// returns the status. It does nothing if the response has begun.
func (rw *responseWriter) challengeLack(id protocol.ID, l *lack) (status int) {
	if rw.isStreaming() {
		return http.StatusOK
	}
	var refused *AuthError
	if authority := rw.h.opts.Authority; authority != nil {
		refused = authority.Challenge(Identity{l.principal, l.access, rw.values}, l.err)
	}
	if refused == nil {
		refused = &AuthError{Status: http.StatusForbidden, Challenge: scopeChallenge(l.err.Need)}
	}
	if name, value := refused.responseHeader(); value != "" {
		rw.w.Header().Set(name, value)
	}
	status = refused.statusCode()
	if refused.Err != nil {
		wire, _ := protocol.AsError(l.err)
		rw.h.reportRefusal(rw.r, &fault{status: status, reason: reasonOf(status), id: id, err: wire,
			cause: newHookError(rw.r, "Authority", refused)})
	}
	return status
}

func scopeChallenge(need []string) string {
	challenge := `Bearer error="insufficient_scope"`
	if scopes := rules.UniteScopes(need); len(scopes) > 0 {
		challenge += `, scope="` + strings.Join(scopes, " ") + `"`
	}
	return challenge
}

func (rw *responseWriter) handlerContext(r *http.Request) context.Context {
	if rw.values == nil {
		return r.Context()
	}
	return rw.values(r.Context())
}
