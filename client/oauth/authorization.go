package oauth

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"time"
)

// A Login is an unfinished login: the URL for the user, and the values that the authorization
// response must match (RFC 6749, section 4.1.2). Its JSON has secrets: seal it for other processes.
type Login struct {
	URL string // authorization request, for the user's browser

	data loginData
}

type loginData struct {
	URL         string    `json:"url"`
	Endpoint    string    `json:"endpoint"`
	Account     string    `json:"account,omitempty"`
	Issuer      string    `json:"issuer"` // as spelled in its metadata
	Resource    string    `json:"resource"`
	RedirectURI string    `json:"redirect_uri"`
	ClientID    string    `json:"client_id"`
	State       string    `json:"state"`
	Verifier    string    `json:"verifier"`
	Scopes      []string  `json:"scopes,omitempty"`
	Began       time.Time `json:"began"`
	OfIssuer    bool      `json:"redirect_of_issuer,omitempty"` // the issuer has its own
}

// MarshalJSON implements [json.Marshaler].
func (l Login) MarshalJSON() ([]byte, error) {
	l.data.URL = l.URL
	return json.Marshal(l.data)
}

// UnmarshalJSON implements [json.Unmarshaler]. Its error does not quote data.
func (l *Login) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &l.data); err != nil {
		return errors.New("oauth: it is not a login")
	}
	l.URL = l.data.URL
	return nil
}

// Format implements [fmt.Formatter]. It prints only the issuer, for every verb.
func (l Login) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, l.LogValue().String()) }

// LogValue implements [slog.LogValuer] as Format does.
func (l Login) LogValue() slog.Value { return slog.StringValue("login at " + l.data.Issuer) }

// authorizationURL returns the authorization request (RFC 6749, section 4.1.1; RFC 7636, section
// 4.3; RFC 8707, section 2). Other parameters in the endpoint's URL stay.
func (l *loginData) authorizationURL(m *serverMetadata, p *Provider) (string, error) {
	u, err := url.Parse(m.Authorization)
	if err != nil {
		return "", metadataError(l.Issuer, errors.New("authorization_endpoint is no URL"))
	}
	q, sum := u.Query(), sha256.Sum256([]byte(l.Verifier))
	resource := l.Resource
	if p.NoResource {
		resource = ""
	}
	for name, value := range map[string]string{
		"response_type": "code", "client_id": l.ClientID, "redirect_uri": l.RedirectURI,
		"state": l.State, "resource": resource, "scope": joinScopes(p.serverScopes(l.Scopes)),
		"code_challenge":        base64.RawURLEncoding.EncodeToString(sum[:]),
		"code_challenge_method": "S256",
	} {
		if q.Del(name); value != "" {
			q.Set(name, value)
		}
	}
	if slices.Contains(l.Scopes, scopeOfflineAccess) && !p.NoPrompt {
		q.Set("prompt", "consent") // OpenID Connect requires it for offline_access
	}
	for name, value := range p.AuthorizationParameters {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// readCallback checks an authorization response and returns its code (RFC 6749, section 4.1.2; RFC
// 9207, section 2.4). State and issuer are checked before anything else is used or shown.
func (l *loginData) readCallback(callback *url.URL, m *serverMetadata) (code string, err error) {
	q, err := url.ParseQuery(callback.RawQuery)
	if err != nil {
		return "", callbackError("it cannot be read")
	}
	for _, name := range []string{"state", "iss", "code", "error", "error_description"} {
		if len(q[name]) > 1 {
			return "", callbackError("it has " + name + " twice")
		}
	}
	if l.OfIssuer && !isRedirectedTo(callback, l.RedirectURI) {
		return "", callbackError("it belongs to a login at another issuer")
	}
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(l.State)) != 1 {
		return "", callbackError("its state does not match the login")
	}
	switch iss, sent := q["iss"]; {
	case sent && iss[0] != m.Issuer:
		return "", callbackError("it comes from another issuer")
	case !sent && m.SendsIssuer:
		return "", callbackError("it does not say which issuer it comes from")
	}
	if q.Has("error") {
		if q.Has("code") {
			return "", callbackError("it has a code and an error")
		}
		return "", readLoginError(q)
	}
	if code = q.Get("code"); code == "" {
		return "", callbackError("it has no code")
	}
	return code, nil
}

// isRedirectedTo compares path and query only: the authority may differ behind a proxy.
func isRedirectedTo(callback *url.URL, redirectURI string) bool {
	u, err := url.Parse(redirectURI)
	if err != nil || callback.EscapedPath() != u.EscapedPath() {
		return false
	}
	sent := callback.Query()
	for name, values := range u.Query() {
		if !slices.Equal(sent[name], values) {
			return false
		}
	}
	return true
}

func readLoginError(q url.Values) error { // RFC 6749, section 4.1.2.1
	kind, cause := ErrLogin, cmp.Or(knownErrorCode(q.Get("error")), "an unknown error code")
	if cause == "access_denied" {
		kind = ErrDenied
	}
	text := q.Get("error_description")
	if text != "" {
		cause += ": " + quoteUntrusted(text)
	}
	cause += deviationHint(q.Get("error"), text)
	return &Error{Kind: kind, Err: errors.New(cause)}
}
