package oauth

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/rondo-mcp/rondo/internal/wire/headers"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// maxExpiry is the longest lifetime of a token: a longer expires_in is cut.
const maxExpiry = 10 * 365 * 24 * time.Hour

// joinScopes returns scopes as one parameter (RFC 6749, section 3.3).
func joinScopes(scopes []string) string { return strings.Join(scopes, " ") }

// exchangeCode redeems the code of a login (RFC 6749, section 4.1.3; RFC 7636, section 4.5).
func (s *Source) exchangeCode(ctx context.Context, m *serverMetadata, client *clientID,
	l *loginData, code string) (*tokenRecord, error) {
	config := oauth2.Config{ClientID: client.id, ClientSecret: client.secret,
		Endpoint:    oauth2.Endpoint{TokenURL: m.Token, AuthStyle: client.authStyle()},
		RedirectURL: l.RedirectURI}
	got, err := config.Exchange(s.tokenContext(ctx, m), code, oauth2.VerifierOption(l.Verifier),
		oauth2.SetAuthURLParam("resource", l.Resource))
	if err != nil {
		return nil, s.tokenError(ctx, m, client, err)
	}
	record, err := readTokenResponse(got, l.Scopes)
	if err != nil {
		return nil, &TokenError{Issuer: m.Issuer, Err: err}
	}
	record.Login, record.ClientID = rand.Text(), client.id
	record.LoggedIn = record.Obtained
	record.Requested = l.Scopes
	return record, nil
}

// requestRefresh requests a token with the refresh token of old (RFC 6749, section 6). It requests
// the scopes that were granted: a refresh cannot add any.
func (s *Source) requestRefresh(ctx context.Context, m *serverMetadata, client *clientID,
	resource string, old *tokenRecord) (*tokenRecord, error) {
	config := clientcredentials.Config{ClientID: client.id, ClientSecret: client.secret,
		TokenURL: m.Token, AuthStyle: client.authStyle(), Scopes: old.Granted,
		EndpointParams: url.Values{"grant_type": {"refresh_token"},
			"refresh_token": {old.Refresh}, "resource": {resource}}}
	got, err := config.Token(s.tokenContext(ctx, m))
	if err != nil {
		return nil, s.tokenError(ctx, m, client, err)
	}
	record, err := readTokenResponse(got, old.Granted)
	if err != nil {
		return nil, &TokenError{Issuer: m.Issuer, Err: err, Retryable: true}
	}
	if record.Refresh == "" {
		record.Refresh = old.Refresh
	}
	record.Login, record.ClientID, record.LoggedIn = old.Login, old.ClientID, old.LoggedIn
	record.Requested = old.Requested
	return record, nil
}

// readTokenResponse checks a token response (RFC 6749, section 5.1). scopes are those that were
// requested, and count as granted if the response has none.
func readTokenResponse(got *oauth2.Token, scopes []string) (*tokenRecord, error) {
	if !strings.EqualFold(got.TokenType, "Bearer") {
		return nil, errors.New("the token is not of type Bearer")
	}
	if !isB64Token(got.AccessToken) {
		return nil, errors.New("the token cannot be sent in a header")
	}
	lifetime := readLifetime(got)
	if lifetime < 0 {
		return nil, errors.New("expires_in is negative")
	}
	record := &tokenRecord{Access: got.AccessToken, Refresh: got.RefreshToken,
		Obtained: time.Now(), Granted: scopes}
	if lifetime > 0 {
		record.Expiry = record.Obtained.Add(min(lifetime, maxExpiry))
	}
	if granted, ok := got.Extra("scope").(string); ok {
		record.Granted = headers.ParseScopes(granted)
	}
	return record, nil
}

// readLifetime returns the lifetime of a token from now on; 0: the response has none. Package
// clientcredentials, which sends refresh requests, sets Expiry and leaves ExpiresIn out.
func readLifetime(got *oauth2.Token) time.Duration {
	switch {
	case got.ExpiresIn != 0:
		return time.Duration(max(min(got.ExpiresIn, int64(maxExpiry/time.Second)), -1)) *
			time.Second
	case !got.Expiry.IsZero():
		return time.Until(got.Expiry).Round(time.Second)
	}
	return 0
}

// isB64Token reports whether text is a b64token (RFC 6750, section 2.1).
func isB64Token(text string) bool {
	p := challengeParser{rest: text}
	return p.readToken68() != "" && p.rest == ""
}

// tokenContext returns a context with the HTTP client for token requests.
func (s *Source) tokenContext(ctx context.Context, m *serverMetadata) context.Context {
	client := *s.guard.client
	client.Transport = &strictTransport{next: client.Transport}
	return context.WithValue(ctx, oauth2.HTTPClient, &client)
}

// A strictTransport checks token responses before package oauth2 decodes them: they must be JSON
// without duplicate members, and of at most maxDocumentBytes.
type strictTransport struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t *strictTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	next := t.next
	if next == nil {
		next = http.DefaultTransport
	}
	response, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocumentBytes+1))
	response.Body.Close()
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxDocumentBytes:
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxDocumentBytes)
	case jsonx.Check(body) == nil:
	case response.StatusCode/100 == 2:
		return nil, errNotJSON
	default:
		body = []byte("{}") // an error response without an error code
	}
	if after := readRetryAfter(response.Header); response.StatusCode/100 != 2 && after > 0 {
		response.Header.Set("Retry-After", strconv.Itoa(int(after/time.Second)))
	}
	response.Header.Set("Content-Type", "application/json") // it was checked
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// errNotJSON is the error of a token response that cannot be decoded.
var errNotJSON = errors.New("the answer is not JSON")

// tokenError returns the TokenError for the error of a token request (RFC 6749, section 5.2). After
// invalid_client it forgets a dynamic registration, which the server no longer knows.
func (s *Source) tokenError(ctx context.Context, m *serverMetadata, client *clientID,
	err error) error {
	failed := &TokenError{Issuer: m.Issuer, Retryable: true}
	refused := (*oauth2.RetrieveError)(nil)
	if !errors.As(err, &refused) || refused.Response == nil {
		failed.Err = withoutURL(err)
		return failed
	}
	failed.Code = knownErrorCode(refused.ErrorCode)
	status := refused.Response.StatusCode
	failed.Err = &statusError{status: status}
	failed.RetryAfter = readRetryAfter(refused.Response.Header)
	if status >= 500 || status == http.StatusTooManyRequests || status/100 == 2 {
		return failed
	}
	failed.Retryable = failed.Code == ""
	if failed.Code == "invalid_client" && client.dynamic {
		if err := s.forgetClient(ctx, m.Issuer, client.id); err != nil {
			return errors.Join(failed, err)
		}
	}
	return failed
}

// withoutURL returns the cause of an error of net/http, or a fixed text for an error of package
// oauth2: the URL of the one may have a secret in its query, the other may quote the server.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return errors.New("the answer is not that of a token endpoint")
}

// requestRevocation revokes the refresh token of a login, or the access token if there is no other
// (RFC 7009, section 2.1). It does nothing if the server has no revocation endpoint.
func (s *Source) requestRevocation(ctx context.Context, m *serverMetadata, client *clientID,
	record *tokenRecord) error {
	if m.Revocation == "" {
		return nil
	}
	token, hint := record.Refresh, "refresh_token"
	if token == "" {
		token, hint = record.Access, "access_token"
	}
	form := url.Values{"token": {token}, "token_type_hint": {hint}}
	if client.method != methodBasic {
		form.Set("client_id", client.id)
	}
	if client.method == methodPost {
		form.Set("client_secret", client.secret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Revocation,
		strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if client.method == methodBasic {
		r.SetBasicAuth(url.QueryEscape(client.id), url.QueryEscape(client.secret))
	}
	_, _, err = s.guard.sendRequest(r, http.StatusOK)
	return err
}
