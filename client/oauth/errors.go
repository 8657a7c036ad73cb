package oauth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A LoginRequiredError reports a call that needs a login without an [Interaction]. Hosts pass it to
// [Source.Begin].
type LoginRequiredError struct {
	// Scopes are those of the challenge of the server, if any.
	Scopes []string

	challenge challenge
}

// Error returns a text for the log of the host.
func (e *LoginRequiredError) Error() string {
	return "oauth: the person has to log in; Options.Interaction is nil, see Source.Begin"
}

// An InsufficientScopeError reports a request that lacks scopes where another login would not help:
// the server has refused the request after a login for them, or names none, or the operation has
// led to two such logins, or the person has denied one; then the error is also [ErrDenied].
type InsufficientScopeError struct {
	// Needed are the scopes of the challenge, and Granted those of the token.
	Needed, Granted []string
}

// Error returns a text with both sets of scopes.
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
	// Issuer is the authorization server.
	Issuer string
	// Code is the error code, if RFC 6749 or RFC 8707 defines it.
	Code string
	// Retryable reports whether a later request may succeed. The login is kept then.
	Retryable bool
	// RetryAfter is the pause before the next request, at most a day. 0: the response has none.
	RetryAfter time.Duration
	// Err is the cause. Text of a server is quoted, and cut after 200 bytes.
	Err error

	unreadable bool // the server has answered, neither with tokens nor with an error
}

// Error returns a text with the issuer, the code and the cause.
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
	// ErrMetadata: the metadata of an MCP server or an authorization server is refused or cannot be
	// read. No login began.
	ErrMetadata ErrorKind = "no usable metadata"
	// ErrUntrusted: the metadata of a server is that of another resource (RFC 9728, section 3.3) or
	// issuer (RFC 8414, section 3.3), or the server names an address that must not be reached (see
	// "Addresses"). Another error of this package wraps it.
	ErrUntrusted ErrorKind = "the server is not to be trusted"
	// ErrRegistration: this client has no client id at the authorization server.
	ErrRegistration ErrorKind = "no client id"
	// ErrCallback: a callback URL is not the authorization response to the login.
	ErrCallback ErrorKind = "the callback is refused"
	// ErrLogin: the authorization response has an error (RFC 6749, section 4.1.2.1) other than
	// access_denied, or a login has failed within the last minute.
	ErrLogin ErrorKind = "the login failed"
	// ErrDenied: the login was denied (access_denied). The same login is not requested again within
	// five minutes.
	ErrDenied ErrorKind = "access was denied"
	// ErrStore: the [TokenStore] has failed. A record that cannot be read is not replaced.
	ErrStore ErrorKind = "the store failed"
)

// Error returns the name of the class, for errors.Is.
func (k ErrorKind) Error() string { return "oauth: " + string(k) }

// An Error reports a failure whose text a program shows or logs. After the other error types of
// this package it can go on by itself.
type Error struct {
	// Kind is the class of the failure.
	Kind ErrorKind
	// URL is that of the document, or the issuer of ErrRegistration and where no document was
	// found. Empty for the other classes.
	URL string
	// Err is the cause, which may be nil. Text of a server is quoted, and cut after 200 bytes.
	Err error
}

// Error returns a text with the class, the URL and the cause.
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

// An untrustedError is the cause of an Error, and of the class ErrUntrusted.
type untrustedError string

func (e untrustedError) Error() string { return string(e) }

func (e untrustedError) Is(target error) bool { return target == ErrUntrusted }

// metadataError returns the error of a document, or of an issuer without one.
func metadataError(at string, cause error) error { return &Error{ErrMetadata, at, cause} }

// callbackError returns the error of a callback URL. cause does not quote the URL.
func callbackError(cause string) error { return &Error{Kind: ErrCallback, Err: errors.New(cause)} }

// storeError returns the error of a failed Store.
func storeError(cause error) error { return &Error{Kind: ErrStore, Err: cause} }

// knownErrorCode returns code if a specification defines it, or else nothing: other codes are
// untrusted text.
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

// maxQuoted bounds the bytes of an untrusted text that are shown.
const maxQuoted = 200

// quoteUntrusted returns text of a server for an error, cut and quoted.
func quoteUntrusted(text string) string {
	if len(text) > maxQuoted {
		text = text[:maxQuoted] + "…"
	}
	return fmt.Sprintf("%+q", text)
}
