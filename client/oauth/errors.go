package oauth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A LoginRequiredError: a call needs a login, without an [Interaction]. See [Source.Begin].
type LoginRequiredError struct {
	Scopes []string // scopes of the server's challenge, if any

	challenge challenge
}

// Error returns a text for the host's log.
func (e *LoginRequiredError) Error() string {
	return "oauth: login required; Options.Interaction is nil, see Source.Begin"
}

// An InsufficientScopeError reports a request that lacks scopes which another login would not add:
// the server refused it after a login for them, or names no scopes, or the operation has led to two
// such logins, or the user denied one (then the error is also [ErrDenied]).
type InsufficientScopeError struct {
	// Needed are the challenge's scopes, Granted the token's.
	Needed, Granted []string
}

// Error names both sets of scopes.
func (e *InsufficientScopeError) Error() string {
	text := fmt.Sprintf("oauth: the server needs the scopes %q, and %q were granted",
		strings.Join(e.Needed, " "), strings.Join(e.Granted, " "))
	if len(e.Needed) > 0 && !slices.ContainsFunc(e.Needed, func(scope string) bool {
		return !slices.Contains(e.Granted, scope)
	}) {
		text += ": it does not find them in the token"
	}
	return text
}

// A TokenError reports a token request that failed or was refused.
type TokenError struct {
	Issuer     string        // of the authorization server
	Code       string        // error code, if defined by RFC 6749 or RFC 8707
	Retryable  bool          // a later request may succeed; the login is kept
	RetryAfter time.Duration // pause before the next request, at most a day; 0 if not sent
	Err        error         // cause; server text is quoted and cut to 200 bytes

	unreadable bool // the server sent neither tokens nor an error
}

// Error names the issuer, the code and the cause.
func (e *TokenError) Error() string {
	text := "oauth: no token from " + e.Issuer
	if e.Code != "" {
		text += ": " + e.Code
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Retryable {
		text += " (try again later)"
	}
	return text
}

// Unwrap returns Err.
func (e *TokenError) Unwrap() error { return e.Err }

// An ErrorKind is the class of an [Error], and the target of errors.Is(err, oauth.ErrStore).
type ErrorKind string

const (
	// ErrMetadata: metadata of an MCP or authorization server is refused or unreadable. No login
	// has begun.
	ErrMetadata ErrorKind = "no usable metadata"
	// ErrUntrusted: metadata is of another resource (RFC 9728, section 3.3) or issuer (RFC 8414,
	// section 3.3), or a server names a forbidden address (see "Addresses"). An Error wraps it.
	ErrUntrusted ErrorKind = "the server is not to be trusted"
	// ErrRegistration: this client has no client id at the authorization server.
	ErrRegistration ErrorKind = "no client id"
	// ErrCallback: a callback URL is not the authorization response to the login.
	ErrCallback ErrorKind = "the callback is refused"
	// ErrLogin: the authorization response has an error (RFC 6749, section 4.1.2.1) other than
	// access_denied, or a login failed within the last minute.
	ErrLogin ErrorKind = "the login failed"
	// ErrDenied: the login was denied (access_denied). It is not repeated within five minutes.
	ErrDenied ErrorKind = "access was denied"
	// ErrStore: the [TokenStore] failed. An unreadable record is not replaced.
	ErrStore ErrorKind = "the store failed"
)

// Error returns the name of the class.
func (k ErrorKind) Error() string { return "oauth: " + string(k) }

// An Error is a failure to be shown or logged. Programs can recover from the other error types.
type Error struct {
	Kind ErrorKind
	URL  string // of the document; issuer if not registered or without document; else empty
	Err  error  // cause, may be nil; server text is quoted and cut to 200 bytes
}

// Error names the class, the URL and the cause.
func (e *Error) Error() string {
	text := e.Kind.Error()
	if e.URL != "" {
		text += ": " + quoteUntrusted(e.URL)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the Kind of the error.
func (e *Error) Is(target error) bool { return target == e.Kind }

// An untrustedError is the cause of an Error. Its class is ErrUntrusted.
type untrustedError string

func (e untrustedError) Error() string { return string(e) }

func (e untrustedError) Is(target error) bool { return target == ErrUntrusted }

func metadataError(at string, cause error) error { return &Error{ErrMetadata, at, cause} }

func callbackError(cause string) error { return &Error{Kind: ErrCallback, Err: errors.New(cause)} }

// storeError returns nil if cause is nil.
func storeError(cause error) error {
	if cause == nil {
		return nil
	}
	return &Error{Kind: ErrStore, Err: cause}
}

// knownErrorCode returns a standard code, and "" for others, which are untrusted text.
func knownErrorCode(code string) string {
	switch code {
	case "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client",
		"unsupported_grant_type", "invalid_scope", "invalid_target", "access_denied",
		"unsupported_response_type", "server_error", "temporarily_unavailable",
		"invalid_redirect_uri", "invalid_client_metadata", "login_required",
		"interaction_required", "consent_required", "account_selection_required":
		return code
	}
	return ""
}

const maxQuoted = 200 // limit in bytes for quoted untrusted text

func quoteUntrusted(text string) string {
	if len(text) > maxQuoted {
		text = text[:maxQuoted] + "…"
	}
	return fmt.Sprintf("%+q", text)
}
