package oauth

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrDenied says that the person, or the authorization server on their behalf, has denied a login
// (access_denied). The same login is not requested again within five minutes.
var ErrDenied = errors.New("oauth: access was denied")

// A LoginRequiredError says that a person has to log in, and that there is no [Interaction]. Hosts
// pass it to [Source.Begin].
type LoginRequiredError struct {
	// Scopes are those that the server needs, as its challenge says. They may be empty.
	Scopes []string

	challenge challenge
}

// Error tells what is wrong, and what can be done.
func (e *LoginRequiredError) Error() string {
	return "oauth: the person has to log in; Options.Interaction is nil, see Source.Begin"
}

// A ScopeError says that a request lacks scopes, and that another login would not help: the server
// has refused the request after a login for them, or names none, or the operation has led to two
// such logins, or the person has denied one. In the last case the error is also [ErrDenied].
type ScopeError struct {
	// Needed are the scopes of the challenge, and Granted those of the token.
	Needed, Granted []string
}

// Error tells what is wrong, and what can be done.
func (e *ScopeError) Error() string {
	return fmt.Sprintf("oauth: the server needs the scopes %q, and %q were granted",
		strings.Join(e.Needed, " "), strings.Join(e.Granted, " "))
}

// A MetadataError says that the metadata of an MCP server or an authorization server is refused or
// cannot be read. The person was not asked to log in.
type MetadataError struct {
	// URL is that of the document, or the issuer where no document was found.
	URL string
	// Err says what is wrong, for example a [*ResourceError], a [*IssuerError] or a
	// [*BlockedAddressError].
	Err error
}

// Error tells what is wrong, and what can be done.
func (e *MetadataError) Error() string {
	return fmt.Sprintf("oauth: %s: %v", quoteUntrusted(e.URL), e.Err)
}

// Unwrap returns Err.
func (e *MetadataError) Unwrap() error { return e.Err }

// A StoreError says that the [Store] has failed. A record that cannot be read is not replaced.
type StoreError struct {
	// Err is the error of the store.
	Err error
}

// Error tells what is wrong, and what can be done.
func (e *StoreError) Error() string { return "oauth: the store: " + e.Err.Error() }

// Unwrap returns Err.
func (e *StoreError) Unwrap() error { return e.Err }

// A ResourceError says that the metadata of a server is about another resource (RFC 9728, section
// 3.3).
type ResourceError struct {
	// Want is the endpoint, and Got the resource of the metadata.
	Want, Got string
}

// Error tells what is wrong, and what can be done.
func (e *ResourceError) Error() string {
	return fmt.Sprintf("the metadata is about the resource %s, and not about %s: "+
		"tokens for it must not be sent here", quoteUntrusted(e.Got), e.Want)
}

// An IssuerError says that the metadata of an authorization server is that of another issuer (RFC
// 8414, section 3.3).
type IssuerError struct {
	// Want is the issuer that was named, and Got that of the metadata.
	Want, Got string
}

// Error tells what is wrong, and what can be done.
func (e *IssuerError) Error() string {
	return fmt.Sprintf("the issuer is %s, and not %q", quoteUntrusted(e.Got), e.Want)
}

// A RegistrationError says that this client has no client id at an authorization server.
type RegistrationError struct {
	// Issuer is the authorization server.
	Issuer string
	// Err says why it could not be registered.
	Err error
}

// Error tells what is wrong, and what can be done.
func (e *RegistrationError) Error() string {
	return fmt.Sprintf("oauth: this client has no id at %s: %v", e.Issuer, e.Err)
}

// Unwrap returns Err.
func (e *RegistrationError) Unwrap() error { return e.Err }

// A TokenError says that a token request has failed or was refused.
type TokenError struct {
	// Issuer is the authorization server.
	Issuer string
	// Code is the error code, of those that RFC 6749 and RFC 8707 define. Empty: the response has
	// none, or another.
	Code string
	// Retryable reports whether a later request may succeed. The login is kept then.
	Retryable bool
	// RetryAfter is how long to wait before, at most a day. 0: the server does not say.
	RetryAfter time.Duration
	// Err says what happened. It does not quote the server.
	Err error
}

// Error tells what is wrong, and what can be done.
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

// A CallbackError says that a callback URL is not the authorization response to the login, for
// example because its state is another.
type CallbackError struct {
	// Reason says what is wrong. It does not quote the URL.
	Reason string
}

// Error tells what is wrong, and what can be done.
func (e *CallbackError) Error() string { return "oauth: the callback is refused: " + e.Reason }

// A LoginError is an authorization response with an error (RFC 6749, section 4.1.2.1).
type LoginError struct {
	// Code is the error code, of those that RFC 6749 and OpenID Connect define. Empty: another
	// one.
	Code string
	// Text is the error_description, quoted, and cut after 200 bytes.
	Text string
}

// Error tells what is wrong, and what can be done.
func (e *LoginError) Error() string {
	text := "oauth: the login failed"
	if e.Code != "" {
		text += ": " + e.Code
	}
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// Is reports whether target is [ErrDenied] and the code access_denied.
func (e *LoginError) Is(target error) bool {
	return target == ErrDenied && e.Code == "access_denied"
}

// A BlockedAddressError says that a server has named an address to which no request is sent on its
// behalf; see "Addresses".
type BlockedAddressError struct {
	// Host is the address.
	Host string
	// Reason says why no request is sent there.
	Reason string
}

// Error tells what is wrong, and what can be done.
func (e *BlockedAddressError) Error() string {
	return fmt.Sprintf("the address of %s must not be asked: %s", quoteUntrusted(e.Host), e.Reason)
}

// knownErrorCode returns code if a specification defines it, or else nothing: any other code is
// text that an untrusted server has chosen.
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

// maxQuoted is how many bytes of an untrusted text are shown.
const maxQuoted = 200

// quoteUntrusted returns text of a server for an error: cut, and quoted, so that it is not taken
// for text of this package.
func quoteUntrusted(text string) string {
	if len(text) > maxQuoted {
		text = text[:maxQuoted] + "…"
	}
	return fmt.Sprintf("%+q", text)
}
