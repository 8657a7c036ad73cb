package oauth

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrDenied says that the person, or the authorization server in the place of the person, has
// refused. Asking again without a reason would annoy.
var ErrDenied = errors.New("oauth: access was denied")

// A LoginRequiredError says that a person has to log in, where no [Interaction] can have them do
// so. Hosts pass it to [Source.Begin].
type LoginRequiredError struct {
	// Scopes are those that the server has named.
	Scopes []string

	challenge challenge
}

// Error tells what is wrong, and what can be done.
func (e *LoginRequiredError) Error() string {
	return "oauth: the person has to log in; Options.Interaction is nil, see Source.Begin"
}

// A ScopeError says that the server goes on to refuse a request although a login was tried, or that
// the person has refused to grant what it needs.
type ScopeError struct {
	Needed, Granted []string
}

// Error tells what is wrong, and what can be done.
func (e *ScopeError) Error() string {
	return fmt.Sprintf("oauth: the server needs the scopes %q, and %q were granted",
		strings.Join(e.Needed, " "), strings.Join(e.Granted, " "))
}

// A MetadataError says that a document of a server or an authorization server cannot be used.
// Nobody was asked to log in.
type MetadataError struct {
	// URL is where the document is.
	URL string
	// Err tells what is wrong with it.
	Err error
}

// Error tells what is wrong, and what can be done.
func (e *MetadataError) Error() string {
	return fmt.Sprintf("oauth: %s: %v", quoteForeign(e.URL), e.Err)
}

// Unwrap returns Err.
func (e *MetadataError) Unwrap() error { return e.Err }

// A StoreError says that the [Store] fails. Nothing that it holds is replaced before it can be
// read.
type StoreError struct{ Err error }

// Error tells what is wrong, and what can be done.
func (e *StoreError) Error() string { return "oauth: the store: " + e.Err.Error() }

// Unwrap returns Err.
func (e *StoreError) Unwrap() error { return e.Err }

// A ResourceError says that the metadata of a server is about another resource.
type ResourceError struct{ Want, Got string }

// Error tells what is wrong, and what can be done.
func (e *ResourceError) Error() string {
	return fmt.Sprintf("the metadata is about the resource %s, and not about %s: "+
		"tokens for it must not be sent here", quoteForeign(e.Got), e.Want)
}

// An IssuerError says that an authorization server is not the one that was named.
type IssuerError struct{ Want, Got string }

// Error tells what is wrong, and what can be done.
func (e *IssuerError) Error() string {
	return fmt.Sprintf("the issuer is %s, and not %q", quoteForeign(e.Got), e.Want)
}

// A RegistrationError says that this client is not known to an authorization server.
type RegistrationError struct {
	Issuer string
	// Err tells why it could not be registered.
	Err error
}

// Error tells what is wrong, and what can be done.
func (e *RegistrationError) Error() string {
	return fmt.Sprintf("oauth: this client has no id at %s: %v", e.Issuer, e.Err)
}

// Unwrap returns Err.
func (e *RegistrationError) Unwrap() error { return e.Err }

// A TokenError is the refusal or the failure of an authorization server to give tokens.
type TokenError struct {
	Issuer string
	// Code is the error code, of those that RFC 6749 and RFC 8707 define; empty: there was none.
	Code string
	// Retryable is true where a later request may succeed: nothing was forgotten then.
	Retryable bool
	// RetryAfter is when, if the server says so.
	RetryAfter time.Duration
	// Err tells what happened; it does not quote the server.
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

// A CallbackError says that what the browser came back with is not the answer to the login.
type CallbackError struct{ Reason string }

// Error tells what is wrong, and what can be done.
func (e *CallbackError) Error() string { return "oauth: the callback is refused: " + e.Reason }

// A LoginError is the error that an authorization server has answered a login with.
type LoginError struct {
	// Code is the error code, of those that RFC 6749 defines; empty: another one.
	Code string
	// Text is what the server says for people, quoted and cut.
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

// Is makes access_denied an [ErrDenied].
func (e *LoginError) Is(target error) bool {
	return target == ErrDenied && e.Code == "access_denied"
}

// A BlockedAddressError says that a server has named an address which must not be asked for its
// sake.
type BlockedAddressError struct {
	Host   string
	Reason string
}

// Error tells what is wrong, and what can be done.
func (e *BlockedAddressError) Error() string {
	return fmt.Sprintf("the address of %s must not be asked: %s", quoteForeign(e.Host), e.Reason)
}

// knownCode returns code if it is one that the specifications define: others are text of a
// stranger.
func knownCode(code string) string {
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

// maxForeign is how much of a text of a stranger is shown.
const maxForeign = 200

// quoteForeign shows a text of a stranger: quoted, so that it cannot pass for ours, and cut.
func quoteForeign(text string) string {
	if len(text) > maxForeign {
		text = text[:maxForeign] + "…"
	}
	return fmt.Sprintf("%+q", text)
}
