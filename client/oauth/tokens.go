package oauth

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/internal/wire/authhttp"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

const maxExpiry = 10 * 365 * 24 * time.Hour // a longer expires_in is cut

const bearerScheme = "Bearer" // RFC 6750

func joinScopes(scopes []string) string { return strings.Join(scopes, " ") }

// A grant is the authorization that a token request presents (RFC 6749, section 1.3).
type grant struct {
	form     url.Values   // parameters of the request
	record   *tokenRecord // the login's record, with defaults for the token response
	reusable bool         // may be sent again after a refused token response
}

func newGrant(scopes []string, form url.Values) *grant {
	return &grant{form: form, record: &tokenRecord{Login: rand.Text(), LoggedIn: time.Now(),
		Requested: scopes, Granted: scopes}}
}

// newRefreshGrant returns the grant of a refresh with the granted scopes (RFC 6749, section 6).
func newRefreshGrant(old *tokenRecord) *grant {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.Refresh}}
	if len(old.Granted) > 0 {
		form.Set("scope", joinScopes(old.Granted))
	}
	record := *old
	return &grant{form, &record, true}
}

// A tokenResponse is the response of a token endpoint (RFC 6749, sections 5.1 and 5.2).
type tokenResponse struct {
	Code        string      `json:"error"`
	Description string      `json:"error_description"`
	Access      string      `json:"access_token"`
	Type        string      `json:"token_type"`
	Refresh     string      `json:"refresh_token"`
	Lifetime    json.Number `json:"expires_in"`
	Scope       any         `json:"scope"`
	IssuedType  string      `json:"issued_token_type"` // defined by RFC 8693
}

// requestToken requests a token for a resource (RFC 8707), with the provider's deviations.
func (s *Source) requestToken(ctx context.Context, m *serverMetadata, client *oauthClient,
	resource string, g *grant) (*tokenRecord, error) {
	form, record, p := g.form, g.record, s.providerFor(m.Issuer)
	if !p.NoResource {
		form.Set("resource", resource)
	}
	if form.Has("scope") {
		form.Set("scope", joinScopes(p.serverScopes(strings.Fields(form.Get("scope")))))
	}
	for name, value := range p.TokenParameters {
		form.Set(name, value)
	}
	response, err := s.sendTokenRequest(ctx, m, client, form)
	if err != nil {
		return nil, err
	}
	if err := record.setResponse(response, p); err != nil {
		return nil, &TokenError{Issuer: m.Issuer, Err: err, Retryable: g.reusable, unreadable: true}
	}
	record.ClientID = client.id
	return record, nil
}

func (s *Source) sendTokenRequest(ctx context.Context, m *serverMetadata, client *oauthClient,
	form url.Values) (*tokenResponse, error) {
	r, err := client.newRequest(ctx, m.Token, form)
	if err != nil {
		return nil, &TokenError{Issuer: m.Issuer, Err: err}
	}
	r.Header.Set("Accept", "application/json")
	body, h, err := s.guard.sendRequest(r, http.StatusOK, http.StatusCreated,
		http.StatusAccepted, http.StatusNonAuthoritativeInfo)
	response := readTokenResponse(h, body)
	response.redact(r.Header, form, client.secret)
	switch {
	case err == nil && response.Code == "" && response.Access == "":
		err = errNoTokenResponse
	case err == nil && response.Code == "":
		return response, nil
	}
	return nil, s.tokenError(ctx, m, client, response, err)
}

var errNoTokenResponse = errors.New("the response is not a token response")

// readTokenResponse decodes JSON, or the form that some servers send, or returns a zero response.
func readTokenResponse(h http.Header, body []byte) *tokenResponse {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err == nil && kind == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(body))
		members := map[string]string{}
		for name, values := range form {
			if err != nil || len(values) > 1 {
				return &tokenResponse{}
			}
			if values[0] != "" {
				members[name] = values[0]
			}
		}
		body, _ = json.Marshal(members) // all members are strings
	}
	response := &tokenResponse{}
	if jsonx.Unmarshal(body, response) != nil {
		return &tokenResponse{}
	}
	return response
}

// redact masks secrets of the request and the response in the response's texts.
func (r *tokenResponse) redact(sent http.Header, form url.Values, secret string) {
	_, credentials, _ := strings.Cut(sent.Get("Authorization"), " ")
	secrets := []string{secret, credentials, r.Access, r.Refresh}
	for _, name := range []string{"code", "code_verifier", "refresh_token", "client_assertion",
		"assertion", "subject_token"} {
		secrets = append(secrets, form.Get(name))
	}
	r.Description = redact.MaskParts(r.Description, secrets)
	r.Type = redact.MaskParts(r.Type, secrets)
	if knownErrorCode(r.Code) == "" {
		r.Code = redact.MaskParts(r.Code, secrets)
	}
}

func (r *tokenRecord) setResponse(response *tokenResponse, p *Provider) error {
	if !strings.EqualFold(response.Type, bearerScheme) { // others may need more than the token
		text := "absent"
		if response.Type != "" {
			text = quoteUntrusted(response.Type)
		}
		return errors.New("token_type is " + text + ", want " + bearerScheme)
	}
	if !authhttp.IsToken(response.Access) {
		return errors.New("the token cannot be sent in a header")
	}
	lifetime, err := response.readLifetime()
	if err != nil {
		return err
	}
	r.Access, r.Obtained, r.Expiry = response.Access, time.Now(), time.Time{}
	if lifetime > 0 {
		r.Expiry = r.Obtained.Add(lifetime)
	}
	if response.Refresh != "" {
		r.Refresh = response.Refresh
	}
	if granted, ok := response.Scope.(string); ok {
		r.Granted = p.localScopes(rules.ParseScopes(granted))
	}
	return nil
}

// readLifetime returns expires_in, at most maxExpiry; 0 if absent. Some servers send a string.
func (r *tokenResponse) readLifetime() (time.Duration, error) {
	if r.Lifetime == "" {
		return 0, nil
	}
	seconds, err := r.Lifetime.Int64()
	if err != nil || seconds < 0 {
		return 0, errors.New("expires_in is no number of seconds")
	}
	return time.Duration(min(seconds, int64(maxExpiry/time.Second))) * time.Second, nil
}

// tokenError returns the TokenError of a request (RFC 6749, section 5.2). A well-formed error is
// permanent unless the status is 429 or 5xx. invalid_client removes a dynamic registration.
func (s *Source) tokenError(ctx context.Context, m *serverMetadata, client *oauthClient,
	response *tokenResponse, err error) error {
	failed := &TokenError{Issuer: m.Issuer, Code: knownErrorCode(response.Code), Retryable: true,
		Err: err}
	if refused := (*authhttp.StatusError)(nil); errors.As(err, &refused) {
		failed.RetryAfter = refused.RetryAfter
		if refused.Status >= 500 || refused.Status == http.StatusTooManyRequests {
			return failed
		}
		failed.unreadable = true
	}
	if response.Code == "" {
		failed.unreadable = failed.unreadable || errors.Is(err, errNoTokenResponse)
		return failed
	}
	failed.Retryable, failed.unreadable = false, false
	failed.Err = response.refusal(err)
	if failed.Code == "invalid_client" && client.dynamic {
		if err := s.forgetClient(ctx, m.Issuer, client.id); err != nil {
			return errors.Join(failed, err)
		}
	}
	return failed
}

// refusal returns an error response's cause: err (the status), if not nil, and the description.
func (r *tokenResponse) refusal(err error) error {
	text := "it was refused"
	if err != nil {
		text = err.Error()
	}
	if knownErrorCode(r.Code) == "" {
		text += ", code " + quoteUntrusted(r.Code)
	}
	if r.Description != "" {
		text += ", " + quoteUntrusted(r.Description)
	}
	return errors.New(text + deviationHint(r.Code, r.Description))
}

// requestRevocation revokes the refresh token, or else the access token (RFC 7009), if supported.
func (s *Source) requestRevocation(ctx context.Context, m *serverMetadata, client *oauthClient,
	record *tokenRecord) error {
	if m.Revocation == "" {
		return nil
	}
	token, hint := record.Refresh, "refresh_token"
	if token == "" {
		token, hint = record.Access, "access_token"
	}
	r, err := client.newRequest(ctx, m.Revocation,
		url.Values{"token": {token}, "token_type_hint": {hint}})
	if err != nil {
		return err
	}
	body, _, err := s.guard.sendRequest(r, http.StatusOK)
	if record.Refresh == "" && readTokenResponse(nil, body).Code == "unsupported_token_type" {
		return nil // the server revokes no access tokens (RFC 7009, section 2.2.1)
	}
	return err
}
