package oauthtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/server/bearer/bearertest"
)

const grantCode, grantRefresh, grantClient = "authorization_code", "refresh_token",
	"client_credentials"

const lifetime = time.Hour

// A Grant is a user's consent.
type Grant struct {
	Client   string
	Subject  string
	Resource string
	Scopes   []string
}

func (g Grant) covers(scopes []string) bool {
	return !slices.ContainsFunc(scopes,
		func(scope string) bool { return !slices.Contains(g.Scopes, scope) })
}

// A token is a code, refresh token or access token. Reuse of a code or refresh token revokes all.
type token struct {
	kind    string // grant type that redeems it; empty: it is an access token
	grant   Grant
	used    bool
	expires time.Time // expiry of an access token

	redirect, challenge string // set for a code
}

func (s *Server) addLocked(text string, t token) string {
	s.secrets = append(s.secrets, text)
	s.tokens[text] = &t
	return text
}

// checkRequest returns the error for a duplicate parameter or a missing resource indicator.
func checkRequest(form url.Values) string {
	for _, values := range form {
		if len(values) > 1 {
			return "invalid_request"
		}
	}
	u, err := url.Parse(form.Get("resource"))
	if err != nil || !u.IsAbs() || u.Host == "" || strings.Contains(form.Get("resource"), "#") {
		return "invalid_target"
	}
	return ""
}

// answerAuthorizeLocked consents at once. Mistakes in the client or the redirect URI are shown to
// the user. Other mistakes are sent to the client (RFC 6749 section 4.1.2.1).
func (s *Server) answerAuthorizeLocked(r *Request) *Answer {
	q := r.Form
	client, redirect := s.clients[q.Get("client_id")], q.Get("redirect_uri")
	mistake := checkRequest(q)
	if client == nil || !s.mayRedirect(client, redirect) || mistake == "invalid_request" {
		return &Answer{Status: http.StatusBadRequest, Body: "client, redirect URI or a repetition"}
	}
	challenge := q.Get("code_challenge")
	switch {
	case q.Get("response_type") != "code":
		mistake = "unsupported_response_type"
	case q.Get("code_challenge_method") != "S256" || len(challenge) != 43:
		mistake = "invalid_request"
	case !slices.Contains(client.grantTypes, grantCode):
		mistake = "unauthorized_client"
	case q.Has("scope") && q.Get("scope") == "":
		mistake = "invalid_scope"
	}
	a := failed(mistake)
	if mistake == "" {
		a = &Answer{Document: Document{"code": s.addLocked("code-"+rand.Text(), token{
			kind: grantCode, redirect: redirect, challenge: challenge, grant: Grant{client.ID,
				s.subject, q.Get("resource"), strings.Fields(q.Get("scope"))}})}}
	}
	a.redirect, a.Document["iss"] = redirect, s.URL
	if q.Has("state") {
		a.Document["state"] = q.Get("state")
	}
	return a
}

func (s *Server) answerTokenLocked(r *Request) *Answer {
	kind := r.Form.Get("grant_type")
	if r.Method != http.MethodPost || r.URL.RawQuery != "" ||
		r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return failed("invalid_request")
	}
	if mistake := checkRequest(r.Form); mistake != "" {
		return failed(mistake)
	}
	client := s.authenticateLocked(r)
	if client == nil {
		return failed("invalid_client")
	}
	if !slices.Contains(client.grantTypes, kind) {
		return failed("unauthorized_client")
	}
	scopes := strings.Fields(r.Form.Get("scope"))
	if kind == grantClient {
		return s.issueLocked(client, Grant{client.ID, client.ID, r.Form.Get("resource"), scopes},
			scopes)
	}
	grant, mistake := s.redeemLocked(client, kind, r.Form)
	if scopes == nil || kind == grantCode {
		scopes = grant.Scopes
	}
	if mistake == "" && !grant.covers(scopes) {
		mistake = "invalid_scope"
	}
	if mistake != "" {
		return failed(mistake)
	}
	return s.issueLocked(client, grant, scopes)
}

func (s *Server) redeemLocked(client *Client, kind string, form url.Values) (Grant, string) {
	text, verifier := form.Get("code"), form.Get("code_verifier")
	if kind == grantRefresh {
		text = form.Get("refresh_token")
	}
	s.secrets = append(s.secrets, verifier)
	sum := sha256.Sum256([]byte(verifier))
	found := s.tokens[text]
	switch {
	case found == nil, found.kind != kind, found.grant.Client != client.ID:
		return Grant{}, "invalid_grant"
	case found.used:
		clear(s.tokens)
		return Grant{}, "invalid_grant"
	case kind == grantCode && (len(verifier) < 43 || len(verifier) > 128 ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != found.challenge ||
		form.Get("redirect_uri") != found.redirect):
		return Grant{}, "invalid_grant"
	case form.Get("resource") != found.grant.Resource:
		return Grant{}, "invalid_target"
	}
	found.used = true
	return found.grant, ""
}

func (s *Server) issueLocked(client *Client, grant Grant, scopes []string) *Answer {
	narrow := grant
	narrow.Scopes = scopes
	d := Document{"access_token": s.makeAccessLocked(narrow), "token_type": "Bearer",
		"expires_in": int(lifetime / time.Second), "scope": strings.Join(scopes, " ")}
	if slices.Contains(client.grantTypes, grantRefresh) {
		d["refresh_token"] = s.addLocked("refresh-"+rand.Text(),
			token{kind: grantRefresh, grant: grant})
	}
	return &Answer{Document: d}
}

func (s *Server) makeAccessLocked(grant Grant) string {
	text := "access-" + rand.Text()
	if !s.opts.Opaque {
		text = s.issuers[len(s.issuers)-1].Issue(bearertest.Token{Subject: grant.Subject,
			ClientID: grant.Client, Audience: grant.Resource, Scopes: grant.Scopes,
			Lifetime: lifetime})
	}
	return s.addLocked(text, token{grant: grant, expires: time.Now().Add(lifetime)})
}

// Issue returns a new access token of a user.
func (s *Server) Issue(grant Grant) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	grant.Client, grant.Subject = "client", s.subject
	return s.makeAccessLocked(grant)
}

// Check returns the grant of a valid access token.
func (s *Server) Check(text string) (Grant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.tokens[text]
	if found == nil || found.kind != "" || !time.Now().Before(found.expires) {
		return Grant{}, false
	}
	return found.grant, true
}

// Expire revokes all access tokens.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.tokens, func(_ string, t *token) bool { return t.kind == "" })
}

// RevokeAll revokes all tokens.
func (s *Server) RevokeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}
