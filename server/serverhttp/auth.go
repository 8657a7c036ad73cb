package serverhttp

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// An AuthError refuses a request on behalf of [Options.Authenticate] or an
// [Authority], and says how (basic/authorization, "Error Handling").
type AuthError struct {
	// Status is 401 when the request lacks valid credentials, or 403 when
	// they do not suffice. An [Authority] may also say 400, for a request whose
	// credentials are malformed, and 503, while it cannot check credentials.
	// Anything else counts as 401.
	Status int
	// Challenge is the value of the WWW-Authenticate header, for example
	//
	//	Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"
	//
	// Empty: "Bearer" with status 401, which must have one, no header with others.
	Challenge string
	// RetryAfter is when a client that is refused with 503 may come back, rounded up to
	// seconds. 0: after 5 seconds.
	RetryAfter time.Duration
	// Err tells why. It is not sent; the observer of the server gets it with
	// [event.RequestRefused], the request's credentials masked in its text.
	// Nil: nothing more to say.
	Err error
}

// Error returns the text of Err, or that of the status.
func (e *AuthError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return http.StatusText(e.statusCode())
}

// Unwrap returns Err.
func (e *AuthError) Unwrap() error { return e.Err }

func (e *AuthError) statusCode() int {
	if e.Status == http.StatusForbidden {
		return http.StatusForbidden
	}
	return http.StatusUnauthorized
}

// authenticate asks the hook who sends r. Without a hook everybody is
// anonymous.
func (h *Handler) authenticate(r *http.Request) (protocol.Principal, *fault) {
	if h.opts.Authenticate == nil {
		return protocol.Principal{}, nil
	}
	principal, err := h.opts.Authenticate(r)
	if err == nil {
		return principal, nil
	}
	refused, ok := errors.AsType[*AuthError](err)
	if !ok {
		refused = &AuthError{}
	} else if refused == nil {
		refused = &AuthError{}
		err = refused // a nil pointer cannot be printed
	}
	f := &fault{status: refused.statusCode(), reason: event.RefusedForbidden,
		header: "WWW-Authenticate", value: refused.Challenge}
	if f.status == http.StatusUnauthorized {
		f.reason = event.RefusedUnauthenticated
		f.value = cmp.Or(f.value, "Bearer")
	}
	f.cause = newHookError(r, err)
	// The text of the error may tell an attacker what to try next.
	f.err = protocol.Errorf(protocol.CodeInvalidRequest, "%s", http.StatusText(f.status))
	return protocol.Principal{}, f
}
